"""Tells Gymnasium of the environments by name only, so that ``import howm`` need not load them."""

import re

import gymnasium

from howm.worlds.registry import WORLDS

EPISODE_STEPS = 100  # after these an episode is truncated, unless ``max_episode_steps`` says otherwise


def env_id(world: str) -> str:
    """The id of a registered world's environment: of ``rush_hour``, ``howm/RushHour-v0``."""
    words = re.split(r"[^A-Za-z0-9]+", world)
    return f"howm/{''.join(word[:1].upper() + word[1:] for word in words)}-v0"


def register_envs() -> None:
    """Register an environment for every world that is known by name; calling it again changes nothing."""
    for world in WORLDS:
        if env_id(world) not in gymnasium.registry:
            gymnasium.register(
                env_id(world),
                entry_point="howm.worlds.envs.single:WorldEnv",
                vector_entry_point="howm.worlds.envs.vector:WorldVectorEnv",
                max_episode_steps=EPISODE_STEPS,
                kwargs={"world": world},
            )
