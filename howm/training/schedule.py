"""The learning rate of each step."""

import math

from howm.runs.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """The rate of step 0, 1, ...: never zero, and a function of the step alone."""
    rate = config.lr
    if config.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / config.steps))
    return rate * min(1.0, (step + 1) / config.warmup) if config.warmup else rate
