"""Tasks with a reward, defined on library objects: learned in some scenes, they mean the same in all others.

A task gives every state a *score* in 0-1, which is 1 just where the task is done. The reward of a step is 1 where the
state after it is done, else 0; or, with ``shaped``, by how much the step has raised the score. Lengths are measured in
*cells*: the side of the square that a large object fills, on a grid a cell. A *place* is the row and the column of a
centre as shares of the picture's height and width.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from howm.config import from_plain, validate
from howm.errors import HowmError, short
from howm.registry import Registry
from howm.worlds.library import oklab
from howm.worlds.world import Actions, Scenes, States, World

HALF = 0.5  # cells within which centres count as level
NEXT = 1.5  # cells within which the centres of neighbours are
DIGITS = 6  # of positions in cells


@dataclass(frozen=True)
class Task(ABC):
    """What is wanted of states; subclasses are frozen dataclasses whose fields are its parameters."""

    shaped: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        validate(self)

    @abstractmethod
    def score(self, world: World, scenes: Scenes, state: States) -> Float[np.ndarray, " E"]:
        """How much of the task is done, in 0-1."""

    def done(self, world: World, scenes: Scenes, state: States) -> Bool[np.ndarray, " E"]:
        """Where all of it is."""
        return np.asarray(self.score(world, scenes, state) >= 1)

    def objects(self) -> tuple[int, ...]:
        """The library objects that the task names; it can be done only in scenes that have them."""
        return ()

    def applies(self, scenes: Scenes) -> Bool[np.ndarray, " E"]:
        """In which scenes the task can be done."""
        present = np.ones(len(scenes), dtype=bool)
        for i in self.objects():
            present &= (scenes == i).any(axis=1)
        return present

    def reward(
        self, world: World, scenes: Scenes, before: States, action: Actions, after: States
    ) -> Float[np.ndarray, " E"]:
        """1 where the state after the step is done, else 0; shaped, by how much the score has risen."""
        if self.shaped:
            return np.asarray(self.score(world, scenes, after) - self.score(world, scenes, before))
        return self.done(world, scenes, after).astype(float)

    def check(self, world: World) -> None:
        """Refuse a world in which the task has no meaning."""
        for i in self.objects():
            if not 0 <= i < world.n:
                raise HowmError(f"object {i} of the task is not in a library of {world.n}; give one of 0-{world.n - 1}")


def _centres(world: World, scenes: Scenes, state: States) -> Float[np.ndarray, "E K 2"]:
    """Centres in cells."""
    centres = world.pixel_positions(scenes, state)
    if centres is None:
        raise HowmError(f"{type(world).__name__} does not say where objects are; a task needs World.pixel_positions")
    return np.round(centres / world.object_pixels, DIGITS)


def _centre_of(
    centres: Float[np.ndarray, "E K 2"], scenes: Scenes, i: int
) -> tuple[Float[np.ndarray, "E 2"], Bool[np.ndarray, " E"]]:
    """The centre of a library object, and whether it is there."""
    at = scenes == i
    return centres[np.arange(len(scenes)), at.argmax(axis=1)], at.any(axis=1)


def _nearness(missing: Float[np.ndarray, " E"], there: Bool[np.ndarray, " E"], world: World) -> np.ndarray:
    """1 where nothing is missing, falling with the number of cells to go; 0 where an object is absent."""
    farthest = (world.height + world.width) / world.object_pixels
    return np.where(there, 1 - np.minimum(missing / farthest, 1), 0.0)


@dataclass(frozen=True)
class BringTo(Task):
    """Object ``object`` is at ``place``: its centre is within half a cell of it, in rows and in columns.

    The score falls with the cells to go, as a share of height plus width.
    """

    object: int = 0
    place: tuple[float, float] = (0.5, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= share <= 1 for share in self.place):
            raise HowmError(f"place={self.place} must be shares of the picture's height and width, in [0, 1]")

    def objects(self) -> tuple[int, ...]:
        return (self.object,)

    def score(self, world: World, scenes: Scenes, state: States) -> Float[np.ndarray, " E"]:
        centre, there = _centre_of(_centres(world, scenes, state), scenes, self.object)
        place = np.round(np.array(self.place) * [world.height, world.width] / world.object_pixels, DIGITS)
        return _nearness(np.maximum(np.round(np.abs(centre - place), DIGITS) - HALF, 0).sum(axis=1), there, world)


@dataclass(frozen=True)
class Beside(Task):
    """Objects ``object`` and ``other`` are side by side: level within half a cell, and at most 1.5 cells apart.

    The score falls with the cells to go, as a share of height plus width.
    """

    object: int = 0
    other: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.object == self.other:
            raise HowmError(f"object {self.object} cannot be beside itself; give two different objects")

    def objects(self) -> tuple[int, ...]:
        return self.object, self.other

    def score(self, world: World, scenes: Scenes, state: States) -> Float[np.ndarray, " E"]:
        centres = _centres(world, scenes, state)
        (one, here), (two, there) = (_centre_of(centres, scenes, i) for i in (self.object, self.other))
        apart = np.sort(np.round(np.abs(one - two), DIGITS), axis=1)
        return _nearness(np.maximum(apart - [HALF, NEXT], 0).sum(axis=1), here & there, world)


@dataclass(frozen=True)
class LineUp(Task):
    """All objects of the scene are in one row or in one column: their centres differ by half a cell at most.

    The score is the share of objects that are in the fullest line.
    """

    def score(self, world: World, scenes: Scenes, state: States) -> Float[np.ndarray, " E"]:
        centres, there = _centres(world, scenes, state), scenes >= 0
        beyond = np.round(
            centres[:, None] - centres[:, :, None], DIGITS
        )  # of each object from the one that a line begins with
        within = (beyond >= 0) & (beyond <= HALF) & there[:, None, :, None] & there[:, :, None, None]
        return np.asarray(within.sum(axis=2).max(axis=(1, 2)) / there.sum(axis=1))


@dataclass(frozen=True)
class SortByColour(Task):
    """From left to right by hue: of any two objects, the one of the smaller hue is half a cell or more further left.

    Hues are angles in OKLab, from red (0) through yellow, green and blue. Rows do not matter. The score is the share of
    pairs that are in order.
    """

    def score(self, world: World, scenes: Scenes, state: States) -> Float[np.ndarray, " E"]:
        columns, there = _centres(world, scenes, state)[..., 1], scenes >= 0
        hues = _hues(world)[scenes]
        pairs = there[:, None] & there[:, :, None] & (hues[:, None] > hues[:, :, None])
        right = np.round(columns[:, None] - columns[:, :, None], DIGITS) >= HALF
        return np.asarray(1 - (pairs & ~right).sum(axis=(1, 2)) / np.maximum(pairs.sum(axis=(1, 2)), 1))

    def check(self, world: World) -> None:
        _hues(world)


def _hues(world: World) -> Float[np.ndarray, " N"]:
    colours = world.object_colours
    if colours is None:
        raise HowmError(f"{type(world).__name__} does not say which colours objects have; choose another task")
    lab = oklab(np.array(colours) / 255)
    return np.asarray(np.arctan2(lab[:, 2], lab[:, 1]) % (2 * np.pi))


def _check(name: str, found: Any) -> type[Task]:
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise HowmError(f"{name} must be a subclass of howm.worlds.tasks.Task, got {found!r}")
    return found


TASKS: Registry[type[Task]] = Registry(
    "task",
    {
        "bring_to": "howm.worlds.tasks:BringTo",
        "beside": "howm.worlds.tasks:Beside",
        "line_up": "howm.worlds.tasks:LineUp",
        "sort_by_colour": "howm.worlds.tasks:SortByColour",
    },
    _check,
)


def make_task(task: "str | Mapping[str, Any] | Task", **parameters: Any) -> Task:
    """A task from its name, from a mapping with the key ``name`` and its parameters, or given as it is."""
    if isinstance(task, Task):
        return task
    if isinstance(task, Mapping):
        parameters = {str(key): value for key, value in task.items() if key != "name"} | parameters
        task = task.get("name", "")
    if not isinstance(task, str):
        raise HowmError(f"a task is a name, a group with the key name, or a Task, got {short(task)}")
    cls = TASKS[TASKS.allow(task)]
    return from_plain(cls, parameters)


def describe_task(task: Task) -> dict[str, Any]:
    """The name and the parameters of a task, from which `make_task` makes the same one."""
    return {"name": TASKS.name_of(type(task))} | {
        key: list(value) if isinstance(value, tuple) else value for key, value in vars(task).items()
    }
