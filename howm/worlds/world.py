"""The contract of a world: a simulator in three methods, of arrays that hold many episodes at once.

Axes: E episodes (or frames), K objects of a scene, F numbers that describe an object, T steps. A scene is K ids of
library objects, ascending. A state is the (E, K, F) numbers of the scene's objects, integers or floats: it is what
datasets store, and pictures are drawn from it. Action ``actions_per_object * i + d`` is action d of library object i;
if object i is absent, nothing happens.
"""

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer, Num, UInt8

from howm.config import from_plain
from howm.errors import HowmError, require_int
from howm.worlds.spec import WorldSpec
from howm.worlds.symmetry import Replacement

Scenes = Integer[np.ndarray, "E K"]
States = Num[np.ndarray, "E K F"]
Actions = Integer[np.ndarray, " E"]
Pictures = UInt8[np.ndarray, "E height width 3"]

ATTEMPTS = 200  # to find a free place
COUNTABLE = 0.25  # of an object must be visible for extraction to be judged by it


@dataclasses.dataclass(frozen=True)
class World(ABC):
    """A deterministic simulator of any K of ``n`` library objects; subclasses are frozen dataclasses.

    Their fields, plain values with defaults, are their settings: files store them, ``howm data make`` sets them. A
    field ``seed`` is the library seed. How many actions there are and how large pictures are may be class attributes,
    fields or properties. The three abstract methods are pure: they change no argument, and every row depends on its own
    row alone.
    """

    n: int = 10

    def __post_init__(self) -> None:
        require_int("n", self.n, 1)

    @property
    def actions_per_object(self) -> int:
        return 4

    @property
    def action_names(self) -> tuple[str, ...]:
        """What pictures call the actions of an object."""
        return tuple(str(action) for action in range(self.actions_per_object))

    @property
    def default_k(self) -> int | range:
        """How many objects scenes have unless another size is asked for."""
        return 5

    @property
    def change_rate(self) -> float:
        """How often, from outside, an object is replaced by an absent one at the end of a step (see `changing`)."""
        return 0.0

    @property
    def height(self) -> int:
        """Of a picture, in pixels."""
        return 50

    @property
    def width(self) -> int:
        return 50

    @property
    def cell_pixels(self) -> int | None:
        """The side of a cell where objects lie on a grid of cells, None where they may lie anywhere."""
        return None

    @property
    def overlap(self) -> bool:
        """Whether objects can hide each other."""
        return False

    @property
    def moves_others(self) -> bool:
        """Whether an action can move objects other than its own."""
        return False

    @property
    def varied_background(self) -> bool:
        """Whether backgrounds differ between pictures."""
        return False

    @abstractmethod
    def reset(self, scenes: Scenes, rng: np.random.Generator) -> States:
        """Random states of these scenes."""

    @abstractmethod
    def step(self, scenes: Scenes, state: States, action: Actions) -> States:
        """The states after one library action each, in the dtype of ``reset``."""

    @abstractmethod
    def render(self, scenes: Scenes, state: States) -> Pictures:
        """The pictures of these states."""

    def spec(self, k: int) -> WorldSpec:
        """What a model for scenes of k objects may know."""
        return WorldSpec(
            self.n, k, self.height, self.width, self.cell_pixels, self.actions_per_object, self.overlap,
            self.moves_others, self.varied_background,
        )  # fmt: skip

    def check_scene_size(self, k: int) -> None:
        """Refuse scenes of a size that the world has no room for."""
        if not 1 <= k <= self.n:
            raise HowmError(f"k must be in 1-{self.n}, the objects of the library, got {k}")

    def play(
        self, scenes: Scenes, start: States, steps: int, moving: float | None, rng: np.random.Generator
    ) -> tuple[Num[np.ndarray, "E {steps}+1 K F"], Integer[np.ndarray, "E {steps}"]]:
        """Random play from given states: all states, and the library actions between them.

        With ``moving`` = 0.9 an action changes the state with probability 0.9, uniformly among those of present objects
        that do, and else is uniform among those that do not; where either kind is missing, the other is used. ``None``
        draws uniformly from all actions of present objects.
        """
        offered = self.offered_actions(scenes)
        states, actions = [start], []
        for _ in range(steps):
            wanted = np.ones(offered.shape, dtype=bool)
            if moving is not None:
                after = (self.step(scenes, states[-1], action) for action in offered.T)
                moves = np.stack([(state != states[-1]).any(axis=(1, 2)) for state in after], axis=1)
                wanted = moves == (rng.random((len(scenes), 1)) < moving)
                wanted |= ~wanted.any(axis=1, keepdims=True)
            chosen = np.where(wanted, rng.random(wanted.shape), -1.0).argmax(axis=1)
            actions.append(offered[np.arange(len(scenes)), chosen])
            states.append(self.step(scenes, states[-1], actions[-1]))
        return np.stack(states, axis=1), np.stack(actions, axis=1)

    def enter(
        self, scene: Integer[np.ndarray, " K"], state: Num[np.ndarray, "K F"], slot: int, rng: np.random.Generator
    ) -> Num[np.ndarray, "K F"] | None:
        """The state after the object in ``slot`` has come in at a random free place; None where none was found."""
        for _ in range(ATTEMPTS):
            entered = state.copy()
            entered[slot] = self.reset(scene[None], rng)[0, slot]
            if not self.violations(scene[None], entered[None]):
                return entered
        return None

    def offered_actions(self, scenes: Scenes) -> Integer[np.ndarray, "E offered"]:
        """All actions of the objects that are present, object by object."""
        per = self.actions_per_object
        return np.asarray((scenes[:, :, None] * per + np.arange(per)).reshape(len(scenes), -1))

    def successors(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E offered K F"]:
        """The states after each of the ``offered_actions``."""
        return np.stack([self.step(scenes, state, action) for action in self.offered_actions(scenes).T], axis=1)

    def steps_between(self, scenes: Scenes, state: States, goal: States) -> Integer[np.ndarray, " E"] | None:
        """How many steps from one state to another are needed at least: with nothing in the way, so many suffice.

        None where distances do not tell, as where one action can move several objects. An action changes it by 1 at
        most.
        """
        return None

    def absent(self, scenes: Scenes, action: Actions) -> Bool[np.ndarray, " E"]:
        """Whose action is of an object that is not in the scene."""
        return np.asarray((scenes != (action // self.actions_per_object)[:, None]).all(axis=1))

    def near_misses(
        self, scenes: Scenes, start: States, steps: int, count: int, moving: float | None, rng: np.random.Generator
    ) -> Num[np.ndarray, "E {count} K F"]:
        """Where ``count`` other plays of as many steps end that begin in the same states."""
        states, _ = self.play(np.repeat(scenes, count, axis=0), np.repeat(start, count, axis=0), steps, moving, rng)
        return states[:, -1].reshape(len(scenes), count, *start.shape[1:])

    def state_key(self, scenes: Scenes, state: States) -> Integer[np.ndarray, "E words"]:
        """Integers that are equal just where two states count as the same: by default, where they look alike."""
        pictures = self.render(scenes, state)
        digests = b"".join(hashlib.blake2b(picture.tobytes(), digest_size=16).digest() for picture in pictures)
        return np.frombuffer(digests, dtype=np.int64).reshape(-1, 2)

    def alike(self, scenes: Scenes, state: States, other: States) -> Bool[np.ndarray, " E"]:
        """Which states are so close to others, less than a pixel, that they are no near misses of them."""
        return np.zeros(len(scenes), dtype=bool)

    def masks(self, scenes: Scenes, state: States) -> Bool[np.ndarray, "E K height width"] | None:
        """Which pixels show each object; None where the world cannot tell."""
        return None

    def positions(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E K 2"] | None:
        """The objects' centres, row and column; None where the world cannot tell."""
        return None

    def pixel_positions(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K 2"] | None:
        """The objects' centres in pixels, row and column; by default known where positions are cells of a grid."""
        positions = None if self.cell_pixels is None else self.positions(scenes, state)
        return None if positions is None else (positions + 0.5) * float(self.cell_pixels or 1)

    def visible(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K"] | None:
        """The share of each object's pixels that no other object hides; None where the world cannot tell."""
        return None

    def countable_masks(self, scenes: Scenes, state: States) -> Bool[np.ndarray, "E K height width"] | None:
        """As `masks`, but empty for objects of which less than a quarter is visible: one picture tells too little."""
        masks, visible = self.masks(scenes, state), self.visible(scenes, state)
        return masks if masks is None or visible is None else masks & (visible >= COUNTABLE)[:, :, None, None]

    @property
    def object_pixels(self) -> float:
        """The side of the square that a large object fills; tasks measure in it."""
        return self.cell_pixels or self.height / 5

    @property
    def object_colours(self) -> list[tuple[int, int, int]] | None:
        """The colour of each library object; None where objects have not just one."""
        return None

    def state_at(self, positions: Num[np.ndarray, "E K 2"]) -> States | None:
        """The states with objects at these positions; None where positions do not determine a state."""
        return None

    def replace_action(
        self, sigma: Replacement, actions: Integer[np.ndarray, "*shape"]
    ) -> Integer[np.ndarray, "*shape"]:
        """σ.a, the action by which object σ(i) does what action a makes object i do: the one of the same number."""
        return sigma.actions(actions, per_object=self.actions_per_object)

    def info(self, scenes: Scenes, state: States) -> dict[str, np.ndarray]:
        """What infos say of these states beside ids, positions and visible shares, in new arrays of E rows."""
        return {"state": state.copy()}

    def violations(self, scenes: Scenes, state: States) -> list[str]:
        """What is impossible about stored states, each in one line; transitions are simulated again anyway."""
        return []

    def object_texts(self) -> list[str]:
        """What can be said of each object of the library, in one line."""
        return [f"object {i}" for i in range(self.n)]

    def settings(self) -> dict[str, Any]:
        """The settings from which `from_settings` makes the same world, in plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "World":
        """A world with settings that a person gave; an unknown key or a wrong type is an error."""
        return from_plain(cls, settings)

    def to_record(self) -> dict[str, Any]:
        """What files say of the world, in plain values from which `from_record` makes the same one."""
        return self.settings()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "World":
        return cls.from_settings(record)
