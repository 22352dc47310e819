"""Actions as pairs of an object and what it does."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorActionWrapper, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Integer

from howm.errors import HowmError
from howm.worlds.envs.episodes import Picture, Pictures
from howm.worlds.world import World


class FactoredActions(gym.ActionWrapper[Picture, Integer[np.ndarray, " 2"], np.int64], RecordConstructorArgs):
    """Actions as pairs of an object and one of its actions. The info's ``action_mask`` stays flat."""

    def __init__(self, env: gym.Env[Picture, np.int64]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        self.action_space = self._pairs = _factored(env)

    def action(self, action: Integer[np.ndarray, " 2"]) -> np.int64:
        return np.int64(_flat_actions(self.action_space, self._pairs, action))


class FactoredVectorActions(VectorActionWrapper[Pictures, np.ndarray, np.ndarray, np.ndarray]):
    """`FactoredActions` for a vector environment: one pair per environment."""

    def __init__(self, env: VectorEnv[Pictures, np.ndarray, np.ndarray]) -> None:
        super().__init__(env)
        self.single_action_space = self._pairs = _factored(env)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def actions(self, actions: Integer[np.ndarray, "envs 2"]) -> Integer[np.ndarray, " envs"]:
        return _flat_actions(self.action_space, self._pairs, actions)


def _factored(env: Any) -> gym.spaces.MultiDiscrete:
    world = getattr(env.unwrapped, "world", None)
    if not isinstance(world, World):
        raise HowmError(f"{env} is not an environment of howm, whose actions belong to objects; wrap one that is")
    return gym.spaces.MultiDiscrete([world.n, world.actions_per_object])


def _flat_actions(space: gym.Space[Any], one: gym.spaces.MultiDiscrete, pairs: np.ndarray) -> np.ndarray:
    # Unchecked, an action too many of one object would pass for the first of the next.
    if pairs not in space:
        raise HowmError(f"action {np.asarray(pairs).tolist()} is not (object, action of the object) in {space}")
    return np.asarray(np.asarray(pairs) @ [one.nvec[1], 1])
