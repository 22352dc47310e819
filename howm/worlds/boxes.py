"""Boxes in a grid or in free space: where objects are, and how they move.

Positions are (row, column): cells in a grid, shares of the picture's width in free space. In free space an object is
an axis-aligned box with the extent of its sprite, and its position is the box's centre; a move displaces it by the full
step or not at all (see `contact` for what stops it).
"""

from abc import ABC
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Integer, Num

from howm.errors import HowmError
from howm.worlds.contact import CONTACTS, TOUCH, Boxes
from howm.worlds.grid import draw_action, find_slots
from howm.worlds.library import LibraryObject, ObjectLibrary
from howm.worlds.placing import place_boxes
from howm.worlds.silhouettes import extent, silhouette
from howm.worlds.symmetry import Replacement
from howm.worlds.traits import CLASSES, FIXED, GHOST, MOVABLE, Classes, classes, teams
from howm.worlds.world import Actions, Scenes, States, World

Contact = Literal["block", "slide", "overlap", "push", "team"]
ROUNDING = 1e-6  # of a step
AT_ONCE = 2_000  # moves: their arrays stay in cache


@dataclass(frozen=True)
class BoxWorld(World, ABC):
    """A library, a space and what happens on contact; how it looks is left to subclasses.

    A state is row and column of each object and, where cars turn, by how many turns.
    """

    n: int = 10
    seed: int = 0
    kind: Literal["shapes", "rush_hour"] = "shapes"  # of objects
    space: Literal["grid", "free"] = "free"
    contact: Contact = "block"
    classes: Classes = "none"
    size: tuple[int, ...] = (50, 50)  # height and width of a picture, in pixels
    cells: tuple[int, ...] = (5, 5)  # rows and columns of a grid; in free space a large object has the size of a cell
    step_size: float = 0.1  # of the picture's width, in free space
    turn: int = 0  # degrees by which the actions 1 and 3 turn a car right and left; 0: they move it there
    objects: tuple[LibraryObject, ...] = field(default=(), repr=False)  # by default those that the seed names

    def __post_init__(self) -> None:
        if not self.objects:
            object.__setattr__(self, "objects", ObjectLibrary.make(self.kind, self.n, self.seed).objects)
        if self.library.n != self.n:
            raise HowmError(f"a library of {self.library.n} objects is not one of n={self.n}")
        if len(self.size) != 2 or len(self.cells) != 2 or min(*self.size, *self.cells) < 1:
            raise HowmError(f"size and cells must be two positive integers each, got {self.size} and {self.cells}")
        if any(side % count for side, count in zip(self.size, self.cells, strict=True)):
            raise HowmError(f"size {self.size} must be a multiple of cells {self.cells}")
        if self.size[0] * self.cells[1] != self.size[1] * self.cells[0]:
            raise HowmError(f"cells must be square: got {self.cells} of them in {self.size} pixels")
        silhouette("square", "large", self._cell)  # refuses objects that are too small to draw
        if not 0 < self.step_size < 1:
            raise HowmError(f"step_size must be between 0 and 1, got {self.step_size}")
        if self.turn < 0 or (self.turn and 360 % self.turn):
            raise HowmError(f"turn must be degrees that divide 360, or 0, got {self.turn}")
        if self.turn and (self.kind != "rush_hour" or (self.space == "grid" and self.turn % 90)):
            raise HowmError(f"only cars turn (kind=rush_hour), and by 90 on a grid; set turn to 0, got {self.turn}")
        if self.turn % 90 and self.contact not in ("block", "overlap"):
            raise HowmError(f"contact={self.contact} needs moves along the axes; set turn to 0, 90 or 180")

    @property
    def overlap(self) -> bool:
        return self.contact == "overlap" or bool((self.object_classes == GHOST).any())

    @property
    def moves_others(self) -> bool:
        return self.contact in ("push", "team")

    @cached_property
    def library(self) -> ObjectLibrary:
        return ObjectLibrary(self.kind, self.objects, self.seed)

    @property
    def height(self) -> int:
        return self.size[0]

    @property
    def width(self) -> int:
        return self.size[1]

    @property
    def cell_pixels(self) -> int | None:
        return self.size[0] // self.cells[0] if self.space == "grid" else None

    @property
    def _cell(self) -> int:
        """The side, in pixels, of the square that a large object fills."""
        return self.size[0] // self.cells[0]

    @cached_property
    def object_classes(self) -> Integer[np.ndarray, " N"]:
        return classes(self.library, self.classes)

    @cached_property
    def object_teams(self) -> Integer[np.ndarray, " N"]:
        return teams(self.library)

    @cached_property
    def _unit(self) -> float:
        """Pixels in a unit of position: a cell, or the picture's width."""
        return float(self._cell if self.space == "grid" else self.width)

    @cached_property
    def half(self) -> Float[np.ndarray, " N"]:
        """Half the side of each object's box, in units of position."""
        if self.space == "grid":
            return np.full(self.n, 0.5)
        sides = [extent(item.size, self._cell) for item in self.objects]
        return np.array(sides) / (2 * self._unit)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("↑", "→", "↓", "←")  # of cars, relative to where they face

    def check_scene_size(self, k: int) -> None:
        super().check_scene_size(k)
        if self.space == "grid" and k > self.cells[0] * self.cells[1]:
            raise HowmError(f"k={k} objects do not fit into {self.cells[0]}x{self.cells[1]} cells; give more cells")

    @property
    def turns(self) -> int:
        """In how many directions a car can face."""
        return 360 // self.turn if self.turn else 1

    def turns_of(self, state: States) -> Integer[np.ndarray, "E K"]:
        """By how many turns each object is turned."""
        return state[..., 2].astype(np.intp) if self.turn else np.zeros(state.shape[:2], dtype=np.intp)

    def reset(self, scenes: Scenes, rng: np.random.Generator) -> States:
        episodes, k = scenes.shape
        self.check_scene_size(k)
        if self.space == "grid":
            cells = rng.random((episodes, self.cells[0] * self.cells[1])).argsort(axis=1)[:, :k]
            columns = [*np.divmod(cells, self.cells[1])]
        else:
            solid = (self.object_classes[scenes] != GHOST) & (self.contact != "overlap")
            sides = np.array(self.size) / self._unit
            columns = [*np.moveaxis(place_boxes(self.half[scenes], solid, sides, rng), 2, 0)]
        if self.turn:
            columns.append(rng.integers(self.turns, size=(episodes, k)))
        return np.stack(columns, axis=2).astype(np.int64 if self.space == "grid" else np.float64)

    def step(self, scenes: Scenes, state: States, action: Actions) -> States:
        who, what = np.divmod(action, self.actions_per_object)
        slot = find_slots(scenes, who)
        present = slot >= 0
        position, turns = state[..., :2], self.turns_of(state)
        row = np.arange(len(scenes))
        after = state.copy()
        moves = present
        headings = self._headings[who]
        if self.turn:
            turning = present & (what % 2 == 1)
            moves = present & ~turning
            turned = (turns[row, slot] + np.where(what == 1, 1, -1)) % self.turns
            after[row[turning], slot[turning], 2] = turned[turning]
        rows = np.flatnonzero(moves)
        degrees = 90 * (headings + what)[rows]
        if self.turn:
            degrees = 90 * headings[rows] + self.turn * turns[rows, slot[rows]] + 90 * what[rows]
        if self.turn % 90:
            after[rows, :, :2] = self._move_freely(scenes[rows], position[rows], slot[rows], degrees)
        else:
            after[rows, :, :2] = self._move(scenes[rows], position[rows], slot[rows], degrees // 90 % 4)
        return after

    @cached_property
    def _headings(self) -> Integer[np.ndarray, " N"]:
        return self.library.headings.astype(np.int64)

    def _boxes(self, scenes: Scenes, position: Num[np.ndarray, "E K 2"], direction: Actions) -> Boxes:
        """The objects as boxes for a move north, east, south or west (0-3) in each row."""
        grid = self.space == "grid"
        sideways, sign = direction % 2 == 1, np.where((direction == 1) | (direction == 2), 1.0, -1.0)
        down, right = (np.ascontiguousarray(position[..., axis].T) + 0.5 * grid for axis in range(2))
        ids = np.ascontiguousarray(scenes.T)
        half, kind = self.half[ids], self.object_classes[ids]
        sides = np.array(self.cells if grid else self.size) / (1 if grid else self._unit)
        side = np.where(sideways, sides[1], sides[0])
        return Boxes(
            along=sign * np.where(sideways, right, down),
            across=np.where(sideways, down, right),
            half=half,
            limit=np.where(sign > 0, side - half, -half),
            solid=kind != GHOST,
            mobile=kind != FIXED,
            pushable=kind == MOVABLE,
            team=self.object_teams[ids],
        )

    def _move(
        self, scenes: Scenes, position: Num[np.ndarray, "E K 2"], slot: Actions, direction: Actions
    ) -> Num[np.ndarray, "E K 2"]:
        """Positions after the object in ``slot`` sets out."""
        moved = CONTACTS[self.contact](self._boxes(scenes, position, direction), self._stride)
        return _displaced(position, moved[slot, :, np.arange(len(scenes))], direction)

    @property
    def _stride(self) -> float:
        return 1.0 if self.space == "grid" else self.step_size

    def play(
        self, scenes: Scenes, start: States, steps: int, moving: float | None, rng: np.random.Generator
    ) -> tuple[Num[np.ndarray, "E {steps}+1 K F"], Integer[np.ndarray, "E {steps}"]]:
        """As every world plays; all moves along the axes are tried at once."""
        if self.turn:
            return super().play(scenes, start, steps, moving, rng)
        row, headings = np.arange(len(scenes)), self._headings[scenes]
        states = np.empty((len(scenes), steps + 1, *start.shape[1:]), dtype=start.dtype)
        actions = np.empty((len(scenes), steps), dtype=np.int64)
        states[:, 0] = start
        for t in range(steps):
            position = states[:, t, :, :2]
            moved = self._all_moves(scenes, position)
            blocked = ~moved.any(axis=1).reshape(-1, len(scenes))
            chosen = draw_action(blocked, moving, rng)
            slot, direction = chosen >> 2, chosen & 3
            states[:, t + 1] = states[:, t]
            states[:, t + 1, :, :2] = _displaced(position, moved[slot, :, direction, row], direction)
            actions[:, t] = 4 * scenes[row, slot] + (direction - headings[row, slot]) % 4
        return states, actions

    def _all_moves(self, scenes: Scenes, position: Num[np.ndarray, "E K 2"]) -> Float[np.ndarray, "K K 4 E"]:
        """How far each object would be displaced if one sets out: by mover, object and direction."""
        episodes, k = scenes.shape
        directions = np.repeat(np.arange(4), episodes)
        everywhere, tried = np.tile(scenes, (4, 1)), np.tile(position, (4, 1, 1))
        parts = (slice(begin, begin + AT_ONCE) for begin in range(0, len(tried), AT_ONCE))
        boxes = (self._boxes(everywhere[part], tried[part], directions[part]) for part in parts)
        moved = [CONTACTS[self.contact](some, self._stride) for some in boxes]
        return np.concatenate(moved, axis=2).reshape(k, k, 4, episodes)

    def successors(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E offered K F"]:
        """As of every world; all moves along the axes are tried at once."""
        if self.turn or not len(scenes):
            return super().successors(scenes, state)
        episodes, k = scenes.shape
        moved = self._all_moves(scenes, state[..., :2]).transpose(3, 0, 2, 1)  # mover, direction, object
        direction = (self._headings[scenes][..., None] + np.arange(4)) % 4
        turned = np.take_along_axis(moved, direction[..., None], axis=2).astype(state.dtype)
        after = np.broadcast_to(state[:, None, None], (episodes, k, 4, *state.shape[1:])).copy()
        for axis in range(2):
            sign = np.array([[-1, 0, 1, 0], [0, 1, 0, -1]], dtype=state.dtype)[axis, direction]
            after[..., axis] += sign[..., None] * turned
        return after.reshape(episodes, 4 * k, *state.shape[1:])

    def steps_between(self, scenes: Scenes, state: States, goal: States) -> Integer[np.ndarray, " E"] | None:
        """Summed distances in steps, and turns; None where one action can move several objects."""
        if self.contact in ("push", "team"):
            return None
        apart = np.abs(state[..., :2] - goal[..., :2]) / self._stride
        if self.turn % 90:
            apart = np.sqrt((apart**2).sum(axis=2, keepdims=True))
        steps = np.ceil(apart - ROUNDING).sum(axis=(1, 2)).astype(np.int64)
        around = np.abs(self.turns_of(state) - self.turns_of(goal))
        return np.asarray(steps + np.minimum(around, self.turns - around).sum(axis=1))

    def _move_freely(
        self, scenes: Scenes, position: Float[np.ndarray, "E K 2"], slot: Actions, degrees: Actions
    ) -> Float[np.ndarray, "E K 2"]:
        """Positions after the object in ``slot`` sets out at an angle, clockwise from north; to block or overlap."""
        row = np.arange(len(scenes))
        angle = np.deg2rad(degrees)
        target = position[row, slot] + self.step_size * np.stack([-np.cos(angle), np.sin(angle)], axis=1)
        half, kind = self.half[scenes], self.object_classes[scenes]
        own = half[row, slot, None]
        free = ((target >= own - TOUCH) & (target <= np.array(self.size) / self._unit - own + TOUCH)).all(axis=1)
        if self.contact == "block":
            near = (np.abs(position - target[:, None]) < (half + own - TOUCH)[..., None]).all(axis=2)
            near &= (kind != GHOST) & (kind[row, slot] != GHOST)[:, None]
            near[row, slot] = False
            free &= ~near.any(axis=1)
        free &= kind[row, slot] != FIXED
        after = position.copy()
        after[row[free], slot[free]] = target[free]
        return after

    def positions(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E K 2"]:
        return state[..., :2].copy()

    def state_key(self, scenes: Scenes, state: States) -> Integer[np.ndarray, "E words"]:
        """In a grid the state itself; in free space to a thousandth of a pixel, in which rounding cannot be seen."""
        numbers = state
        if self.space == "free":
            numbers = np.concatenate([state[..., :2] * self._unit * 1000, state[..., 2:]], axis=2)
        return np.concatenate([scenes, np.rint(numbers).astype(np.int64).reshape(len(state), -1)], axis=1)

    def alike(self, scenes: Scenes, state: States, other: States) -> Bool[np.ndarray, " E"]:
        """In free space: no object is a pixel or more away from where it is in the other state, and all else agrees."""
        near = np.abs(state[..., :2] - other[..., :2]) * self._unit < (1 if self.space == "free" else 0)
        return np.asarray(near.all(axis=(1, 2)) & (state[..., 2:] == other[..., 2:]).all(axis=(1, 2)))

    def replace_action(
        self, sigma: Replacement, actions: Integer[np.ndarray, "*shape"]
    ) -> Integer[np.ndarray, "*shape"]:
        """The same absolute direction: cars have headings of their own."""
        return sigma.actions(actions, self.library.headings)

    def object_texts(self) -> list[str]:
        kinds = [CLASSES[kind] for kind in self.object_classes]
        return [f"{o}  {kind}" for o, kind in zip(self.objects, kinds, strict=True)]

    def settings(self) -> dict[str, Any]:
        """Without the objects, which the seed names."""
        return {name: value for name, value in super().settings().items() if name != "objects"}

    def to_record(self) -> dict[str, Any]:
        """With all objects: files do not depend on how a library is drawn."""
        return super().settings()

    def violations(self, scenes: Scenes, state: States) -> list[str]:
        half = self.half[scenes][..., None]
        grid = self.space == "grid"
        centre = state[..., :2] + 0.5 * grid
        sides = np.array(self.cells if grid else self.size) / (1 if grid else self._unit)
        found = []
        if not ((centre >= half - 1e-6) & (centre <= sides - half + 1e-6)).all():
            found.append("an object stands outside the picture")
        if self.contact != "overlap":
            solid = self.object_classes[scenes] != GHOST
            near = np.abs(centre[:, :, None] - centre[:, None]) < half[:, :, None] + half[:, None] - 1e-6
            both = near.all(axis=3) & solid[:, :, None] & solid[:, None]
            if both.sum() > solid.sum():  # every solid object overlaps itself
                found.append("objects overlap")
        return found


def _displaced(
    position: Num[np.ndarray, "E K 2"], moved: Float[np.ndarray, "E K"], direction: Actions
) -> Num[np.ndarray, "E K 2"]:
    """Positions moved by some distances in a direction each."""
    sign = np.where((direction == 1) | (direction == 2), 1, -1)[:, None]
    after = position.copy()
    axis = direction % 2
    after[np.arange(len(position)), :, axis] += (sign * moved).astype(position.dtype)
    return after
