"""A checker for worlds: what the contract asks, tried out on a few scenes."""

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from howm.errors import HowmError, require_int
from howm.worlds.registry import make_world
from howm.worlds.symmetry import Replacement
from howm.worlds.world import World

EPISODES = 8
STEPS = 6


def check_world(world: World | str, k: int | None = None, seed: int = 0) -> list[str]:
    """Each violation of the contract of a world in one line that names the method; an empty list is a clean world.

    ``k`` is the number of objects in the scenes to try; by default 3, or all of a smaller library.
    """
    world = make_world(world) if isinstance(world, str) else world
    if k is not None:
        world.check_scene_size(require_int("k", k, 1))
    checks = _Checks(world, min(3, world.n) if k is None else k, seed)
    found: list[str] = []
    for check in (checks.settings, checks.reset, checks.step, checks.render, checks.keys, checks.extras, checks.play):
        try:
            found += check()
        except _ViolationError as violation:  # what follows needs what is broken
            return [*found, str(violation)]
    return found


class _ViolationError(Exception):
    pass


class _Checks:
    def __init__(self, world: World, k: int, seed: int) -> None:
        self.world, self.k, self.seed = world, k, seed
        rng = np.random.default_rng(seed)
        size = (EPISODES, world.n)
        self.scenes = np.sort(rng.random(size).argsort(axis=1)[:, : min(k, world.n)], axis=1)
        self.actions = rng.integers(world.n * world.actions_per_object, size=EPISODES)
        self.state: np.ndarray = np.zeros((EPISODES, k, 0))  # set by `reset`
        self.moved = self.state  # the same scenes later; set by `step`

    def _call(self, method: str, *arguments: Any) -> Any:
        """What a method returns; it must not raise, nor change its arguments."""
        before = copy.deepcopy(arguments)
        try:
            found = getattr(self.world, method)(*arguments)
        except Exception as error:
            raise _ViolationError(f"{method}: raises {type(error).__name__}: {_first_line(error)}") from error
        for given, kept in zip(arguments, before, strict=True):
            if isinstance(given, np.ndarray) and not np.array_equal(given, kept):
                raise _ViolationError(f"{method}: changes an argument in place; copy it first")
        return found

    def _array(self, method: str, found: Any, shape: tuple[int, ...], kinds: str, said: str) -> None:
        """An array of this shape (-1: any) and kind."""
        fits = isinstance(found, np.ndarray) and found.dtype.kind in kinds and found.ndim == len(shape)
        if not fits or any(want not in (-1, size) for want, size in zip(shape, found.shape, strict=True)):
            got = f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
            raise _ViolationError(f"{method}: must return {said}, got {got}")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise _ViolationError(f"{method}: returns numbers that are not finite")

    def _alone(self, method: str, found: np.ndarray, *arguments: np.ndarray) -> Iterator[str]:
        """Pure functions of rows: the same again, in another order, and without the other rows."""
        if not np.array_equal(found, self._call(method, *arguments)):
            yield f"{method}: gives something else when it is called again"
            return
        turned = self._call(method, *(array[::-1] for array in arguments))
        if not np.array_equal(found, turned[::-1]):
            yield f"{method}: depends on the order of the batch"
            return
        single = np.concatenate([self._call(method, *(array[[row]] for array in arguments)) for row in range(EPISODES)])
        if not np.array_equal(found, single):
            yield f"{method}: a row depends on the other rows of the batch"

    def settings(self) -> Iterator[str]:
        world = self.world
        try:
            world.check_scene_size(self.k)
            world.spec(self.k)
        except HowmError as error:
            raise _ViolationError(f"spec: {error}") from error
        own = vars(type(world)).get("__annotations__", {})
        known = {field.name for field in dataclasses.fields(world)}
        missing = [name for name, hint in own.items() if name not in known and "ClassVar" not in str(hint)]
        if missing:
            yield f"settings: {', '.join(missing)} is lost; decorate the class with @dataclass(frozen=True)"
        record = self._call("to_record")
        try:
            again = type(world).from_record(json.loads(json.dumps(record)))
        except Exception as error:
            yield f"to_record: from_record cannot read it ({type(error).__name__}: {_first_line(error)})"
        else:
            if again != world:
                yield "to_record: from_record makes another world of it"

    def reset(self) -> Iterator[str]:
        self.state = self._call("reset", self.scenes, np.random.default_rng(self.seed))
        shape = (EPISODES, self.k, -1)
        self._array("reset", self.state, shape, "iuf", f"numbers of shape ({EPISODES}, {self.k}, F)")
        if not np.array_equal(self.state, self._call("reset", self.scenes, np.random.default_rng(self.seed))):
            yield "reset: gives something else for the same scenes and rng; draw from rng alone"
        yield from self._impossible("reset", self.state)

    def _impossible(self, method: str, state: np.ndarray) -> list[str]:
        return [f"violations: of a state of {method}, {line}" for line in self._call("violations", self.scenes, state)]

    def step(self) -> Iterator[str]:
        world, scenes, state = self.world, self.scenes, self.state
        found = self._call("step", scenes, state, self.actions)
        self._array("step", found, state.shape, "iuf", f"{state.dtype} of shape {state.shape}, as reset")
        if found.dtype != state.dtype:
            raise _ViolationError(f"step: returns {found.dtype}, but reset returns {state.dtype}; convert it")
        yield from self._alone("step", found, scenes, state, self.actions)
        moves = False
        later = state
        for action in range(world.n * world.actions_per_object):
            actions = np.full(EPISODES, action)
            after = self._call("step", scenes, state, actions)
            absent = world.absent(scenes, actions)
            if not np.array_equal(after[absent], state[absent]):
                yield f"step: action {action} of an absent object changes the state; it must do nothing"
                break
            moves |= bool((after != state).any())
            later = self._call("step", scenes, later, actions)
        if not moves:
            yield "step: no action changes any state"
        self.moved = later
        yield from self._impossible("step", later)

    def render(self) -> Iterator[str]:
        shape = (EPISODES, self.world.height, self.world.width, 3)
        for state in (self.state, self.moved):
            found = self._call("render", self.scenes, state)
            self._array("render", found, shape, "u", f"uint8 of shape {shape}")
            if found.dtype != np.uint8:
                raise _ViolationError(f"render: must return uint8, got {found.dtype}")
            yield from self._alone("render", found, self.scenes, state)

    def keys(self) -> Iterator[str]:
        scenes, states = np.concatenate([self.scenes] * 2), np.concatenate([self.state, self.moved])
        key = self._call("state_key", scenes, states)
        self._array("state_key", key, (len(scenes), -1), "iu", f"integers of shape ({len(scenes)}, words)")
        yield from self._alone("state_key", key[:EPISODES], self.scenes, self.state)
        pictures = self._call("render", scenes, states).reshape(len(scenes), -1)
        same_key, same_look, same_state = (
            (rows[:, None] == rows).all(axis=2) for rows in (key, pictures, states.reshape(len(scenes), -1))
        )
        same_scene = (scenes[:, None] == scenes).all(axis=2)
        if (same_key & ~same_look).any():
            yield "state_key: two states that look different have one key"
        if (same_state & same_scene & ~same_key).any():
            yield "state_key: one state of one scene has two keys"

    def extras(self) -> Iterator[str]:
        world, given = self.world, (self.scenes, self.state)
        shape: tuple[int, ...]
        masks, positions = self._call("masks", *given), self._call("positions", *given)
        if masks is not None:
            shape = (EPISODES, self.k, world.height, world.width)
            self._array("masks", masks, shape, "b", f"bools of shape {shape}")
            yield from self._alone("masks", masks, *given)
        if positions is not None:
            shape = (EPISODES, self.k, 2)
            self._array("positions", positions, shape, "iuf", f"numbers of shape {shape}")
            yield from self._alone("positions", positions, *given)
            placed = self._call("state_at", positions)
            if placed is not None and not np.array_equal(self._call("positions", self.scenes, placed), positions):
                yield "state_at: gives states with other positions"
        for name, value in self._call("info", *given).items():
            self._array(
                f"info[{name!r}]", value, (EPISODES, *np.shape(value)[1:]), "biuf", f"{EPISODES} rows of numbers"
            )
        sigma, per = Replacement.random(world.n, np.random.default_rng(self.seed)), world.actions_per_object
        every = np.arange(world.n * per)
        replaced = self._call("replace_action", sigma, every)
        self._array("replace_action", replaced, every.shape, "iu", f"integers of shape {every.shape}")
        if not np.array_equal(replaced // per, sigma(every // per)):
            yield "replace_action: gives actions of another object than σ(i)"

    def play(self) -> Iterator[str]:
        def rng() -> np.random.Generator:
            return np.random.default_rng(self.seed)

        f = self.state.shape[2]
        for moving in (0.9, None):
            states, actions = self._call("play", self.scenes, self.state, STEPS, moving, rng())
            self._array("play", states, (EPISODES, STEPS + 1, self.k, f), "iuf", "T+1 states an episode")
            self._array("play", actions, (EPISODES, STEPS), "iu", "T actions an episode")
            for t in range(STEPS):
                if self.world.absent(self.scenes, actions[:, t]).any():
                    yield "play: takes an action of an absent object"
                    break
                after = self._call("step", self.scenes, states[:, t].astype(self.state.dtype), actions[:, t])
                if not np.array_equal(after, states[:, t + 1]):
                    yield "play: its states are not those that step gives"
                    break
            ends = self._call("near_misses", self.scenes, self.state, STEPS, 2, moving, rng())
            self._array("near_misses", ends, (EPISODES, 2, self.k, f), "iuf", "2 states an episode")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
