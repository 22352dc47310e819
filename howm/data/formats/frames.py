"""What the formats share: the frames of an episode, and progress."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from howm.data.episodes import Episodes

T = TypeVar("T")


def _frames(episodes: Episodes, row: int) -> np.ndarray:
    """All pictures of one episode."""
    times = np.arange(episodes.steps + 1)
    return episodes.observe(np.full_like(times, row), times)


def _watched(items: Sequence[T], doing: str) -> "tqdm[T]":
    """A progress bar, on a terminal, where it takes longer than a second."""
    return tqdm(items, desc=doing, unit="episode", delay=1.0, disable=None)
