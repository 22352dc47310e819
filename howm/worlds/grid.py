"""The dynamics: K objects on a grid, one of them moves one cell unless a border or another object is in the way.

Pure numpy, many episodes at once, no drawing. A state is ``cells``: the cell ``row * width + column`` of each object
of the scene. Directions 0-3 are north, east, south, west; an object's *relative* direction is added to its heading.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Integer

from howm.errors import HowmError

ROW_STEP = np.array([-1, 0, 1, 0])
COLUMN_STEP = np.array([0, 1, 0, -1])


@dataclass(frozen=True)
class Grid:
    """A board of cells, numbered row by row, and the rules by which objects move on it."""

    height: int = 5
    width: int = 5

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise HowmError(f"a grid of {self.height}x{self.width} cells has no room; give 1x1 or more")

    @classmethod
    def parse(cls, text: str) -> "Grid":
        """HxW, or one number for both."""
        height, _, width = text.partition("x")
        try:
            return cls(int(height), int(width or height))
        except ValueError:
            raise HowmError(f"grid={text!r} must be HxW, for example 5x5") from None

    @property
    def cell_count(self) -> int:
        return self.height * self.width

    def check_room(self, k: int) -> None:
        if k > self.cell_count:
            raise HowmError(
                f"k={k} objects do not fit on a grid of {self.height}x{self.width} cells; use a larger grid"
            )

    @cached_property
    def neighbours(self) -> Integer[np.ndarray, "cells_and_wall 4"]:
        """The cell next to each cell by direction; beyond the border lies the extra cell ``cell_count``, a wall."""
        rows, columns = np.divmod(np.arange(self.cell_count), self.width)
        to_row, to_column = rows[:, None] + ROW_STEP, columns[:, None] + COLUMN_STEP
        inside = (to_row >= 0) & (to_row < self.height) & (to_column >= 0) & (to_column < self.width)
        table = np.where(inside, to_row * self.width + to_column, self.cell_count)
        return np.vstack([table, np.full((1, 4), self.cell_count)])

    def positions(self, cells: Integer[np.ndarray, "*shape"]) -> Integer[np.ndarray, "*shape 2"]:
        """Row and column of each cell."""
        return np.stack(np.divmod(cells, self.width), axis=-1)

    def place(self, rng: np.random.Generator, episodes: int, k: int) -> Integer[np.ndarray, "episodes k"]:
        """A uniformly random arrangement of k objects on different cells, for each episode."""
        self.check_room(k)
        return rng.random((episodes, self.cell_count)).argsort(axis=1)[:, :k]

    def move(
        self,
        cells: Integer[np.ndarray, "episodes k"],
        slot: Integer[np.ndarray, " episodes"],
        direction: Integer[np.ndarray, " episodes"],
    ) -> tuple[Integer[np.ndarray, "episodes k"], Bool[np.ndarray, " episodes"]]:
        """Move object ``slot`` of each episode in an absolute direction; slot -1 moves nothing. Also says who moved."""
        episode = np.arange(len(cells))
        target = self.neighbours[cells[episode, slot], direction]
        moved = (slot >= 0) & (target < self.cell_count) & ~(cells == target[:, None]).any(axis=1)
        after = cells.copy()
        after[episode[moved], slot[moved]] = target[moved]
        return after, moved

    def act(
        self,
        headings: Integer[np.ndarray, " N"],
        scene_ids: Integer[np.ndarray, "episodes k"],
        cells: Integer[np.ndarray, "episodes k"],
        actions: Integer[np.ndarray, " episodes"],
    ) -> tuple[Integer[np.ndarray, "episodes k"], Bool[np.ndarray, " episodes"], Bool[np.ndarray, " episodes"]]:
        """Take a library action in each episode; also says who moved and whose object is absent (which is a no-op)."""
        objects, relative = np.divmod(np.asarray(actions, dtype=np.int64), 4)
        slots = find_slots(scene_ids, objects)
        after, moved = self.move(np.asarray(cells, dtype=np.int64), slots, (headings[objects] + relative) % 4)
        return after, moved, slots < 0


def find_slots(
    scene_ids: Integer[np.ndarray, "episodes k"], objects: Integer[np.ndarray, " episodes"]
) -> Integer[np.ndarray, " episodes"]:
    """Where in its scene each library object stands; -1 where it is absent."""
    present = scene_ids == objects[:, None]
    return np.where(present.any(axis=1), present.argmax(axis=1), -1)


def random_walk(
    grid: Grid,
    headings: Integer[np.ndarray, "episodes k"],
    cells: Integer[np.ndarray, "episodes k"],
    steps: int,
    moving: float | None,
    rng: np.random.Generator,
) -> tuple[
    Integer[np.ndarray, "episodes {steps}+1 k"],
    Integer[np.ndarray, "episodes {steps}"],
    Integer[np.ndarray, "episodes {steps}"],
]:
    """Act at random and return all states, the slots acted on and their *relative* directions.

    With ``moving`` = 0.9 a transition moves an object with probability 0.9, uniformly among the actions that do, and
    else is uniform among the blocked ones (where either kind is missing, the other is used): drawing again until
    the outcome is as wanted would give the same distribution. ``None`` draws uniformly from all actions.
    """
    episodes, k = cells.shape
    episode = np.arange(episodes)
    # All episodes' maps of occupied cells, each within a ring of walls, lie in one flat array. An object is known by
    # the place of the cell to its north, so that the cells ahead of all objects are one look-up in a shifted view.
    walled = np.pad(np.zeros((grid.height, grid.width), dtype=bool), 1, constant_values=True)
    row = grid.width + 2
    strides = ROW_STEP * row + COLUMN_STEP
    occupied = np.tile(walled.ravel(), episodes)
    here = occupied[row:]
    ahead = [occupied[row + stride :] for stride in strides.tolist()]
    map_start = episode * walled.size
    place_of_cell = np.flatnonzero(~walled) - row
    cell_at_place = np.zeros(walled.size, dtype=np.min_scalar_type(grid.cell_count - 1))
    cell_at_place[place_of_cell] = np.arange(grid.cell_count)
    # Axes: actions first and episodes last, so that every operation runs along contiguous memory.
    current = np.ascontiguousarray(place_of_cell[cells.T] + map_start)  # (k, episodes)
    heading = np.ascontiguousarray(headings.T)
    here[current] = True

    trail = np.empty((steps + 1, k, episodes), dtype=cell_at_place.dtype)
    slots = np.empty((steps, episodes), dtype=np.int16)
    relative = np.empty((steps, episodes), dtype=np.int8)
    trail[0] = cells.T
    blocked = np.empty((k, 4, episodes), dtype=bool)
    for step in range(steps):
        for direction in range(4):
            blocked[:, direction] = ahead[direction].take(current)
        action = draw_action(blocked.reshape(k * 4, episodes), moving, rng)
        slot, direction_taken = action >> 2, action & 3
        actor = slot * episodes + episode  # flat indices, which numpy takes faster than pairs
        moved = ~blocked.take(action * episodes + episode)
        source = current.take(actor)
        target = source + strides.take(direction_taken) * moved
        here[source] = False
        here[target] = True
        current.reshape(-1)[actor] = target
        trail[step + 1] = trail[step]
        trail[step + 1].reshape(-1)[actor] = cell_at_place.take(target - map_start)
        slots[step], relative[step] = slot, (direction_taken - heading.take(actor)) & 3
    return trail.transpose(2, 0, 1), slots.T, relative.T


def draw_action(
    blocked: Bool[np.ndarray, "actions episodes"], moving: float | None, rng: np.random.Generator
) -> Integer[np.ndarray, " episodes"]:
    """One action per episode, uniform among the wanted ones: the one with as many wanted before it as a die says."""
    actions, episodes = blocked.shape
    if moving is None:
        return np.asarray(rng.integers(actions, size=episodes))
    wanted = blocked ^ (rng.random(episodes) < moving)
    up_to = wanted.astype(np.min_scalar_type(actions))  # how many are wanted up to each action
    total = up_to[0]
    for following in up_to[1:]:  # np.cumsum along this axis takes three times as long
        following += total
        total = following
    if not total.all():  # none wanted: any will do
        up_to[:, total == 0] = np.arange(1, actions + 1, dtype=up_to.dtype)[:, None]
    die = (rng.random(episodes) * total).astype(up_to.dtype)
    return np.asarray((up_to <= die).sum(axis=0, dtype=up_to.dtype).astype(np.intp))
