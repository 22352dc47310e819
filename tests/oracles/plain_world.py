"""The worlds in slow and obvious plain Python: what the library must agree with, and what it is timed against.

A state is a list of ``(row, column)``, one per object of the scene. Nothing here uses numpy or the library's dynamics.
"""

import random

Position = tuple[int, int]
Picture = list[list[tuple[int, int, int]]]

STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west


def move(height: int, width: int, positions: list[Position], slot: int, direction: int) -> tuple[list[Position], bool]:
    """The state after moving one object one cell (slot -1: none), and whether it moved."""
    after = list(positions)
    if slot < 0:
        return after, False
    row, column = positions[slot]
    row_step, column_step = STEPS[direction]
    target = (row + row_step, column + column_step)
    inside = 0 <= target[0] < height and 0 <= target[1] < width
    if not inside or target in positions:
        return after, False
    after[slot] = target
    return after, True


def place(height: int, width: int, k: int, rng: random.Random) -> list[Position]:
    cells = [(row, column) for row in range(height) for column in range(width)]
    return rng.sample(cells, k)


def random_walk(
    height: int,
    width: int,
    headings: list[int],
    positions: list[Position],
    steps: int,
    moving: float | None,
    rng: random.Random,
) -> tuple[list[list[Position]], list[int], list[int]]:
    """All states, the slots acted on and their relative directions.

    With ``moving`` = 0.9 (the 90 % rule) the action is one of those that move something with probability 0.9, and
    else one of those that do not; where either kind is missing, the other is used.
    """
    actions = [(slot, direction) for slot in range(len(positions)) for direction in range(4)]
    states, slots, relative_directions = [positions], [], []
    for _ in range(steps):
        if moving is None:
            choices = actions
        else:
            movers, idlers = [], []
            for slot, direction in actions:
                _, moved = move(height, width, positions, slot, direction)
                (movers if moved else idlers).append((slot, direction))
            choices = (movers or idlers) if rng.random() < moving else (idlers or movers)
        slot, direction = rng.choice(choices)
        positions, _ = move(height, width, positions, slot, direction)
        states.append(positions)
        slots.append(slot)
        relative_directions.append((direction - headings[slot]) % 4)
    return states, slots, relative_directions


def collect(
    height: int, width: int, k: int, episodes: int, steps: int, moving: float | None, rng: random.Random
) -> list[tuple[list[list[Position]], list[int], list[int]]]:
    """Random walks from random placements, one after the other."""
    return [
        random_walk(height, width, [0] * k, place(height, width, k, rng), steps, moving, rng) for _ in range(episodes)
    ]


def render(
    height: int,
    width: int,
    cell_pixels: int,
    silhouettes: list[list[list[bool]]],
    colours: list[tuple[int, int, int]],
    positions: list[Position],
) -> Picture:
    """A picture, pixel by pixel; silhouettes and colours are those of the objects of the scene."""
    picture = [[(0, 0, 0)] * (width * cell_pixels) for _ in range(height * cell_pixels)]
    for (row, column), silhouette, colour in zip(positions, silhouettes, colours, strict=True):
        for y in range(cell_pixels):
            for x in range(cell_pixels):
                if silhouette[y][x]:
                    picture[row * cell_pixels + y][column * cell_pixels + x] = colour
    return picture
