"""Tells Gymnasium of the environments by name only, so that ``import howm`` need not load them."""

import gymnasium

EPISODE_STEPS = 100  # after these an episode is truncated, unless ``max_episode_steps`` says otherwise
WORLD_CLASSES = {"howm/Shapes-v0": "Shapes", "howm/RushHour-v0": "RushHour"}


def register_envs() -> None:
    """Register ``howm/Shapes-v0`` and ``howm/RushHour-v0``; calling it again changes nothing."""
    for env_id, name in WORLD_CLASSES.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point=f"howm.envs:{name}Env",
                vector_entry_point=f"howm.envs:{name}VectorEnv",
                max_episode_steps=EPISODE_STEPS,
            )
