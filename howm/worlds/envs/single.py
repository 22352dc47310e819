"""Gymnasium environments, one at a time."""

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from howm.worlds.envs.episodes import METADATA, Info, Picture, _check_render_mode, _Episodes, _row, read_world, row_of
from howm.worlds.world import World


class WorldEnv(gym.Env[Any, np.int64]):
    """An environment of a world; every reset draws a scene of the split and a random state.

    ``world`` is one, or a name; then ``n``, ``library_seed`` and the world's own settings, such as ``grid``, make it.
    ``k``, ``split``, ``split_seed`` and ``reward_fn`` are settings of all environments (see ``Settings``).

    ``reset(options={"scene": ids, "positions": rows_and_columns})`` chooses either; the scene may be outside the split.
    ``"state"`` instead of positions is for any world. Infos have ``object_ids`` (ascending), ``action_mask``, ``moved``
    (the state has changed), ``absent`` (the last action was of an object not in the scene: nothing happens), where
    the world tells ``positions`` and the ``visible`` share of each object, and what it adds, by default its ``state``.
    Where scenes differ in size, ids are filled up with -1; where objects change, ``changed`` says when. Episodes end by
    a time limit, or, where ``reward_fn`` names a task (see `tasks`), when it is done; then ``is_success`` is true.
    """

    metadata = METADATA
    _kind: ClassVar[type[_Episodes]] = _Episodes

    def __init__(self, world: str | World, *, render_mode: str | None = None, **settings: Any) -> None:
        self.render_mode = _check_render_mode(render_mode)
        self.world, shared = read_world(world, settings, self._kind.settings)
        self._episodes = self._kind(1, self.world, **shared)
        self.observation_space = self._episodes.observation_space
        self.action_space = self._episodes.action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._episodes.reset(np.arange(1), [self.np_random], options)
        return row_of(self._episodes.observe(), 0), _row(self._episodes.info(), 0)

    def step(self, action: np.int64 | int) -> tuple[Any, float, bool, bool, Info]:
        rewards = self._episodes.step([action], np.ones(1, dtype=bool), [self.np_random])
        observation, done = row_of(self._episodes.observe(), 0), bool(self._episodes.success[0])
        return observation, float(rewards[0]), done, False, _row(self._episodes.info(), 0)

    def render(self) -> Picture | None:
        return self._episodes.render()[0] if self.render_mode else None
