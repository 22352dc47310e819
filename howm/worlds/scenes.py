"""Scenes (K library objects), splits of them into training and evaluation sets, and the certificate of a split.

Section 4.4 of the paper asks for two things: the two sets of scenes are disjoint, and objects are about equally
frequent in both, with every object of the library seen in training.
"""

import hashlib
import itertools
from collections.abc import Set
from dataclasses import dataclass
from math import ceil, comb
from typing import Any

import numpy as np

from howm.errors import HowmError, require_int
from howm.worlds.balance import draw_balanced
from howm.worlds.divergence import compound_divergence
from howm.worlds.scene_set import Scene, SceneSet, as_scene, interleave

__all__ = [
    "DEFAULT_SCENES",
    "Scene",
    "SceneSet",
    "SceneSplit",
    "as_scene",
    "draw_unseen",
    "seeded_split",
    "split_scenes",
]

DEFAULT_SCENES = 100
FEW_COMBINATIONS = 200  # below this, training and evaluation share all combinations half and half
ATTEMPTS = 100


@dataclass(frozen=True)
class SceneSplit:
    """Training and evaluation scenes. At N = K there is one scene, which is both: nothing unseen exists."""

    train: SceneSet
    eval: SceneSet
    consecutive: bool = False
    kind: str = "scenes"  # see `splits`
    pairs_apart: tuple[Scene, ...] = ()  # that never share a training scene

    def __post_init__(self) -> None:
        same = self.kind == "larger-k" or self.train.sizes == self.eval.sizes
        if self.train.n != self.eval.n or not same:
            raise HowmError(
                f"training scenes of n={self.train.n}, k={self.train.k} and evaluation scenes of n={self.eval.n}, "
                f"k={self.eval.k} make no split; take both from one library and give them the same size"
            )

    @property
    def n(self) -> int:
        return self.train.n

    @property
    def k(self) -> int:
        """The size of the largest scene."""
        return max(self.train.k, self.eval.k)

    @property
    def sizes(self) -> range:
        """From the smallest to the largest scene."""
        return range(min(self.train.sizes[0], self.eval.sizes[0]), self.k + 1)

    @property
    def unseen_exists(self) -> bool:
        return self.n > self.train.k

    def scenes(self, name: str) -> SceneSet:
        """The scenes of ``"train"``, ``"eval"``, or ``"all"`` (both)."""
        match name:
            case "train":
                return self.train
            case "eval":
                return self.eval
            case "all":
                return self.train | self.eval
        raise HowmError(f"unknown split {name!r}; choose train, eval or all")

    @property
    def spread(self) -> int:
        """By how much the numbers of scenes with each object differ within a set; 0 or 1 is balanced."""
        return max(int(np.ptp(scenes.counts())) for scenes in (self.train, self.eval))

    @property
    def hash(self) -> str:
        sets = [sorted(self.train.scenes), sorted(self.eval.scenes)]
        return hashlib.sha256(repr((self.n, self.k, sets)).encode()).hexdigest()[:16]

    def unseen_label(self, shared: Set[Scene]) -> str:
        """What can be said of the scenes of evaluation, ``shared`` of which are training scenes."""
        if not self.unseen_exists:
            return "no unseen scene exists"
        return f"{len(shared)} eval scenes are seen in training" if shared else "eval scenes are unseen in training"

    def certificate(self) -> dict[str, Any]:
        """What can be said of the split, in JSON types; ``violations`` is empty when it measures what it should."""
        violations = []
        shared = set(self.train.scenes) & set(self.eval.scenes)
        if self.unseen_exists and shared:
            violations.append(f"disjointness: {len(shared)} scenes are in both sets, e.g. {sorted(shared)[0]}")
        for name, scenes in (("train", self.train), ("eval", self.eval)):
            if len(set(scenes.scenes)) < len(scenes):
                violations.append(f"uniqueness: a scene of {name} is listed twice")
            if not len(scenes):
                violations.append(f"emptiness: there is no {name} scene")
        absent = np.flatnonzero(self.train.counts() == 0).tolist()
        if absent:
            violations.append(f"coverage: objects {absent} are in no training scene")
        spreads = {"train": int(np.ptp(self.train.counts())), "eval": int(np.ptp(self.eval.counts()))}
        certificate = {
            "n": self.n,
            "k": self.k,
            "combinations": sum(comb(self.n, size) for size in self.sizes),
            "train_scenes": len(self.train),
            "eval_scenes": len(self.eval),
            "consecutive": self.consecutive,
            "unseen": self.unseen_label(shared),
            "disjoint": not shared,
            "covered": not absent,
            "train_counts": self.train.counts().tolist(),
            "eval_counts": self.eval.counts().tolist(),
            "frequency_spread": spreads,
            "balanced": {name: spread <= 1 for name, spread in spreads.items()},
            "hash": self.hash,
            "violations": violations + self._kind_violations(),
        }
        if self.kind == "scenes" and len(self.sizes) == 1:  # the files of such splits say nothing else
            return certificate
        sizes = {name: [scenes.sizes[0], scenes.k] for name, scenes in (("train", self.train), ("eval", self.eval))}
        pairs = [list(pair) for pair in self.pairs_apart]
        return certificate | {"split": self.kind, "sizes": sizes, "pairs_apart": pairs, "divergence": self.divergence()}

    def divergence(self) -> dict[str, float]:
        """The compound divergence of the pairs and triples of training and evaluation scenes."""
        return compound_divergence(self.train, self.eval)

    def _kind_violations(self) -> list[str]:
        """What contradicts the rules of the kind of split."""
        found, train = [], self.train
        if self.kind == "pairs":
            apart = [set(pair) for pair in self.pairs_apart]

            def holding(scenes: SceneSet) -> int:
                return sum(any(pair <= set(scene) for pair in apart) for scene in scenes.scenes)

            if not apart or holding(train):
                found.append(f"pairs: {holding(train)} training scenes hold a pair that training keeps apart")
            if holding(self.eval) < len(self.eval):
                found.append(f"pairs: {len(self.eval) - holding(self.eval)} evaluation scenes hold no new pair")
        elif self.kind == "minimal" and len(train) != (needed := sum(ceil(self.n / size) for size in train.sizes)):
            found.append(f"minimal: {len(train)} training scenes, but {needed} cover the library")
        elif self.kind == "larger-k" and self.eval.sizes[0] <= train.k:
            found.append(f"larger-k: evaluation scenes of {self.eval.sizes[0]} objects are not larger than training's")
        elif self.kind == "linked" and (alone := sum(not train.neighbours(scene) for scene in train.scenes)):
            found.append(f"linked: from {alone} training scenes no change of one object leads to another")
        return found


