"""The paired bootstrap, written out: scenes are drawn one by one, and both models are averaged over the same draw."""

import numpy as np


def plain_paired_interval(ranks, base, scenes, rng, resamples=1000) -> tuple[float, float, float]:
    """The difference of MRR in percent, and the 2.5th and 97.5th percentile of its resamples."""
    names = sorted(set(scenes.tolist()))
    if len(names) == 1:
        groups = [[i] for i in range(len(ranks))]
    else:
        groups = [[i for i, scene in enumerate(scenes) if scene == name] for name in names]

    def mrr(of, queries):
        return 100 * sum(1 / of[i] for i in queries) / len(queries)

    everything = range(len(ranks))
    means = []
    for _ in range(resamples):
        drawn = [groups[g] for g in rng.integers(len(groups), size=len(groups))]
        queries = [i for group in drawn for i in group]
        means.append(mrr(ranks, queries) - mrr(base, queries))
    low, high = np.percentile(means, [2.5, 97.5])
    return mrr(ranks, everything) - mrr(base, everything), float(low), float(high)
