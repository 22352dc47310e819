"""Splits that tell composition from memory: what is new in the scenes of evaluation is more than their combination.

`scenes`   disjoint scenes, as in the paper (see `scenes`).
`pairs`    certain pairs of objects never share a training scene; every evaluation scene holds at least one of them.
`minimal`  every object is seen in as few training scenes as possible: ⌈N/K⌉ of them, one for each where K divides N.
`linked`   from every training scene, the replacement of one object leads to another: for worlds whose objects change.
`larger-k` training scenes are smaller than evaluation scenes.
"""

from collections.abc import Callable
from itertools import combinations
from math import ceil, comb
from typing import Any, Literal

import numpy as np

from howm.errors import HowmError, require_int
from howm.worlds.balance import balance
from howm.worlds.scene_set import Scene, SceneSet, as_scene, interleave
from howm.worlds.scenes import DEFAULT_SCENES, SceneSplit, seeded_split
from howm.worlds.world import World

SplitKind = Literal["scenes", "pairs", "minimal", "linked", "larger-k"]
ENUMERABLE = 100_000  # scenes: beyond as many, they are drawn instead of listed
DRAWS = 200_000  # at most, until a set counts as too rare to be found


def default_split(world: World, eval_k: range | None = None) -> SplitKind:
    """The split of a world for which none is asked: scenes, linked where objects change, or larger-k."""
    if eval_k is not None:
        return "larger-k"
    return "linked" if world.change_rate else "scenes"


def make_split(
    kind: SplitKind, n: int, k: int | range, seed: int, eval_k: int | range | None = None, **options: Any
) -> SceneSplit:
    """The split of a kind that belongs to a seed; what cannot be satisfied is an error before any work.

    With a range of sizes k, there are as many scenes of each size as the options say. ``eval_k``, the sizes of
    evaluation scenes, are those of the split larger-k alone.
    """
    sizes = k if isinstance(k, range) else range(k, k + 1)
    if kind not in ("scenes", "larger-k", *KINDS):
        raise HowmError(f"unknown split {kind!r}; choose one of scenes, larger-k, {', '.join(KINDS)}")
    if (kind == "larger-k") != (eval_k is not None):
        raise HowmError("eval_k, sizes of evaluation scenes, goes with the split larger-k alone; give both or none")
    if eval_k is not None:
        larger = eval_k if isinstance(eval_k, range) else range(eval_k, eval_k + 1)
        return _split_larger(n, sizes, larger, seed, **options)
    if len(sizes) == 1:
        return _split_one_size(kind, n, sizes[0], sizes[0], seed, **options)
    if options.get("consecutive") or not 2 <= sizes[0] <= sizes[-1] < n:
        raise HowmError(
            f"scenes of {sizes[0]} to {sizes[-1]} objects need 2 or more, fewer than the n={n} of the library, and "
            "no option consecutive"
        )
    splits = [_split_one_size(kind, n, size, sizes[-1], seed, **options) for size in sizes]
    train, evaluation = (
        SceneSet(n, sizes[-1], interleave([part.scenes(name).scenes for part in splits]), sizes[0])
        for name in ("train", "eval")
    )
    return SceneSplit(train, evaluation, kind=kind, pairs_apart=splits[0].pairs_apart)


def _split_larger(n: int, sizes: range, larger: range, seed: int, **options: Any) -> SceneSplit:
    """Training scenes of some sizes, evaluation scenes of larger ones."""
    if options.pop("consecutive", False) or not 2 <= sizes[0] <= sizes[-1] < larger[0] <= larger[-1] <= n:
        raise HowmError(
            f"the split larger-k trains on scenes of 2 or more objects and evaluates on larger ones of at most n={n}, "
            f"got k={sizes[0]}-{sizes[-1]} and eval_k={larger[0]}-{larger[-1]}"
        )
    train_scenes, eval_scenes = options.get("train_scenes"), options.get("eval_scenes")
    train = [seeded_split(n, size, seed, train_scenes=train_scenes).train.scenes for size in sizes]
    evaluation = [seeded_split(n, size, seed, eval_scenes=eval_scenes).eval.scenes for size in larger]
    return SceneSplit(
        SceneSet(n, sizes[-1], interleave(train), sizes[0]),
        SceneSet(n, larger[-1], interleave(evaluation), larger[0]),
        kind="larger-k",
    )