def split_scenes(
    n: int,
    k: int,
    rng: np.random.Generator,
    train_scenes: int | None = None,
    eval_scenes: int | None = None,
    consecutive: bool = False,
) -> SceneSplit:
    """Draw disjoint, balanced sets of scenes; what cannot be satisfied is an error before any work."""
    combinations = _check_scene_size(n, k)
    for name, asked in (("train_scenes", train_scenes), ("eval_scenes", eval_scenes)):
        if asked is not None:
            require_int(name, asked, 1)
    if n == k:
        if max(train_scenes or 1, eval_scenes or 1) > 1:
            raise HowmError(f"n=k={n} has one scene only; leave out train_scenes and eval_scenes")
        the_one = SceneSet(n, k, (tuple(range(n)),))
        return SceneSplit(the_one, the_one)

    forbidden: set[Scene] = set()
    if consecutive:
        forbidden = {as_scene((i + j) % n for j in range(k)) for i in range(n)}
        if len(forbidden) == combinations:
            raise HowmError(
                f"all {combinations} scenes of n={n}, k={k} are consecutive, so none is left for training; "
                "leave out the option consecutive or choose n >= k + 2"
            )
    train_count, eval_count = _set_sizes(n, k, combinations, len(forbidden), train_scenes, eval_scenes)
    best: SceneSplit | None = None
    for _ in range(ATTEMPTS):
        if consecutive:
            train = draw_balanced(n, k, train_count, forbidden, rng)
            first = int(rng.integers(n))
            starts = [first + i * n // eval_count for i in range(eval_count)]  # evenly spaced: balanced
            evaluation = tuple(as_scene((start + j) % n for j in range(k)) for start in starts)
        # The smaller set first: what is left for the larger one hardly constrains it. (Baranyai's theorem: two
        # disjoint balanced sets of any sizes exist.)
        elif train_count <= eval_count:
            train = draw_balanced(n, k, train_count, set(), rng)
            evaluation = draw_balanced(n, k, eval_count, set(train), rng)
        else:
            evaluation = draw_balanced(n, k, eval_count, set(), rng)
            train = draw_balanced(n, k, train_count, set(evaluation), rng)
        split = SceneSplit(SceneSet(n, k, train), SceneSet(n, k, evaluation), consecutive)
        if best is None or split.spread < best.spread:
            best = split
        if best.spread <= 1:
            break
    assert best is not None
    if not best.train.counts().all():
        raise HowmError(
            f"no training set of {train_count} scenes that covers n={n} was found; ask for more train_scenes"
        )
    return best


def seeded_split(n: int, k: int, seed: int, **options: Any) -> SceneSplit:
    """The split that belongs to a seed, for datasets and environments alike."""
    return split_scenes(n, k, np.random.default_rng([require_int("seed", seed, 0), 0]), **options)


def _check_scene_size(n: int, k: int) -> int:
    if require_int("k", k, 1) > require_int("n", n, 1):
        raise HowmError(f"a scene of k={k} objects cannot be drawn from a library of n={n}; give k <= n")
    if k == 1 < n:
        raise HowmError(f"k=1 leaves nothing unseen: training scenes must show all n={n} objects; give k >= 2")
    return comb(n, k)


def _set_sizes(
    n: int, k: int, combinations: int, consecutive: int, train_scenes: int | None, eval_scenes: int | None
) -> tuple[int, int]:
    """How many scenes each set gets; the defaults give way to what the user asked for of the other set."""
    free = combinations - consecutive
    if consecutive:
        train = train_scenes or min(max(DEFAULT_SCENES, ceil(2 * n / k)), free)
        evaluation = eval_scenes or consecutive
        if train > free or evaluation > consecutive:
            raise HowmError(
                f"{train} training and {evaluation} evaluation scenes were asked for, but n={n}, k={k} has only "
                f"{free} other and {consecutive} consecutive scenes; ask for fewer"
            )
    else:
        train_default, eval_default = max(DEFAULT_SCENES, ceil(2 * n / k)), DEFAULT_SCENES
        if combinations < FEW_COMBINATIONS:
            train_default, eval_default = ceil(combinations / 2), combinations // 2
        train = train_scenes or min(train_default, combinations - (eval_scenes or 1))
        evaluation = eval_scenes or min(eval_default, combinations - train)
        if train < 1 or evaluation < 1 or train + evaluation > combinations:
            raise HowmError(
                f"train_scenes={train_scenes or 'default'}, eval_scenes={eval_scenes or 'default'} need more scenes "
                f"than the {combinations} of n={n}, k={k}; ask for fewer"
            )
    if train * k < n:
        raise HowmError(
            f"{train} training scenes of k={k} objects cannot cover a library of n={n}; "
            f"{ceil(n / k)} or more are needed, and {combinations} scenes exist"
        )
    return train, evaluation


def draw_unseen(train: SceneSet, count: int, rng: np.random.Generator) -> SceneSet:
    """Up to ``count`` different scenes outside ``train``, of its sizes, each as frequent as the others."""
    n, each = train.n, ceil(count / len(train.sizes))
    found = [_draw_outside(train, k, each, rng) for k in train.sizes]
    if not any(found):
        every = f"all {len(train)} scenes of n={n}, k={train.k}"
        raise HowmError(f"the model was trained on {every}: no unseen scene exists")
    return SceneSet(n, train.k, interleave(found)[:count], train.k_min)


def _draw_outside(train: SceneSet, k: int, count: int, rng: np.random.Generator) -> tuple[Scene, ...]:
    left = comb(train.n, k) - sum(len(scene) == k for scene in train.scenes)
    if left <= 10 * count:
        unseen = [scene for scene in itertools.combinations(range(train.n), k) if not train.contains(scene)]
        return tuple(unseen[i] for i in rng.permutation(left)[:count])
    drawn: dict[Scene, None] = {}
    while len(drawn) < count:
        scene = as_scene(rng.choice(train.n, k, replace=False))
        if not train.contains(scene):
            drawn[scene] = None
    return tuple(drawn)
