"""How much the compounds of two sets of scenes differ (Keysers et al., 2020): from 0, the same mix, to 1."""

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

from howm.worlds.scene_set import Scene, SceneSet

ATOM_ALPHA = 0.5  # single objects count alike on both sides
COMPOUND_ALPHA = 0.1  # of a compound it matters most whether training has it at all


def shares(scenes: Iterable[Scene], size: int) -> dict[Scene, float]:
    """The share of each group of ``size`` objects among all such groups of the scenes."""
    counts = Counter(group for scene in scenes for group in combinations(scene, size))
    total = sum(counts.values())
    return {group: count / total for group, count in counts.items()}


def divergence(train: SceneSet, evaluation: SceneSet, size: int) -> float:
    """1 - Σ p^α q^(1-α) over groups of objects, p of training and q of evaluation scenes."""
    alpha = ATOM_ALPHA if size == 1 else COMPOUND_ALPHA
    p, q = shares(train.scenes, size), shares(evaluation.scenes, size)
    common: float = sum(p[group] ** alpha * q[group] ** (1 - alpha) for group in p.keys() & q.keys())
    return max(0.0, 1.0 - common)


def compound_divergence(train: SceneSet, evaluation: SceneSet) -> dict[str, float]:
    """Of pairs and triples, where scenes have as many objects, to six digits: files compare it."""
    largest = min(train.k, evaluation.k)
    return {
        name: round(divergence(train, evaluation, size), 6)
        for name, size in (("pairs", 2), ("triples", 3))
        if size <= largest
    }
