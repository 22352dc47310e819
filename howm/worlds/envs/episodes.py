"""The state of many episodes, which single and vector environments share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypedDict, cast

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float, Integer, Num, UInt8

from howm.errors import HowmError, require_int
from howm.worlds.changing import change_scene
from howm.worlds.registry import make_world
from howm.worlds.scene_set import SceneSet
from howm.worlds.scenes import SceneSplit
from howm.worlds.sizes import ManySizes, read_sizes
from howm.worlds.splits import SplitKind, default_split, make_split
from howm.worlds.tasks import Task, make_task
from howm.worlds.world import World

Info = dict[str, Any]
RewardFn = Callable[[Info, int, Info], float]  # the infos before and after the step, and the action between them
Reward = str | Mapping[str, Any] | Task | RewardFn
Picture = UInt8[np.ndarray, "height width 3"]
Pictures = UInt8[np.ndarray, "envs height width 3"]

ATTEMPTS = 100  # to draw a state in which a task is not done
METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}


class Settings(TypedDict, total=False):
    """What environments of all worlds accept; the defaults stand in ``_Episodes``."""

    k: int | str | range  # objects in a scene, or the sizes of scenes, such as "3-7"; by default the world's
    split: str  # scenes of an episode: "train", "eval", or "all": any k of the n objects, in the split or not
    split_seed: int  # the seed of `howm data make` that makes the same split
    split_kind: SplitKind | None  # its --split
    eval_k: int | str | range | None  # its --eval-k, which makes the split larger-k
    segmentation: bool  # whether infos say of every pixel which library object it shows, or -1
    reward_fn: "Reward | None"  # a task, its name, or a function; without one, rewards are 0


def read_world(world: str | World, settings: dict[str, Any], shared_keys: Iterable[str]) -> tuple[World, Settings]:
    """The world that an environment shows, made of its settings where it is named, and what is left of them."""
    shared = {key: settings.pop(key) for key in list(settings) if key in shared_keys}
    if isinstance(world, str):
        if "seed" in settings:
            raise HowmError("an environment has no seed of its own; give library_seed, split_seed or reset(seed=...)")
        seed = require_int("library_seed", settings.pop("library_seed", 0), 0)
        world = make_world(world, settings.pop("n", 10), seed, **settings)
    elif settings:
        raise HowmError(f"{', '.join(settings)} cannot be changed in a world that is made already; make another one")
    return world, cast(Settings, shared)


class _Episodes:
    """The state of many episodes of one world, one row each: which objects, their state, and the last outcome."""

    settings: ClassVar[tuple[str, ...]] = tuple(Settings.__annotations__)  # of the environment, not of its world

    def __init__(
        self,
        rows: int,
        world: World,
        k: int | str | range | None = None,
        split: str = "train",
        split_seed: int = 0,
        split_kind: SplitKind | None = None,
        eval_k: int | str | range | None = None,
        segmentation: bool = False,
        reward_fn: Reward | None = None,
    ) -> None:
        self.sizes = read_sizes(world.default_k if k is None else k)
        world.check_scene_size(self.sizes[-1])
        self.segmentation = segmentation
        self.reward_fn: RewardFn | None = reward_fn if callable(reward_fn) else None
        self.task = None if reward_fn is None or callable(reward_fn) else make_task(reward_fn)
        self.change_rate = world.change_rate
        split_seed = require_int("split_seed", split_seed, 0)
        # "all" must not make a split: some n and k (any k=1) have scenes but no split that covers the library.
        self.allowed: SceneSet | None = None
        if split != "all":
            larger = None if eval_k is None else read_sizes(eval_k)
            kind = split_kind or default_split(world, larger)
            self.allowed = _make_split(kind, world.n, self.sizes, split_seed, larger).scenes(split)
            self.sizes = self.allowed.sizes
        k = self.sizes[-1]
        self.scenes = None if self.allowed is None else self.allowed.to_array()
        if self.task is not None:
            self._check_task(self.task, world)
        self.world = world if len(self.sizes) == 1 else ManySizes(n=world.n, world=world)
        spec = world.spec(k)
        self.observation_space = gym.spaces.Box(0, 255, (spec.height, spec.width, 3), np.uint8)
        self.action_space = gym.spaces.Discrete(spec.actions)
        self.ids = np.full((rows, k), -1)  # until the first reset
        self.state = np.zeros((rows, k, 0))
        self.moved = np.zeros(rows, dtype=bool)
        self.absent = np.zeros(rows, dtype=bool)
        self.changed = np.zeros(rows, dtype=bool)
        self.success = np.zeros(rows, dtype=bool)

    def _check_task(self, task: Task, world: World) -> None:
        """Keep to the scenes in which the task can be done."""
        task.check(world)
        if self.scenes is not None:
            self.scenes = self.scenes[task.applies(self.scenes)]
        if len(task.objects()) > self.sizes[0] or (self.scenes is not None and not len(self.scenes)):
            named = ", ".join(map(str, task.objects()))
            raise HowmError(f"no scene has the objects {named} of the task; name others, or choose split=all")

    def reset(
        self, rows: Integer[np.ndarray, " resetting"], rngs: Sequence[np.random.Generator], options: Info | None
    ) -> None:
        """Start these rows anew; row r draws what the options leave open from ``rngs[r]``."""
        scene, placed = self._read_options(options or {})
        for row in rows:
            rng = rngs[row]
            ids = np.full_like(self.ids[row], -1)
            if scene is not None:
                ids[: len(scene)] = scene
            elif self.scenes is not None:
                ids = self.scenes[rng.integers(len(self.scenes))]
            else:
                k = self.sizes[0] if len(self.sizes) == 1 else int(rng.integers(self.sizes[0], self.sizes[-1] + 1))
                ids[:k] = self._draw_scene(k, rng)
            state = self._draw_state(ids[None], rng) if placed is None else self._check_possible(ids, placed)
            self.ids[row] = ids
            if self.state.shape[2:] != state.shape[1:]:  # the first reset shows what a state of this world is
                self.state = np.zeros((*self.ids.shape, state.shape[1]), dtype=state.dtype)
            self.state[row] = 0
            self.state[row, : len(state)] = state
        self.moved[rows] = self.absent[rows] = self.changed[rows] = False
        self.success[rows] = self._succeeded(rows)

    def _draw_scene(self, k: int, rng: np.random.Generator) -> Integer[np.ndarray, " k"]:
        """Any k objects, with those that a task names."""
        named = list(self.task.objects()) if self.task is not None else []
        others = np.setdiff1d(np.arange(self.world.n), named)
        return np.sort(np.concatenate([named, rng.choice(others, k - len(named), replace=False)]).astype(np.int64))

    def _draw_state(self, ids: Integer[np.ndarray, "1 K"], rng: np.random.Generator) -> Num[np.ndarray, "K F"]:
        """A random state in which a task is not done yet, where one is found."""
        for _ in range(ATTEMPTS):
            state = self.world.reset(ids, rng)
            if self.task is None or not self.task.done(self.world, ids, state)[0]:
                break
        return np.asarray(state[0])

    def _succeeded(self, rows: Integer[np.ndarray, " resetting"] | slice) -> Bool[np.ndarray, " resetting"]:
        """In which episodes the task is done."""
        if self.task is None:
            return np.zeros(len(self.ids[rows]), dtype=bool)
        return self.task.done(self.world, self.ids[rows], self.state[rows])

    def step(
        self, given: Any, stepping: Bool[np.ndarray, " rows"], rngs: Sequence[np.random.Generator]
    ) -> Float[np.ndarray, " rows"]:
        """Act in the rows that are stepping (the others are left in any state) and return the rewards."""
        self._check_started()
        actions = np.where(stepping, given, 0) if np.shape(given) == stepping.shape else np.empty(0)
        highest = int(self.action_space.n) - 1
        if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() > highest:
            raise HowmError(f"actions must be integers in 0-{highest}, one per environment, got {given!r}")

        before, begin = self.info() if self.reward_fn else {}, self.state
        self.state, self.moved, self.absent = act(self.world, self.ids, self.state, actions)
        rewards = np.zeros(len(actions))
        if self.task is not None:
            rewards[stepping] = self.task.reward(self.world, self.ids, begin, actions, self.state)[stepping]
        if self.change_rate:
            self._change(stepping, rngs)
        self.success = self._succeeded(slice(None)) & stepping
        if self.reward_fn:
            after = self.info()
            for row in np.flatnonzero(stepping).tolist():
                rewards[row] = self.reward_fn(_row(before, row), int(actions[row]), _row(after, row))
        return rewards

    def _change(self, stepping: Bool[np.ndarray, " rows"], rngs: Sequence[np.random.Generator]) -> None:
        """Replace an object in some rows, within the scenes of the split."""
        ids = self.ids.copy()
        for row in np.flatnonzero(stepping).tolist():
            if rngs[row].random() < self.change_rate:
                changed = change_scene(self.world, ids[row], self.state[row], self.allowed, rngs[row])
                self.ids[row], self.state[row] = changed
        self.changed = (self.ids != ids).any(axis=1)

    def info(self) -> Info:
        """What is known of every row, in arrays that are held by nothing else."""
        info = describe(self.world, self.ids, self.state, self.segmentation)
        info |= {"moved": self.moved.copy(), "absent": self.absent.copy()}
        if self.task is not None:
            info["is_success"] = self.success.copy()
        return info | ({"changed": self.changed.copy()} if self.change_rate else {})

    def observe(self, rows: Bool[np.ndarray, " rows"] | slice = slice(None)) -> Any:
        """What the environments show."""
        return self.render(rows)

    def render(self, rows: Bool[np.ndarray, " rows"] | slice = slice(None)) -> Pictures:
        self._check_started()
        return self.world.render(self.ids[rows], self.state[rows])

    def _check_started(self) -> None:
        if self.ids[:, 0].min() < 0:
            raise gym.error.ResetNeeded("an environment has not been reset yet; call reset() first")

    def _read_options(self, options: Info) -> tuple[Integer[np.ndarray, " k"] | None, Num[np.ndarray, "k F"] | None]:
        """Ascending ids and their state, where given. Row j of positions or state is that of the j-th id *as given*."""
        unknown = sorted(str(key) for key in options.keys() - {"scene", "positions", "state"})
        if unknown:
            raise HowmError(f"unknown reset option {unknown[0]!r}; the options are scene, positions and state")
        n, k = self.world.n, self.sizes[-1]
        scene, given = None, options.get("scene")
        if len(self.sizes) > 1:
            if given is None and options.keys() & {"positions", "state"}:
                raise HowmError("scenes differ in size here; give the option scene with positions or state")
            k = len(given) if isinstance(given, Sequence | np.ndarray) and len(given) in self.sizes else k
        order = np.arange(k)  # of the objects as given
        if given is not None:
            ids = _read_array(given, (k,))
            if ids is None or ids.dtype.kind not in "iu" or len(set(ids.tolist()) & set(range(n))) < k:
                raise HowmError(f"scene={given!r} is not the ids of k={k} different objects; give ids of 0-{n - 1}")
            order = ids.argsort()
            scene = ids[order].astype(np.int64)
        if (given := options.get("positions")) is not None:
            places = _read_array(given, (k, 2))
            if places is None:
                raise HowmError(f"positions={given!r} are not the (row, column) of k={k} objects")
            state = self.world.state_at(places[order][None])
            if state is None:
                raise HowmError("positions do not determine a state of this world; give the option state")
            return scene, state[0]
        return scene, None if options.get("state") is None else self._read_state(options["state"], scene, order)

    def _read_state(self, given: Any, scene: np.ndarray | None, order: np.ndarray) -> Num[np.ndarray, "k F"]:
        k = len(order)
        ids = np.arange(k) if scene is None else scene
        usual = self.world.reset(ids[None], np.random.default_rng(0))[0]
        state = _read_array(given, usual.shape)
        if state is None or not np.can_cast(state.dtype, usual.dtype, "same_kind"):
            raise HowmError(f"state={given!r} is not {usual.dtype} numbers of shape {usual.shape}")
        return np.asarray(state[order], dtype=usual.dtype)

    def _check_possible(self, ids: Integer[np.ndarray, " K"], state: Num[np.ndarray, "k F"]) -> Num[np.ndarray, "k F"]:
        """A state that was given, if objects of these ids can be in it."""
        for violation in self.world.violations(ids[None, : len(state)], state[None]):
            raise HowmError(f"the objects {ids[: len(state)].tolist()} cannot be at {state.tolist()}: {violation}")
        return state


def act(
    world: World, ids: Integer[np.ndarray, "E K"], state: Num[np.ndarray, "E K F"], actions: Integer[np.ndarray, " E"]
) -> tuple[Num[np.ndarray, "E K F"], Bool[np.ndarray, " E"], Bool[np.ndarray, " E"]]:
    """The states after one action each, which of them changed, and whose action was of an absent object."""
    after = world.step(ids, state, actions)
    return after, (after != state).any(axis=(1, 2)), world.absent(ids, actions)


def describe(
    world: World, ids: Integer[np.ndarray, "E K"], state: Num[np.ndarray, "E K F"], segmentation: bool = False
) -> Info:
    """What infos say of states, in arrays that are held by nothing else."""
    present = np.zeros((len(ids), world.n + 1), dtype=np.int8)
    np.put_along_axis(present, np.where(ids < 0, world.n, ids), 1, axis=1)
    present = present[:, : world.n]
    info: Info = {"object_ids": ids.copy(), "action_mask": present.repeat(world.actions_per_object, axis=1)}
    if segmentation:
        info["segmentation"] = _segmentation(world, ids, state)
    told = {"positions": world.positions(ids, state), "visible": world.visible(ids, state)}
    return info | {name: value for name, value in told.items() if value is not None} | world.info(ids, state)


def _segmentation(
    world: World, ids: Integer[np.ndarray, "E K"], state: Num[np.ndarray, "E K F"]
) -> Integer[np.ndarray, "E height width"]:
    masks = world.masks(ids, state)
    if masks is None:
        raise HowmError("this world does not tell which pixels show an object; leave out segmentation")
    shown = np.full((len(ids), *masks.shape[2:]), -1, dtype=np.int64)
    for j in range(ids.shape[1]):
        shown = np.where(masks[:, j], ids[:, j, None, None], shown)
    return shown


@lru_cache(maxsize=64)
def _make_split(kind: SplitKind, n: int, k: range, seed: int, eval_k: range | None) -> SceneSplit:
    return make_split(kind, n, k, seed, eval_k)


def _read_array(values: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """The values, if they are numbers in this shape."""
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        return None
    return array if array.shape == shape and array.dtype.kind in "iuf" else None


def _row(info: Info, row: int) -> Info:
    """One environment's share of batched infos, with its flags as plain values."""
    return {key: value[row] if value.ndim > 1 else value[row].item() for key, value in info.items()}


def row_of(observations: Any, row: int) -> Any:
    """One environment's own copy of batched observations."""
    if isinstance(observations, dict):
        return {key: row_of(value, row) for key, value in observations.items()}
    return observations[row].copy()


def put_rows(observations: Any, rows: Bool[np.ndarray, " envs"], values: Any) -> None:
    """Write those of some environments into batched observations."""
    if isinstance(observations, dict):
        for key, value in observations.items():
            put_rows(value, rows, values[key])
    else:
        observations[rows] = values


def _batch(info: Info, rows: Bool[np.ndarray, " envs"]) -> Info:
    """Infos as SyncVectorEnv batches them: zeros for environments that report none, and masks of those that do."""
    for value in info.values():
        value[~rows] = 0
    return info | {f"_{key}": rows.copy() for key in info}


def _check_render_mode(mode: str | None) -> str | None:
    if mode not in (None, "rgb_array"):
        raise HowmError(f"unknown render_mode {mode!r}; choose rgb_array or None")
    return mode
