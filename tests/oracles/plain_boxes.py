"""Worlds of boxes in slow and obvious plain Python: what `howm.worlds.object_world` must agree with.

A state is a list of centres (row, column); nothing here uses numpy or the library's dynamics. A grid is free space
whose boxes are cells: pass centres of cells, halves of 0.5 and a step of 1.
"""

from dataclasses import dataclass

TOUCH = 1e-9
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west


@dataclass
class Box:
    row: float
    column: float
    half: float
    kind: str = "movable"  # movable, heavy, fixed or ghost
    team: int = 0

    def moved(self, direction: int, distance: float) -> "Box":
        down, right = STEPS[direction]
        return Box(self.row + down * distance, self.column + right * distance, self.half, self.kind, self.team)


def overlaps(a: Box, b: Box) -> bool:
    if a.kind == "ghost" or b.kind == "ghost":
        return False
    reach = a.half + b.half - TOUCH
    return abs(a.row - b.row) < reach and abs(a.column - b.column) < reach


def inside(box: Box, height: float, width: float) -> bool:
    down = box.half - TOUCH <= box.row <= height - box.half + TOUCH
    return down and box.half - TOUCH <= box.column <= width - box.half + TOUCH


def ahead_of(a: Box, b: Box, direction: int) -> float | None:
    """How far box a can go until it touches b; None if it never does."""
    down, right = STEPS[direction]
    distance = (b.row - a.row) * down + (b.column - a.column) * right
    aside = abs((b.row - a.row) * right) + abs((b.column - a.column) * down)
    if "ghost" in (a.kind, b.kind) or distance <= 0 or aside >= a.half + b.half - TOUCH:
        return None
    return distance - a.half - b.half


def block(boxes: list[Box], mover: int, direction: int, step: float, height: float, width: float) -> list[Box]:
    target = boxes[mover].moved(direction, step)
    others = [box for j, box in enumerate(boxes) if j != mover]
    if (
        boxes[mover].kind == "fixed"
        or not inside(target, height, width)
        or any(overlaps(target, box) for box in others)
    ):
        return boxes
    return [target if j == mover else box for j, box in enumerate(boxes)]


def overlap(boxes: list[Box], mover: int, direction: int, step: float, height: float, width: float) -> list[Box]:
    target = boxes[mover].moved(direction, step)
    if boxes[mover].kind == "fixed" or not inside(target, height, width):
        return boxes
    return [target if j == mover else box for j, box in enumerate(boxes)]


def slide(boxes: list[Box], mover: int, direction: int, step: float, height: float, width: float) -> list[Box]:
    me = boxes[mover]
    border = {0: me.row, 1: width - me.column, 2: height - me.row, 3: me.column}[direction] - me.half
    gaps = [ahead_of(me, box, direction) for j, box in enumerate(boxes) if j != mover]
    room = min([step, border, *(gap for gap in gaps if gap is not None)])
    if me.kind == "fixed" or room <= TOUCH:
        return boxes
    return [box.moved(direction, room) if j == mover else box for j, box in enumerate(boxes)]


def push(boxes: list[Box], mover: int, direction: int, step: float, height: float, width: float) -> list[Box]:
    """The mover goes the full step; whatever it meets on the way is carried along, and so on; all or nothing."""
    if boxes[mover].kind == "fixed":
        return boxes
    carried = {mover: step}
    changed = True
    while changed:
        changed = False
        for i, distance in list(carried.items()):
            for j, box in enumerate(boxes):
                gap = None if i == j else ahead_of(boxes[i], box, direction)
                if gap is not None and distance - gap > carried.get(j, 0.0) + TOUCH:
                    carried[j] = distance - gap
                    changed = True
    for j, distance in carried.items():
        if j != mover and boxes[j].kind != "movable":
            return boxes
        if not inside(boxes[j].moved(direction, distance), height, width):
            return boxes
    return [box.moved(direction, carried.get(j, 0.0)) for j, box in enumerate(boxes)]


def team(boxes: list[Box], mover: int, direction: int, step: float, height: float, width: float) -> list[Box]:
    """Everyone of the mover's team, the foremost first, by the block rule."""
    if boxes[mover].kind == "fixed":
        return boxes
    down, right = STEPS[direction]
    order = sorted(range(len(boxes)), key=lambda j: -(boxes[j].row * down + boxes[j].column * right))
    start = boxes
    for j in order:
        if start[j].team == start[mover].team:
            boxes = block(boxes, j, direction, step, height, width)
    return boxes


RULES = {"block": block, "overlap": overlap, "slide": slide, "push": push, "team": team}


def draw(
    canvas: list[list[tuple[int, int, int]]],
    sprite: list[list[float]],
    colour: tuple[int, int, int],
    row: float,
    column: float,
) -> None:
    """Draw one sprite of plain colour with its centre at (row, column) in pixels, in place, pixel by pixel.

    A pixel is covered by what bilinear shifting gives of the sprite's own coverage, in steps of 1/256.
    """
    side = len(sprite)
    top, left = row - side / 2, column - side / 2

    def coverage(y: float, x: float) -> float:
        """Of the sprite moved to (top, left), at pixel (y, x)."""
        total = 0.0
        for i in range(side):
            for j in range(side):
                down, right = 1 - abs(y - (top + i)), 1 - abs(x - (left + j))
                if down > 0 and right > 0:
                    total += sprite[i][j] * down * right
        return total

    for y in range(len(canvas)):
        for x in range(len(canvas[0])):
            if top - 1 < y < top + side + 1 and left - 1 < x < left + side + 1:
                alpha = round(256 * coverage(y, x))
                below = canvas[y][x]
                mixed = [(b * (256 - alpha) + c * alpha + 128) >> 8 for b, c in zip(below, colour, strict=True)]
                canvas[y][x] = (mixed[0], mixed[1], mixed[2])
