"""Scenes of several sizes in one array: smaller ones are filled up with the id -1 at the end, their states with 0."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer, Num

from howm.errors import HowmError, require_int
from howm.worlds.world import Actions, Pictures, Scenes, States, World


def read_sizes(k: Any) -> range:
    """The sizes of scenes: 5, "5", "3-7" or a range."""
    if isinstance(k, range) and k.step == 1 and len(k):
        first, last = k[0], k[-1]
    elif isinstance(k, str) and (found := re.fullmatch(r"(\d+)(?:-(\d+))?", k)):
        first, last = int(found[1]), int(found[2] or found[1])
    else:
        first = last = require_int("k", k, 1)
    if not 1 <= first <= last:
        raise HowmError(f"k must be a size or two ascending ones such as 3-7, got {k!r}")
    return range(first, last + 1)


def write_sizes(training: range, evaluation: range | None = None) -> str:
    """Sizes as `read_sizes` reads them, such as 5 or 3-7; where those of evaluation differ, "3-5 to 6-8"."""
    if evaluation is not None and evaluation != training:
        return f"{write_sizes(training)} to {write_sizes(evaluation)}"
    return str(training[0]) if len(training) == 1 else f"{training[0]}-{training[-1]}"


def sized(world: World, scenes: Scenes) -> World:
    """The world itself, or, where some scenes are filled up, one that steps and draws them size by size."""
    return ManySizes(n=world.n, world=world) if len(scenes) and scenes.min() < 0 else world


@dataclass(frozen=True, kw_only=True)
class ManySizes(World):
    """A world for scenes of several sizes: every call is made once for the rows of each size."""

    world: World

    def _by_size(
        self, scenes: Scenes, call: Callable[..., Any], *arrays: np.ndarray, axis: int | None = None, fill: int = 0
    ) -> Any:
        """What the call gives for rows of each size; ``axis`` of the result, if any, runs over objects."""
        sizes = (scenes >= 0).sum(axis=1)
        found: list[tuple[np.ndarray, np.ndarray]] = []
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            cropped = (array[rows] if array.ndim == 1 else array[rows, :size] for array in arrays)
            part = call(scenes[rows, :size], *cropped)
            if part is None:
                return None
            found.append((rows, part))
        shape = np.max([part.shape[1:] for _, part in found], axis=0)
        if axis is not None:
            shape[axis - 1] = scenes.shape[1]
        joined = np.full((len(scenes), *shape), fill, dtype=np.result_type(*(part for _, part in found)))
        for rows, part in found:
            within = tuple(slice(length) for length in part.shape[1:])
            joined[(rows,) + within] = part  # noqa: RUF005
        return joined

    @property
    def actions_per_object(self) -> int:
        return self.world.actions_per_object

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.world.action_names

    @property
    def height(self) -> int:
        return self.world.height

    @property
    def width(self) -> int:
        return self.world.width

    @property
    def cell_pixels(self) -> int | None:
        return self.world.cell_pixels

    def reset(self, scenes: Scenes, rng: np.random.Generator) -> States:
        return np.asarray(self._by_size(scenes, lambda some: self.world.reset(some, rng), axis=1))

    def step(self, scenes: Scenes, state: States, action: Actions) -> States:
        return np.asarray(self._by_size(scenes, self.world.step, state, action, axis=1))

    def render(self, scenes: Scenes, state: States) -> Pictures:
        return np.asarray(self._by_size(scenes, self.world.render, state))

    def play(
        self, scenes: Scenes, start: States, steps: int, moving: float | None, rng: np.random.Generator
    ) -> tuple[Num[np.ndarray, "E {steps}+1 K F"], Integer[np.ndarray, "E {steps}"]]:
        actions = np.zeros((len(scenes), steps), dtype=np.int64)
        sizes = (scenes >= 0).sum(axis=1)

        def played(some: Scenes, begin: States) -> np.ndarray:
            states, actions[sizes == some.shape[1]] = self.world.play(some, begin, steps, moving, rng)
            return states

        return self._by_size(scenes, played, start, axis=2), actions

    def offered_actions(self, scenes: Scenes) -> Integer[np.ndarray, "E offered"]:
        """Those of a smaller scene are followed by its first one, as often as needed."""
        first = np.where(scenes < 0, scenes[:, :1], scenes)
        offered = self.world.offered_actions(first)
        padded = np.repeat(scenes < 0, self.actions_per_object, axis=1)
        return np.where(padded, offered[:, :1], offered)

    def successors(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E offered K F"]:
        """Those of a smaller scene are followed by its first one, as often as needed."""
        found = np.asarray(self._by_size(scenes, self.world.successors, state, axis=2))
        padded = np.repeat(scenes < 0, self.actions_per_object, axis=1)
        first = np.repeat(found[:, :1], padded.shape[1], axis=1)
        filled = first.copy()
        filled[:, : found.shape[1]] = found
        return np.where(padded[..., None, None], first, filled)

    def steps_between(self, scenes: Scenes, state: States, goal: States) -> Integer[np.ndarray, " E"] | None:
        steps: np.ndarray | None = self._by_size(scenes, self.world.steps_between, state, goal)
        return steps

    def near_misses(
        self, scenes: Scenes, start: States, steps: int, count: int, moving: float | None, rng: np.random.Generator
    ) -> Num[np.ndarray, "E count K F"]:
        def found(some: Scenes, begin: States) -> np.ndarray:
            return self.world.near_misses(some, begin, steps, count, moving, rng)

        return np.asarray(self._by_size(scenes, found, start, axis=2))

    def state_key(self, scenes: Scenes, state: States) -> Integer[np.ndarray, "E words"]:
        def keys(some: Scenes, states: States) -> np.ndarray:
            return self.world.state_key(some, states).astype(np.int64)

        size = (scenes >= 0).sum(axis=1, keepdims=True)
        return np.concatenate([size, self._by_size(scenes, keys, state, fill=-1)], axis=1)

    def alike(self, scenes: Scenes, state: States, other: States) -> Bool[np.ndarray, " E"]:
        return np.asarray(self._by_size(scenes, self.world.alike, state, other))

    def masks(self, scenes: Scenes, state: States) -> Bool[np.ndarray, "E K height width"] | None:
        """An object that is not there covers nothing."""
        masks: np.ndarray | None = self._by_size(scenes, self.world.masks, state, axis=1)
        return masks

    def positions(self, scenes: Scenes, state: States) -> Num[np.ndarray, "E K 2"] | None:
        positions: np.ndarray | None = self._by_size(scenes, self.world.positions, state, axis=1)
        return positions

    def pixel_positions(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K 2"] | None:
        positions: np.ndarray | None = self._by_size(scenes, self.world.pixel_positions, state, axis=1)
        return positions

    def state_at(self, positions: Num[np.ndarray, "E K 2"]) -> States | None:
        return self.world.state_at(positions)

    def visible(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K"] | None:
        """Of an object that is not there, nothing."""
        visible: np.ndarray | None = self._by_size(scenes, self.world.visible, state, axis=1)
        return visible

    @property
    def object_pixels(self) -> float:
        return self.world.object_pixels

    @property
    def object_colours(self) -> list[tuple[int, int, int]] | None:
        return self.world.object_colours

    def info(self, scenes: Scenes, state: States) -> dict[str, np.ndarray]:
        names = self.world.info(scenes[:1][scenes[:1] >= 0][None], state[:1, : (scenes[0] >= 0).sum()])
        return {
            name: self._by_size(scenes, lambda some, states, name=name: self.world.info(some, states)[name], state,
                                axis=1)
            for name in names
        }  # fmt: skip

    def violations(self, scenes: Scenes, state: States) -> list[str]:
        sizes = (scenes >= 0).sum(axis=1)
        found: dict[str, None] = {}
        for size in np.unique(sizes).tolist():
            rows = sizes == size
            found |= dict.fromkeys(self.world.violations(scenes[rows, :size], state[rows, :size]))
        return list(found)
