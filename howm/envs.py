"""Gymnasium environments of the Shapes and Rush Hour worlds: one at a time, or many in one process.

Action ``4 * i + d`` moves library object i: in Shapes north, east, south or west (d = 0-3), in Rush Hour forward,
right, backward or left of where the car faces. Single and vector environments share all rules through `_Episodes`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypedDict, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs, seeding
from gymnasium.vector import AutoresetMode, VectorActionWrapper, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float, Int, UInt8

from howm.errors import HowmError, whole
from howm.grid import Grid
from howm.library import ObjectLibrary
from howm.registration import EPISODE_STEPS
from howm.render import Renderer
from howm.scenes import SceneSplit, seeded_split

Info = dict[str, Any]
RewardFn = Callable[[Info, int, Info], float]  # the infos before and after the step, and the action between them
Picture = UInt8[np.ndarray, "height width 3"]
Pictures = UInt8[np.ndarray, "envs height width 3"]

METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}


class Settings(TypedDict, total=False):
    """What all environments accept; the defaults stand in ``_Episodes``."""

    n: int  # objects in the library
    k: int  # objects in a scene
    grid: int | tuple[int, int]  # side, or height and width, in cells
    cell_pixels: int
    split: str  # scenes of an episode: "train", "eval", or "all": any k of the n objects, in the split or not
    split_seed: int  # the seed of `howm data make` that makes the same split
    library_seed: int
    reward_fn: RewardFn | None  # without one, rewards are 0


class _Episodes:
    """The state of many episodes of one world, one row each: which objects, on which cells, and the last outcome."""

    def __init__(
        self,
        rows: int,
        world: str,
        n: int = 10,
        k: int = 5,
        grid: int | tuple[int, int] = 5,
        cell_pixels: int = 10,
        split: str = "train",
        split_seed: int = 0,
        library_seed: int = 0,
        reward_fn: RewardFn | None = None,
    ) -> None:
        n, k = whole("n", n, 1), whole("k", k, 1)
        if k > n:
            raise HowmError(f"a scene of k={k} objects cannot be drawn from a library of n={n}; give k <= n")
        self.library = ObjectLibrary.make(world, n, whole("library_seed", library_seed, 0))
        self.grid = _make_grid(grid)
        self.grid.check_room(k)
        self.renderer = Renderer(self.library, self.grid, whole("cell_pixels", cell_pixels, 1))
        split_seed = whole("split_seed", split_seed, 0)
        # "all" must not make a split: some n and k (any k=1) have scenes but no split that covers the library.
        self.scenes = None if split == "all" else _make_split(n, k, split_seed).scenes(split).to_array()
        self.reward_fn = reward_fn
        self.observation_space = gym.spaces.Box(0, 255, self.renderer.shape, np.uint8)
        self.action_space = gym.spaces.Discrete(4 * n)
        self.ids = np.full((rows, k), -1)  # until the first reset
        self.cells = np.zeros((rows, k), dtype=np.int64)
        self.moved = np.zeros(rows, dtype=bool)
        self.absent = np.zeros(rows, dtype=bool)

    def reset(
        self, rows: Int[np.ndarray, "resetting"], rngs: Sequence[np.random.Generator], options: Info | None
    ) -> None:
        """Start these rows anew; row r draws what the options leave open from ``rngs[r]``."""
        scene, placed = self._read_options(options or {})
        n, k = self.library.n, self.ids.shape[1]
        for row in rows:
            rng = rngs[row]
            if scene is not None:
                self.ids[row] = scene
            elif self.scenes is not None:
                self.ids[row] = self.scenes[rng.integers(len(self.scenes))]
            else:
                self.ids[row] = np.sort(rng.choice(n, k, replace=False))
            self.cells[row] = self.grid.place(rng, 1, k)[0] if placed is None else placed
        self.moved[rows] = self.absent[rows] = False

    def step(self, given: Any, stepping: Bool[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        """Act in the rows that are stepping (the others are left in any state) and return the rewards."""
        self._check_started()
        actions = np.where(stepping, given, 0) if np.shape(given) == stepping.shape else np.empty(0)
        highest = 4 * self.library.n - 1
        if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() > highest:
            raise HowmError(f"actions must be whole numbers of 0-{highest}, one per environment; got {given!r}")

        before = self.info() if self.reward_fn else {}
        self.cells, self.moved, self.absent = self.grid.act(self.library.headings, self.ids, self.cells, actions)

        rewards = np.zeros(len(actions))
        if self.reward_fn:
            after = self.info()
            for row in np.flatnonzero(stepping).tolist():
                rewards[row] = self.reward_fn(_row(before, row), int(actions[row]), _row(after, row))
        return rewards

    def info(self) -> Info:
        """What is known of every row, in arrays that nobody else holds."""
        present = np.zeros((len(self.ids), self.library.n), dtype=np.int8)
        np.put_along_axis(present, self.ids, 1, axis=1)
        info = {
            "object_ids": self.ids.copy(),
            "positions": self.grid.positions(self.cells),
            "action_mask": present.repeat(4, axis=1),
            "moved": self.moved.copy(),
            "absent": self.absent.copy(),
        }
        if self.library.world == "rush_hour":
            info["headings"] = self.library.headings[self.ids].astype(np.int64)
        return info

    def render(self, rows: Bool[np.ndarray, "rows"] | slice = slice(None)) -> Pictures:
        self._check_started()
        return self.renderer.render(self.ids[rows], self.cells[rows])

    def _check_started(self) -> None:
        if self.ids.min() < 0:
            raise gym.error.ResetNeeded("an environment has not been reset yet; call reset() first")

    def _read_options(self, options: Info) -> tuple[Int[np.ndarray, "k"] | None, Int[np.ndarray, "k"] | None]:
        """Ascending ids and their cells, where given. Position j is that of the j-th id *as given*."""
        unknown = sorted(str(key) for key in options.keys() - {"scene", "positions"})
        if unknown:
            raise HowmError(f"unknown reset option {unknown[0]!r}; the options are scene and positions")
        n, k = self.library.n, self.ids.shape[1]
        scene, cells, order = None, None, np.arange(k)
        if (given := options.get("scene")) is not None:
            ids = _read_distinct(given, (k,), n)
            if ids is None:
                raise HowmError(f"scene={given!r} is not the ids of k={k} different objects; give ids of 0-{n - 1}")
            order = ids.argsort()
            scene = ids[order]
        if (given := options.get("positions")) is not None:
            size = (self.grid.height, self.grid.width)
            places = _read_distinct(given, (k, 2), size)
            if places is None:
                where = f"give (row, column) on a grid of {size[0]}x{size[1]}"
                raise HowmError(f"positions={given!r} are not k={k} different cells; {where}")
            cells = (places @ [self.grid.width, 1])[order]
        return scene, cells


class ObjectLibraryEnv(gym.Env[Picture, np.int64]):
    """One environment; every reset draws a scene of the split and a random arrangement.

    ``reset(options={"scene": ids, "positions": rows_and_columns})`` chooses either; the scene may be outside the split.
    Infos have ``object_ids`` (ascending), ``positions``, ``action_mask``, ``moved``, ``absent`` (the last action was of
    an object not in the scene: nothing happens) and in Rush Hour ``headings``. Episodes end by a time limit only.
    """

    metadata = METADATA
    world: ClassVar[str]

    def __init__(self, *, render_mode: str | None = None, **settings: Unpack[Settings]) -> None:
        self.render_mode = _check_render_mode(render_mode)
        self._episodes = _Episodes(1, self.world, **settings)
        self.library, self.grid = self._episodes.library, self._episodes.grid
        self.observation_space = self._episodes.observation_space
        self.action_space = self._episodes.action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Picture, Info]:
        super().reset(seed=seed)
        self._episodes.reset(np.arange(1), [self.np_random], options)
        return self._episodes.render()[0], _row(self._episodes.info(), 0)

    def step(self, action: np.int64 | int) -> tuple[Picture, float, bool, bool, Info]:
        rewards = self._episodes.step([action], np.ones(1, dtype=bool))
        return self._episodes.render()[0], float(rewards[0]), False, False, _row(self._episodes.info(), 0)

    def render(self) -> Picture | None:
        return self._episodes.render()[0] if self.render_mode else None


class ObjectLibraryVectorEnv(VectorEnv[Pictures, Int[np.ndarray, "envs"], np.ndarray]):
    """Many environments stepped at once; equal, number for number, to single ones in Gymnasium's SyncVectorEnv.

    ``max_episode_steps`` is read as by ``gymnasium.make``: None is the registered limit, -1 is no limit.
    A ``reward_fn`` is called once per environment and step, which is slower than all the rest.
    """

    world: ClassVar[str]

    def __init__(
        self,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self.num_envs = whole("num_envs", num_envs, 1)
        limit = EPISODE_STEPS if max_episode_steps is None else max_episode_steps
        self._step_limit = np.inf if limit == -1 else whole("max_episode_steps", limit, 1)
        try:
            self._mode = AutoresetMode(autoreset_mode)
        except ValueError as error:
            modes = ", ".join(mode.value for mode in AutoresetMode)
            raise HowmError(f"unknown autoreset_mode {autoreset_mode!r}; choose one of {modes}") from error
        self.metadata = {**METADATA, "autoreset_mode": self._mode}
        self.render_mode = _check_render_mode(render_mode)
        self._episodes = _Episodes(self.num_envs, self.world, **settings)
        self.library, self.grid = self._episodes.library, self._episodes.grid
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._rngs = [seeding.np_random()[0] for _ in range(self.num_envs)]
        self._elapsed = np.zeros(self.num_envs, dtype=np.int64)
        self._ended = np.zeros(self.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Pictures, Info]:
        """As of single environments; ``options["reset_mask"]`` limits it to some. Seed s gives environment i s + i."""
        options = dict(options or {})
        rows = options.pop("reset_mask", np.ones(self.num_envs, dtype=bool))
        if not isinstance(rows, np.ndarray) or rows.shape != (self.num_envs,) or rows.dtype != bool or not rows.any():
            raise HowmError(f"reset_mask={rows!r} is not a bool array of {self.num_envs} with a True in it")
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise HowmError(f"seed={seed!r} has {len(seeds)} seeds for {self.num_envs} environments; give one each")
        for row in np.flatnonzero(rows).tolist():
            if seeds is not None and seeds[row] is not None:
                self._rngs[row] = seeding.np_random(seeds[row])[0]
        self._restart(rows, options)
        return self._episodes.render(), _batch(self._episodes.info(), rows)

    def step(self, actions: Int[np.ndarray, "envs"]) -> tuple[Pictures, np.ndarray, np.ndarray, np.ndarray, Info]:
        restarting = self._ended  # in SAME_STEP mode nothing: all has restarted already
        if self._mode is AutoresetMode.DISABLED and restarting.any():
            ended = np.flatnonzero(restarting).tolist()
            raise HowmError(f"environments {ended} have ended; reset them with options={{'reset_mask': mask}}")
        rewards = self._episodes.step(actions, ~restarting)
        self._elapsed += 1
        if restarting.any():
            self._restart(restarting)
        truncated = self._elapsed >= self._step_limit
        observations = self._episodes.render()
        infos: Info = {}
        if self._mode is AutoresetMode.SAME_STEP and truncated.any():
            pictures = np.full(self.num_envs, None, dtype=object)
            for row in np.flatnonzero(truncated):
                pictures[row] = observations[row].copy()
            infos["final_obs"], infos["_final_obs"] = pictures, truncated.copy()
            infos["final_info"] = _batch(self._episodes.info(), truncated)
            infos["_final_info"] = truncated.copy()
            self._restart(truncated)
            observations[truncated] = self._episodes.render(truncated)
        else:
            self._ended = truncated.copy()
        infos |= _batch(self._episodes.info(), np.ones(self.num_envs, dtype=bool))
        return observations, rewards, np.zeros(self.num_envs, dtype=bool), truncated, infos

    def render(self) -> tuple[Picture, ...] | None:
        return tuple(self._episodes.render()) if self.render_mode else None

    def _restart(self, rows: Bool[np.ndarray, "envs"], options: Info | None = None) -> None:
        self._episodes.reset(np.flatnonzero(rows), self._rngs, options)
        self._elapsed[rows] = 0
        self._ended = self._ended & ~rows


class ShapesEnv(ObjectLibraryEnv):
    """``howm/Shapes-v0``."""

    world = "shapes"


class RushHourEnv(ObjectLibraryEnv):
    """``howm/RushHour-v0``."""

    world = "rush_hour"


class ShapesVectorEnv(ObjectLibraryVectorEnv):
    """``howm/Shapes-v0``, many at once."""

    world = "shapes"


class RushHourVectorEnv(ObjectLibraryVectorEnv):
    """``howm/RushHour-v0``, many at once."""

    world = "rush_hour"


class FactoredActions(gym.ActionWrapper[Picture, Int[np.ndarray, "2"], np.int64], RecordConstructorArgs):
    """Actions as pairs of an object and a direction. The info's ``action_mask`` stays flat."""

    def __init__(self, env: gym.Env[Picture, np.int64]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        self.action_space = _factored(env.action_space)

    def action(self, action: Int[np.ndarray, "2"]) -> np.int64:
        return np.int64(_flat_actions(self.action_space, action))


class FactoredVectorActions(VectorActionWrapper[Pictures, np.ndarray, np.ndarray, np.ndarray]):
    """`FactoredActions` for a vector environment: one pair per environment."""

    def __init__(self, env: VectorEnv[Pictures, np.ndarray, np.ndarray]) -> None:
        super().__init__(env)
        self.single_action_space = _factored(env.single_action_space)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def actions(self, actions: Int[np.ndarray, "envs 2"]) -> Int[np.ndarray, "envs"]:
        return _flat_actions(self.action_space, actions)


def _factored(space: gym.Space[Any]) -> gym.spaces.MultiDiscrete:
    if not isinstance(space, gym.spaces.Discrete) or space.n % 4:
        raise HowmError(f"actions {space} are not four per object; wrap a howm environment")
    return gym.spaces.MultiDiscrete([space.n // 4, 4])


def _flat_actions(space: gym.Space[Any], pairs: np.ndarray) -> np.ndarray:
    # Unchecked, the direction 4 of one object would pass for the direction 0 of the next.
    if pairs not in space:
        raise HowmError(f"action {np.asarray(pairs).tolist()} is not (object, direction) in {space}")
    return np.asarray(pairs) @ [4, 1]


@lru_cache(maxsize=64)
def _make_split(n: int, k: int, seed: int) -> SceneSplit:
    return seeded_split(n, k, seed)


def _make_grid(size: int | tuple[int, int]) -> Grid:
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(sides) != 2:
        raise HowmError(f"grid={size!r} is neither a side nor (height, width); give e.g. 5 or (4, 6)")
    return Grid(whole("grid", sides[0], 1), whole("grid", sides[1], 1))


def _read_distinct(values: Any, shape: tuple[int, ...], below: int | tuple[int, int]) -> np.ndarray | None:
    """The values, if they have this shape and are different whole numbers (or rows of them) from 0 on; or nothing."""
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        return None
    if array.shape != shape or array.dtype.kind not in "iu" or (array < 0).any() or (array >= np.array(below)).any():
        return None
    return array.astype(np.int64) if len(np.unique(array, axis=0)) == len(array) else None


def _row(info: Info, row: int) -> Info:
    """One environment's share of batched infos, with its flags as plain bools."""
    return {key: value[row] if value.ndim > 1 else bool(value[row]) for key, value in info.items()}


def _batch(info: Info, rows: Bool[np.ndarray, "envs"]) -> Info:
    """Infos as SyncVectorEnv batches them: zeros for environments that report none, and masks of those that do."""
    for value in info.values():
        value[~rows] = 0
    return info | {f"_{key}": rows.copy() for key in info}


def _check_render_mode(mode: str | None) -> str | None:
    if mode not in (None, "rgb_array"):
        raise HowmError(f"unknown render_mode {mode!r}; choose rgb_array or None")
    return mode
