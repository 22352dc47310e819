"""Shapes and Rush Hour: objects of a library that move on a grid of cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Integer, Num

from howm.errors import HowmError, require_int
from howm.worlds.grid import Grid, random_walk
from howm.worlds.library import LibraryObject, ObjectLibrary
from howm.worlds.render import Renderer
from howm.worlds.symmetry import Replacement
from howm.worlds.world import Actions, Pictures, Scenes, States, World

LEAST = {"n": 1, "seed": 0, "cell_pixels": 1}  # values of the settings that are numbers


@dataclass(frozen=True)
class GridWorld(World):
    """K objects on a grid; one of them moves one cell unless a border or another object is in the way.

    A state is one number an object: its cell ``row * width + column``. The four actions of an object move it north,
    east, south and west, or, where it has a heading, ahead, right, back and left.
    """

    seed: int = field(default=0, compare=False)  # the objects say it all
    grid: tuple[int, int] = (5, 5)
    cell_pixels: int = 10
    objects: tuple[LibraryObject, ...] = field(default=(), repr=False)  # by default those that the seed names

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            require_int(name, getattr(self, name), least)
        _read_grid(self.grid)
        if not self.objects:
            object.__setattr__(self, "objects", ObjectLibrary.make(self.kind, self.n, self.seed).objects)
        if self.library.n != self.n:
            raise HowmError(f"a library of {self.library.n} objects is not one of n={self.n}")
        Renderer(self.library, Grid(*self.grid), self.cell_pixels)  # refuses cells that are too small

    @classmethod
    def from_library(cls, library: ObjectLibrary, grid: Any = (5, 5), cell_pixels: int = 10) -> "GridWorld":
        """The world of a library that no seed need name."""
        if library.world != cls.kind:
            raise HowmError(f"a library of {library.world} is not one of {cls.kind}")
        return cls(
            library.n, library.seed, _read_grid(grid), require_int("cell_pixels", cell_pixels, 1), library.objects
        )

    @cached_property
    def library(self) -> ObjectLibrary:
        return ObjectLibrary(self.kind, self.objects, self.seed)

    @cached_property
    def renderer(self) -> Renderer:
        return Renderer(self.library, Grid(*self.grid), self.cell_pixels)

    @property
    def board(self) -> Grid:
        return self.renderer.grid

    @property
    def height(self) -> int:
        return self.renderer.shape[0]

    @property
    def width(self) -> int:
        return self.renderer.shape[1]

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("↑", "→", "↓", "←")  # of cars, relative to where they face

    def check_scene_size(self, k: int) -> None:
        super().check_scene_size(k)
        self.board.check_room(k)

    def reset(self, scenes: Scenes, rng: np.random.Generator) -> States:
        return self.board.place(rng, *scenes.shape)[..., None]

    def step(self, scenes: Scenes, state: States, action: Actions) -> States:
        return self.board.act(self.library.headings, scenes, state[..., 0], action)[0][..., None]

    def render(self, scenes: Scenes, state: States) -> Pictures:
        return self.renderer.render(scenes, state[..., 0])

    def play(
        self, scenes: Scenes, start: States, steps: int, moving: float | None, rng: np.random.Generator
    ) -> tuple[Num[np.ndarray, "E {steps}+1 K F"], Integer[np.ndarray, "E {steps}"]]:
        """As of any world, many times faster."""
        cells, slots, directions = random_walk(
            self.board, self.library.headings[scenes], start[..., 0], steps, moving, rng
        )
        objects = np.take_along_axis(scenes, slots.astype(np.int64), axis=1).astype(np.int64)
        return cells[..., None], objects * 4 + directions

    def successors(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E offered K F"]:
        """As of any world, many times faster."""
        cells = state[..., 0].astype(np.intp)
        episodes, k = cells.shape
        direction = (self.library.headings[scenes][..., None] + np.arange(4)) % 4
        target = self.board.neighbours[cells[..., None], direction]
        blocked = target == self.board.cell_count
        for j in range(k):
            blocked |= target == cells[:, j, None, None]
        after = np.broadcast_to(state[:, None, None], (episodes, k, 4, k, 1)).copy()
        own = np.arange(k)
        after[:, own, :, own, 0] = np.where(blocked, cells[..., None], target).swapaxes(0, 1)
        return after.reshape(episodes, 4 * k, k, 1)

    def steps_between(self, scenes: Scenes, state: States, goal: States) -> Integer[np.ndarray, " E"]:
        """The summed distances, by rows and columns."""
        here, there = self.positions(scenes, state), self.positions(scenes, goal)
        return np.asarray(np.abs(here - there).sum(axis=(1, 2)))

    def state_key(self, scenes: Scenes, state: States) -> Integer[np.ndarray, "E words"]:
        """Ids and cells themselves."""
        small = np.min_scalar_type(max(self.n, self.board.cell_count))
        return np.concatenate([scenes, state[..., 0]], axis=1).astype(small)

    def masks(self, scenes: Scenes, state: States) -> Bool[np.ndarray, "E K height width"]:
        return self.renderer.masks(scenes, state[..., 0])

    def positions(self, scenes: Scenes, state: States) -> Integer[np.ndarray, "E K 2"]:
        """Row and column of each object's cell."""
        return self.board.positions(state[..., 0].astype(np.int64))

    def visible(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K"]:
        """All of every object: no two share a cell."""
        return np.ones(scenes.shape)

    @property
    def object_colours(self) -> list[tuple[int, int, int]]:
        return self.library.colours

    def state_at(self, positions: Num[np.ndarray, "E K 2"]) -> States:
        rows, columns = self.grid
        inside = (positions >= 0) & (positions < [rows, columns])
        cells = positions @ [columns, 1]
        if positions.dtype.kind not in "iu" or not inside.all() or _sharing(cells).any():
            given = positions[0].tolist() if len(positions) == 1 else positions.tolist()
            raise HowmError(
                f"positions={given} are not {positions.shape[1]} different cells; "
                f"give (row, column) on a grid of {rows}x{columns}"
            )
        return cells[..., None].astype(np.int64)

    def violations(self, scenes: Scenes, state: States) -> list[str]:
        outside = int(((state < 0) | (state >= self.board.cell_count)).any(axis=(1, 2)).sum())
        found = [f"objects stand outside the grid in {outside} frames"] if outside else []
        shared = int(_sharing(state[..., 0]).sum())
        return found + ([f"objects share a cell in {shared} frames"] if shared else [])

    def object_texts(self) -> list[str]:
        return [str(item) for item in self.objects]

    def settings(self) -> dict[str, Any]:
        return {"n": self.n, "seed": self.seed, "grid": list(self.grid), "cell_pixels": self.cell_pixels}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "GridWorld":
        known = (*LEAST, "grid")
        for key in settings:
            if key not in known:
                raise HowmError(f"unknown setting {key} of the world {cls.kind}; known are {', '.join(known)}")
        values: dict[str, Any] = {
            key: require_int(key, settings[key], least) for key, least in LEAST.items() if key in settings
        }
        if "grid" in settings:
            values["grid"] = _read_grid(settings["grid"])
        return cls(**values)

    def to_record(self) -> dict[str, Any]:
        """Grid, size of cells, and all objects: files do not depend on how a library is drawn."""
        return {"grid": list(self.grid), "cell_pixels": self.cell_pixels, "library": self.library.to_plain()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "GridWorld":
        return cls.from_library(ObjectLibrary.from_plain(record["library"]), record["grid"], record["cell_pixels"])


@dataclass(frozen=True)
class Shapes(GridWorld):
    """Objects that differ in shape, colour and size; actions move them in absolute directions."""

    kind = "shapes"

    def info(self, scenes: Scenes, state: States) -> dict[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class RushHour(GridWorld):
    """Cars, each with a heading, which its actions are relative to."""

    kind = "rush_hour"

    def info(self, scenes: Scenes, state: States) -> dict[str, np.ndarray]:
        return {"headings": self.library.headings[scenes].astype(np.int64)}

    def replace_action(
        self, sigma: Replacement, actions: Integer[np.ndarray, "*shape"]
    ) -> Integer[np.ndarray, "*shape"]:
        """σ(i) has a heading of its own: it goes the same way as i would if its action turns by the difference."""
        return sigma.actions(actions, self.library.headings)


def _sharing(cells: Integer[np.ndarray, "E K"]) -> Bool[np.ndarray, " E"]:
    """Where two objects stand on one cell."""
    ordered = np.sort(cells, axis=1)
    return np.asarray((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))


def _read_grid(size: Any) -> tuple[int, int]:
    """A grid, its side, or its height and width, also as text: 5, (4, 6), "4x6"."""
    if isinstance(size, Grid):
        return size.height, size.width
    if isinstance(size, str):
        return _read_grid(Grid.parse(size))
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(sides) != 2:
        raise HowmError(f"grid={size!r} must be a side or (height, width), for example 5 or (4, 6)")
    return require_int("grid", sides[0], 1), require_int("grid", sides[1], 1)
