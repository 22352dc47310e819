"""The rules that the episodes of a dataset must keep."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from howm.data.dataset import Dataset


def empty_parts(dataset: "Dataset") -> Iterator[str]:
    for name, episodes in dataset.parts():
        if not episodes.actions.size:
            yield f"emptiness: the part {name} has {len(episodes)} episodes of {episodes.steps} steps"


def scene_violations(dataset: "Dataset") -> Iterator[str]:
    assert dataset.split is not None
    for name, episodes in dataset.parts():
        if episodes.scene_ids is None:
            continue
        scenes = dataset.split.eval if name == "eval" else dataset.split.train
        foreign = sorted(scene for scene in episodes.scenes if not scenes.contains(scene))
        if foreign:
            yield f"scenes: {len(foreign)} scenes of the part {name} are not in its set, e.g. {foreign[0]}"
        if name != "train" and episodes.frame_ids is not None:
            yield f"changes: objects change in the part {name}, so that queries would cross a change"
        if name == "train" and len(episodes.scenes) < len(scenes):
            yield f"scenes: {len(scenes) - len(episodes.scenes)} training scenes have no episode"
        if name != "eval_seen" and np.ptp(np.bincount(episodes.scene_index)) > 1:
            yield f"scenes: the part {name} has more episodes in some scenes than in others"


def pool_violations(dataset: "Dataset") -> Iterator[str]:
    """More references, or more of them in one scene, are harder to rank among: unequal pools would bias the gap.

    With the split minimal there are fewer training scenes than can be compared; evaluation cuts out equal pools.
    """
    pools = (dataset.eval, dataset.eval_seen)
    minimal = dataset.split is not None and dataset.split.kind == "minimal"
    sizes = [[len(pool)] if minimal else sorted(np.bincount(pool.scene_index)) for pool in pools]
    if sizes[0] != sizes[1] or pools[0].steps != pools[1].steps:
        yield "pools: evaluation in unseen and in training scenes differs in episodes, scenes or steps"


def dynamics_violations(dataset: "Dataset") -> Iterator[str]:
    """Every stored state must be possible, and every transition what the world does."""
    for name, episodes in dataset.parts():
        if episodes.states is None:
            continue
        world, scene_ids, states = episodes.state()
        frames = episodes.frame_ids
        if frames is None:
            frames = np.broadcast_to(scene_ids[:, None], (*states.shape[:2], scene_ids.shape[1]))

        def flat(array: np.ndarray) -> np.ndarray:
            return array.reshape(-1, *array.shape[2:])

        impossible = world.violations(flat(frames), flat(states))
        if impossible:
            yield from (f"states: of the part {name}, {violation}" for violation in impossible)
            continue  # the world says nothing of such states
        every_scene = flat(frames[:, :-1])
        before, after = flat(states[:, :-1]), flat(states[:, 1:])
        actions = episodes.actions.ravel()
        stepped, following = world.step(every_scene, before, actions), flat(frames[:, 1:])
        differs = (stepped != after).any(axis=(1, 2))
        for row in np.flatnonzero(episodes.changes):
            differs[row] = not _one_replaced(every_scene[row], stepped[row], following[row], after[row])
        wrong = int(differs.sum())
        absent = world.absent(every_scene, actions)
        if wrong:
            yield f"dynamics: {wrong} transitions of the part {name} are not what the world does"
        if absent.any():
            yield f"actions: {int(absent.sum())} actions of the part {name} are of absent objects"


def _one_replaced(ids: np.ndarray, state: np.ndarray, new_ids: np.ndarray, new_state: np.ndarray) -> bool:
    """Whether one object is replaced and all others stay as they are."""
    kept = np.intersect1d(ids, new_ids[new_ids >= 0])
    old, new = np.isin(ids, kept), np.isin(new_ids, kept)
    return len(kept) == (ids >= 0).sum() - 1 == (new_ids >= 0).sum() - 1 and np.array_equal(state[old], new_state[new])
