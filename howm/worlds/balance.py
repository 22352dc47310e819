"""Sets of different scenes in which all objects are about equally frequent."""

import itertools
from collections.abc import Callable
from math import comb

import numpy as np
from jaxtyping import Integer

from howm.worlds.scene_set import Scene, as_scene

LARGE_LIBRARY = 300  # objects, beyond which scenes are dealt out: exchanging objects one by one takes too long


def draw_balanced(n: int, k: int, count: int, forbidden: set[Scene], rng: np.random.Generator) -> tuple[Scene, ...]:
    """``count`` different scenes outside ``forbidden``, with object counts as equal as local search can make them."""
    if n > LARGE_LIBRARY:
        return _deal(n, k, count, forbidden, rng)
    scenes = _draw_distinct(n, k, count, forbidden, rng)
    return balance(n, scenes, lambda scene: scene not in forbidden, rng)


def _deal(n: int, k: int, count: int, forbidden: set[Scene], rng: np.random.Generator) -> tuple[Scene, ...]:
    """``count`` different scenes outside ``forbidden``, dealt like cards: all objects in random order, again and again.

    So the counts of two objects differ by one at most. An order is drawn anew where it repeats a scene.
    """
    dealt: dict[Scene, None] = {}
    held: list[int] = []  # dealt out, but not yet a scene
    while len(dealt) < count:
        order = rng.permutation(n)
        clash = np.isin(order, held)  # a scene that two orders share shows each object once
        cards = [*held, *order[~clash].tolist(), *order[clash].tolist()]
        whole = len(cards) // k * k
        scenes = [as_scene(cards[i : i + k]) for i in range(0, whole, k)][: count - len(dealt)]
        if len({*scenes} - forbidden - dealt.keys()) == len(scenes):
            dealt.update(dict.fromkeys(scenes))
            held = cards[whole:]
    return tuple(dealt)


def balance(
    n: int, scenes: list[Scene], allowed: Callable[[Scene], bool], rng: np.random.Generator
) -> tuple[Scene, ...]:
    """Different scenes with object counts as equal as exchanges of single objects can make them."""
    scenes, taken = list(scenes), set(scenes)
    counts = np.bincount(np.array(scenes).ravel(), minlength=n)
    # Exchanging a frequent object for a rare one makes the counts more equal. Where all scenes are allowed such an
    # exchange exists whenever two counts differ by 2: more scenes hold only the frequent one than only the rare one.
    while np.ptp(counts) > 1:
        exchange = _find_exchange(scenes, lambda scene: scene not in taken and allowed(scene), counts, rng)
        if exchange is None:
            break
        position, scene = exchange
        counts[list(scenes[position])] -= 1
        counts[list(scene)] += 1
        taken.remove(scenes[position])
        taken.add(scene)
        scenes[position] = scene
    return tuple(scenes)


def _draw_distinct(n: int, k: int, count: int, forbidden: set[Scene], rng: np.random.Generator) -> list[Scene]:
    combinations = comb(n, k)
    if combinations - len(forbidden) < 4 * count and combinations <= 100_000:
        free = [scene for scene in itertools.combinations(range(n), k) if scene not in forbidden]
        return [free[i] for i in rng.permutation(len(free))[:count]]
    drawn: dict[Scene, None] = {}
    while len(drawn) < count:  # at most half of all draws repeat, so this ends soon
        scene = as_scene(rng.choice(n, k, replace=False))
        if scene not in forbidden:
            drawn[scene] = None
    return list(drawn)


def _find_exchange(
    scenes: list[Scene], allowed: Callable[[Scene], bool], counts: Integer[np.ndarray, " n"], rng: np.random.Generator
) -> tuple[int, Scene] | None:
    """A scene to change and what it becomes, for the most unequal pair of objects that allows an exchange."""
    order = rng.permutation(len(counts))
    by_count = order[np.argsort(counts[order], kind="stable")]
    for gap in range(int(np.ptp(counts)), 1, -1):
        for rare in by_count:
            for frequent in by_count[::-1]:
                if counts[frequent] - counts[rare] < gap:
                    break
                for position in rng.permutation(len(scenes)):
                    scene = scenes[position]
                    if frequent in scene and rare not in scene:
                        changed = as_scene(i if i != frequent else rare for i in scene)
                        if allowed(changed):
                            return int(position), changed
    return None
