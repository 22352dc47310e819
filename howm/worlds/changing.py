"""Objects that come and go: from outside, one object of a scene is replaced by an absent one of the library."""

import numpy as np
from jaxtyping import Integer, Num

from howm.worlds.scene_set import SceneSet, as_scene, scene_of
from howm.worlds.world import World


def change_scene(
    world: World, ids: Integer[np.ndarray, " K"], state: Num[np.ndarray, "K F"], allowed: SceneSet | None,
    rng: np.random.Generator,
) -> tuple[Integer[np.ndarray, " K"], Num[np.ndarray, "K F"]]:  # fmt: skip
    """Replace one object by an absent one at a free place; the new scene is one of ``allowed``, or any.

    Where no such scene exists, or no place is free, nothing changes.
    """
    scene = scene_of(ids)
    if allowed is None:
        absent = sorted(set(range(world.n)) - set(scene))
        pairs = [(old, new) for old in scene for new in absent]
        options = [as_scene(new if i == old else i for i in scene) for old, new in pairs]
    else:
        options = allowed.neighbours(scene)
    if not options:
        return ids, state
    changed = options[int(rng.integers(len(options)))]
    kept = dict(zip(scene, state, strict=False))
    (slot,) = (j for j, i in enumerate(changed) if i not in kept)
    after = np.stack([kept.get(i, state[0]) for i in changed])
    placed = world.enter(np.array(changed), after, slot, rng)
    if placed is None:
        return ids, state
    new_ids, new_state = ids.copy(), state.copy()
    new_ids[: len(changed)], new_state[: len(changed)] = changed, placed
    return new_ids, new_state