def _split_one_size(kind: SplitKind, n: int, k: int, largest: int, seed: int, **options: Any) -> SceneSplit:
    if kind == "scenes":
        return seeded_split(n, k, seed, **options)
    if options.pop("consecutive", False):
        raise HowmError(f"the option consecutive belongs to the split scenes, not to {kind}; leave one of them out")
    if not 1 < k < n:
        raise HowmError(
            f"the split {kind} needs 2 or more objects in a scene and more in the library, got k={k}, n={n}"
        )
    if kind == "pairs":
        options["apart"] = min(n // 2, n - largest)
    return KINDS[kind](n, k, np.random.default_rng([require_int("seed", seed, 0), 0]), **options)


def split_by_pairs(
    n: int, k: int, rng: np.random.Generator, apart: int,
    train_scenes: int | None = None, eval_scenes: int | None = None,
) -> SceneSplit:  # fmt: skip
    """``apart`` disjoint pairs never meet in training: as many as leave a training scene."""
    order = rng.permutation(n)
    partner = np.arange(n)
    partner[order[:apart]], partner[order[apart : 2 * apart]] = order[apart : 2 * apart], order[:apart]
    pairs = tuple(sorted(as_scene(pair) for pair in zip(order[:apart], order[apart : 2 * apart], strict=True)))

    def holds_pair(scene: Scene) -> bool:
        members = set(scene)
        return any(int(partner[i]) in members and partner[i] != i for i in scene)

    # Without a pair: at most one of each.
    without = sum(comb(apart, m) * 2**m * comb(n - 2 * apart, k - m) for m in range(min(apart, k) + 1))
    train_count = train_scenes or min(without, max(DEFAULT_SCENES, ceil(2 * n / k)))
    eval_count = eval_scenes or min(comb(n, k) - without, DEFAULT_SCENES)
    if train_count > without or eval_count > comb(n, k) - without or train_count * k < n:
        raise HowmError(
            f"the split pairs of n={n}, k={k} has {without} training scenes (needed: {ceil(n / k)} or more) and "
            f"{comb(n, k) - without} evaluation scenes, got train_scenes={train_count}, eval_scenes={eval_count}"
        )
    train = _draw(n, k, train_count, lambda scene: not holds_pair(scene), rng)
    evaluation = _draw(n, k, eval_count, holds_pair, rng)
    return SceneSplit(SceneSet(n, k, train), SceneSet(n, k, evaluation), kind="pairs", pairs_apart=pairs)


def split_minimal(
    n: int, k: int, rng: np.random.Generator, train_scenes: int | None = None, eval_scenes: int | None = None
) -> SceneSplit:
    """Training scenes are a partition of the library; a last, smaller one is filled up with objects of others."""
    needed = ceil(n / k)
    if train_scenes not in (None, needed):
        raise HowmError(
            f"the split minimal of n={n}, k={k} has {needed} training scenes, got train_scenes={train_scenes}"
        )
    order = rng.permutation(n)
    filled = np.concatenate([order, order[: needed * k - n]])
    train = tuple(as_scene(filled[i * k : (i + 1) * k]) for i in range(needed))
    others = comb(n, k) - needed
    eval_count = eval_scenes or min(others, DEFAULT_SCENES)
    if eval_count > others:
        raise HowmError(
            f"eval_scenes={eval_scenes} are more than the {others} other scenes of n={n}, k={k}; ask for fewer"
        )
    evaluation = _draw(n, k, eval_count, lambda scene: scene not in train, rng)
    return SceneSplit(SceneSet(n, k, train), SceneSet(n, k, evaluation), kind="minimal")


def split_linked(
    n: int, k: int, rng: np.random.Generator, train_scenes: int | None = None, eval_scenes: int | None = None
) -> SceneSplit:
    """Training scenes are K neighbours on random circles of all objects: each step along a circle replaces one."""
    wanted = train_scenes or min(comb(n, k) // 2, max(DEFAULT_SCENES, n))
    if not n <= wanted < comb(n, k):
        raise HowmError(
            f"the split linked of n={n}, k={k} needs {n} or more training scenes and leaves some of the {comb(n, k)} "
            f"to evaluation, got train_scenes={wanted}"
        )
    train: dict[Scene, None] = {}
    for _ in range(DRAWS):
        circle = rng.permutation(n)
        windows = [as_scene(np.roll(circle, -i)[:k]) for i in range(n)]
        train.update(dict.fromkeys(windows[: max(2, wanted - len(train))] if train else windows))
        if len(train) >= wanted:
            break
    eval_count = eval_scenes or min(comb(n, k) - len(train), DEFAULT_SCENES)
    if eval_count > comb(n, k) - len(train):
        raise HowmError(
            f"eval_scenes={eval_scenes} are more than the {comb(n, k) - len(train)} other scenes of n={n}, k={k}"
        )
    evaluation = _draw(n, k, eval_count, lambda scene: scene not in train, rng)
    return SceneSplit(SceneSet(n, k, tuple(train)), SceneSet(n, k, evaluation), kind="linked")


KINDS: dict[str, Callable[..., SceneSplit]] = {
    "pairs": split_by_pairs,
    "minimal": split_minimal,
    "linked": split_linked,
}


def _draw(n: int, k: int, count: int, allowed: Callable[[Scene], bool], rng: np.random.Generator) -> tuple[Scene, ...]:
    """``count`` different allowed scenes, in which objects are about equally frequent."""
    if comb(n, k) <= ENUMERABLE:
        every = [scene for scene in combinations(range(n), k) if allowed(scene)]
        scenes = [every[i] for i in rng.permutation(len(every))[:count]]
    else:
        drawn: dict[Scene, None] = {}
        for _ in range(DRAWS):
            scene = as_scene(rng.choice(n, k, replace=False))
            if allowed(scene):
                drawn[scene] = None
            if len(drawn) == count:
                break
        else:
            raise HowmError(f"only {len(drawn)} of {count} scenes were found among {DRAWS} draws; ask for fewer")
        scenes = list(drawn)
    return balance(n, scenes, allowed, rng)
