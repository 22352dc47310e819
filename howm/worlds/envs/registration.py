"""Tells Gymnasium of the environments by name only, so that ``import howm`` need not load them."""

import re

import gymnasium

from howm.worlds.registry import WORLDS

EPISODE_STEPS = 100  # after these an episode is truncated, unless ``max_episode_steps`` says otherwise


def env_id(world: str, goal: bool = False) -> str:
    """The id of a world's environment: of ``rush_hour``, ``howm/RushHour-v0`` or, with goals, ``howm/RushHourGoal-v0``."""
    words = re.split(r"[^A-Za-z0-9]+", world)
    return f"howm/{''.join(word[:1].upper() + word[1:] for word in words)}{'Goal' * goal}-v0"


def register_envs() -> None:
    """Register an environment for every world that is known by name; calling it again changes nothing."""
    for world in WORLDS:
        for goal in (False, True):
            if env_id(world, goal) not in gymnasium.registry:
                gymnasium.register(
                    env_id(world, goal),
                    entry_point="howm.worlds.envs.goal:WorldGoalEnv" if goal else "howm.worlds.envs.single:WorldEnv",
                    vector_entry_point="howm.worlds.envs.goal:WorldGoalVectorEnv"
                    if goal
                    else "howm.worlds.envs.vector:WorldVectorEnv",
                    max_episode_steps=EPISODE_STEPS,
                    kwargs={"world": world},
                )
