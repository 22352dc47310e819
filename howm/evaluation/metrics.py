"""H@k and MRR of ranks, with an interval over scenes, and what guessing would give."""

import numpy as np
from jaxtyping import Float, Int

from howm.runs.result import Metrics

_DRAWN = 1 << 17  # scenes that are drawn at once


def summarise(
    ranks: Float[np.ndarray, " P"],
    groups: Int[np.ndarray, " P"],
    rng: np.random.Generator,
    resamples: int = 1000,
) -> Metrics:
    """H@1, H@5, H@10 and MRR; the interval is a percentile bootstrap over scenes (`groups`).

    With one scene only there are no others to draw, and queries are resampled instead: then the interval
    says nothing about other scenes.
    """
    if ranks.ndim != 1 or ranks.shape != groups.shape or not len(ranks):
        raise ValueError(f"need one rank and one group per query, not {ranks.shape} and {groups.shape}")
    if not (ranks >= 1).all():
        raise ValueError("ranks start at 1")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    reciprocal = 1.0 / ranks
    scene = np.unique(groups, return_inverse=True)[1]
    if scene.max() == 0:
        scene = np.arange(len(ranks))
    # Queries of one scene share objects and background, so scenes are the independent draws.
    total, count = np.bincount(scene, weights=reciprocal), np.bincount(scene)
    at_once = max(1, _DRAWN // len(total))
    parts = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    drawn = (rng.integers(len(total), size=(part, len(total))) for part in parts)
    means = np.concatenate([total[d].sum(axis=1) / count[d].sum(axis=1) for d in drawn])
    low, high = 100.0 * np.percentile(means, [2.5, 97.5])
    h1, h5, h10 = (100.0 * float(np.mean(ranks <= k)) for k in (1, 5, 10))
    return Metrics(h1, h5, h10, 100.0 * float(reciprocal.mean()), (float(low), float(high)))


def expected_random_mrr(pool_sizes: Int[np.ndarray, " P"]) -> float:
    """Percent MRR of guessing: a uniform rank in a pool of n has the mean reciprocal H_n/n."""
    _check_sizes(pool_sizes)
    harmonic = np.cumsum(1.0 / np.arange(1, pool_sizes.max() + 1))
    return 100.0 * float(np.mean(harmonic[pool_sizes - 1] / pool_sizes))


def expected_constant_mrr(pool_sizes: Int[np.ndarray, " P"]) -> float:
    """Percent MRR of an encoder that maps everything to one point: all tie at the rank (n+1)/2."""
    _check_sizes(pool_sizes)
    return 200.0 * float(np.mean(1.0 / (pool_sizes + 1)))


def _check_sizes(sizes: Int[np.ndarray, " P"]) -> None:
    if not len(sizes) or sizes.min() < 1:
        raise ValueError("every pool holds at least its target")
