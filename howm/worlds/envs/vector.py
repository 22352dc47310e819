"""Gymnasium environments, many in one process."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Integer

from howm.errors import HowmError, require_int
from howm.worlds.envs.episodes import (
    METADATA,
    Info,
    Picture,
    _batch,
    _check_render_mode,
    _Episodes,
    put_rows,
    read_world,
    row_of,
)
from howm.worlds.envs.registration import EPISODE_STEPS
from howm.worlds.world import World


class WorldVectorEnv(VectorEnv[Any, Integer[np.ndarray, " envs"], np.ndarray]):
    """Many environments of a world stepped at once; equal, number for number, to `WorldEnv` in SyncVectorEnv.

    ``max_episode_steps`` is read as by ``gymnasium.make``: None is the registered limit, -1 is no limit.
    A task is judged for all environments at once; a function as ``reward_fn`` is called once per environment and step,
    which is slower than all the rest.
    """

    _kind: ClassVar[type[_Episodes]] = _Episodes

    def __init__(
        self,
        world: str | World,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.num_envs = require_int("num_envs", num_envs, 1)
        limit = EPISODE_STEPS if max_episode_steps is None else max_episode_steps
        self._step_limit = np.inf if limit == -1 else require_int("max_episode_steps", limit, 1)
        try:
            self._mode = AutoresetMode(autoreset_mode)
        except ValueError as error:
            modes = ", ".join(mode.value for mode in AutoresetMode)
            raise HowmError(f"unknown autoreset_mode {autoreset_mode!r}; choose one of {modes}") from error
        self.metadata = {**METADATA, "autoreset_mode": self._mode}
        self.render_mode = _check_render_mode(render_mode)
        self.world, shared = read_world(world, settings, self._kind.settings)
        self._episodes = self._kind(self.num_envs, self.world, **shared)
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._rngs = [seeding.np_random()[0] for _ in range(self.num_envs)]
        self._elapsed = np.zeros(self.num_envs, dtype=np.int64)
        self._ended = np.zeros(self.num_envs, dtype=bool)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
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
        return self._episodes.observe(), _batch(self._episodes.info(), rows)

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Info]:
        restarting = self._ended  # in SAME_STEP mode nothing: all has restarted already
        if self._mode is AutoresetMode.DISABLED and restarting.any():
            ended = np.flatnonzero(restarting).tolist()
            raise HowmError(f"environments {ended} have ended; reset them with options={{'reset_mask': mask}}")
        rewards = self._episodes.step(actions, ~restarting, self._rngs)
        self._elapsed += 1
        if restarting.any():
            self._restart(restarting)
        truncated = self._elapsed >= self._step_limit
        terminated = self._episodes.success & ~restarting
        over = terminated | truncated
        observations = self._episodes.observe()
        infos: Info = {}
        if self._mode is AutoresetMode.SAME_STEP and over.any():
            last = np.full(self.num_envs, None, dtype=object)
            for row in np.flatnonzero(over).tolist():
                last[row] = row_of(observations, row)
            infos["final_obs"], infos["_final_obs"] = last, over.copy()
            infos["final_info"] = _batch(self._episodes.info(), over)
            infos["_final_info"] = over.copy()
            self._restart(over)
            put_rows(observations, over, self._episodes.observe(over))
        else:
            self._ended = over.copy()
        infos |= _batch(self._episodes.info(), np.ones(self.num_envs, dtype=bool))
        return observations, rewards, terminated, truncated, infos

    def render(self) -> tuple[Picture, ...] | None:
        return tuple(self._episodes.render()) if self.render_mode else None

    def _restart(self, rows: Bool[np.ndarray, " envs"], options: Info | None = None) -> None:
        self._episodes.reset(np.flatnonzero(rows), self._rngs, options)
        self._elapsed[rows] = 0
        self._ended = self._ended & ~rows
