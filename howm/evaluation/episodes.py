"""Episodes to evaluate a run on: its data's, another dataset's, or fresh ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations, islice
from pathlib import Path

import numpy as np

from howm.data.dataset import Dataset
from howm.data.episodes import Episodes, collect
from howm.data.storage import load_certified
from howm.errors import HowmError
from howm.files import file_hash
from howm.runs.checkpoint import Checkpoint
from howm.runs.provenance import training_world
from howm.runs.record import DataRecord
from howm.runs.result import EvaluationSource
from howm.worlds.registry import read_world
from howm.worlds.scenes import DEFAULT_SCENES, Scene, SceneSet, draw_unseen
from howm.worlds.sizes import write_sizes

_STREAM = 300  # of random numbers for fresh episodes
MAX_POOLS = 25  # of either kind that are compared, where pools of equal size have to be cut out


@dataclass(frozen=True)
class EvaluationData:
    """Episodes in scenes that a run did not train on, and in scenes that it did."""

    unseen: Episodes
    seen: Episodes
    k: int
    source: EvaluationSource
    split: str = "scenes"  # its kind
    sizes: str | None = None  # of scenes, where they differ in size


def matched(seen: Episodes, unseen: Episodes) -> list[tuple[Episodes, Episodes]]:
    """Pools of equally many episodes in equally many scenes of both: the two themselves where they match already.

    Else as many disjoint pairs of pools as there are, up to MAX_POOLS.
    """
    sizes = [np.bincount(episodes.scene_index) for episodes in (seen, unseen)]
    if sorted(sizes[0]) == sorted(sizes[1]):
        return [(seen, unseen)]
    scenes, each = min(len(size) for size in sizes), min(int(size.min()) for size in sizes)

    def pools(episodes: Episodes, count: int) -> Iterator[Episodes]:
        of_scene = [np.flatnonzero(episodes.scene_index == scene) for scene in range(count)]
        for first in range(0, count - scenes + 1, scenes):
            some = of_scene[first : first + scenes]
            for begin in range(0, min(map(len, some)) - each + 1, each):
                yield episodes.select(np.concatenate([rows[begin : begin + each] for rows in some]))

    both = zip(pools(seen, len(sizes[0])), pools(unseen, len(sizes[1])), strict=False)
    return list(islice(both, MAX_POOLS))


def digest(episodes: Episodes) -> str:
    """What episodes are known by: equal for equal scenes, frames and actions."""
    content = blake2b(digest_size=16)
    frames = episodes.pictures if episodes.states is None else episodes.states
    for values in (episodes.scene_ids, episodes.frame_ids, episodes.actions, frames):
        array = np.zeros(0) if values is None else np.ascontiguousarray(values)
        content.update(f"{array.dtype.str} {array.shape};".encode())
        content.update(array.tobytes())
    return content.hexdigest()


def unseen_label(checkpoint: Checkpoint, chosen: EvaluationData) -> str:
    """What can be said of the scenes of evaluation."""
    data, unseen = checkpoint.record.data, chosen.unseen
    if chosen.k != data.k:
        return f"all scenes have {chosen.k} objects; those of training had {data.k}"
    if data.n == data.k and (not data.train_scenes or len(data.train_scenes[0]) == data.n):
        return "no unseen scene exists"
    if unseen.scene_ids is None or data.train_scenes is None:
        return "unknown: the data names no objects"
    return "eval scenes are unseen in training"


def stored_episodes(checkpoint: Checkpoint, path: Path) -> EvaluationData:
    """The evaluation episodes of a dataset that fits the model and has none of its training scenes in ``eval``."""
    dataset = load_certified(path)
    trained, spec = checkpoint.record.data, checkpoint.record.spec
    if replace(dataset.spec, k=spec.k, varied_count=spec.varied_count) != spec:
        raise HowmError(f"{path} has {dataset.spec}, but the model was made for {spec}")
    if dataset.world is not None and dataset.world != read_world(trained.world, trained.simulator or {}):
        raise HowmError(f"{path} shows other objects than the model was trained with; make it with its library seed")
    if dataset.n > dataset.k == trained.k and trained.train_scenes is not None:
        train = set(trained.train_scenes)
        overlap = dataset.eval.scenes & (train | _extractor_scenes(checkpoint))
        if overlap:
            raise HowmError(
                f"{len(overlap)} evaluation scenes of {path} are training scenes of the run; give `fresh_seed`"
            )
        other = dataset.eval_seen.scenes - train
        if other:
            raise HowmError(
                f"{len(other)} scenes that {path} calls seen are not training scenes of the run; give `fresh_seed`"
            )
    return episodes_of(dataset, file_hash(path))


def episodes_of(dataset: Dataset, data_hash: str | None) -> EvaluationData:
    """The evaluation episodes of a dataset."""
    split = dataset.split
    source = EvaluationSource(data_hash, dataset.seed, dataset.moving, None if split is None else split.hash)
    chosen = EvaluationData(dataset.eval, dataset.eval_seen, dataset.k, source)
    if split is None:
        return chosen
    return replace(chosen, split=split.kind, sizes=_sizes(split.train.sizes, split.eval.sizes))


def _sizes(training: range, evaluation: range) -> str | None:
    """How many objects scenes have, where they differ in that."""
    return None if training == evaluation and len(training) == 1 else write_sizes(training, evaluation)


def _extractor_scenes(checkpoint: Checkpoint) -> set[Scene]:
    """Scenes of this library that an extractor which was taken over has seen."""
    extractor, data = checkpoint.record.extractor, checkpoint.record.data
    scenes = extractor.scenes if extractor else ()
    sizes = {len(scene) for scene in data.train_scenes or ()}
    return {scene for scene in scenes if len(scene) in sizes and max(scene) < data.n}


def fresh_episodes(
    checkpoint: Checkpoint, steps: int, seed: int, episodes: int | None = None, others: Sequence[Checkpoint] = ()
) -> EvaluationData:
    """New episodes in scenes that training did not contain (all of them when few exist), and in scenes that it did.

    By default as many as the run's own evaluation episodes: numbers from fewer references are not comparable. Unseen
    scenes keep the rule of the split, and are unseen by the runs of ``others``, too.
    """
    data = checkpoint.record.data
    world, train = training_world(data)
    moving, episodes = data.moving, episodes or data.eval_episodes
    rng = np.random.default_rng([seed, _STREAM])
    taken = {*train.scenes, *_extractor_scenes(checkpoint)}
    for other in others:
        taken |= {*(other.record.data.train_scenes or ()), *_extractor_scenes(other)}
    known = replace(train, scenes=tuple(sorted(taken)))
    count = min(DEFAULT_SCENES, episodes, DEFAULT_SCENES if data.split == "minimal" else len(train))
    unseen = _fresh_scenes(data, known, count, rng) if train.n > train.k else train
    some = [train.scenes[i] for i in rng.permutation(len(train))[: len(unseen)]]
    seen = replace(train, scenes=tuple(some))
    on_unseen, on_seen = (
        collect(world, scenes, episodes, steps, rng, moving, width=data.k) for scenes in (unseen, seen)
    )
    source = EvaluationSource(moving=moving, fresh_seed=seed)
    return EvaluationData(on_unseen, on_seen, data.k, source, data.split, _sizes(train.sizes, unseen.sizes))


def _fresh_scenes(data: DataRecord, known: SceneSet, count: int, rng: np.random.Generator) -> SceneSet:
    """Unseen scenes by the rule of the split that a run was trained with."""
    if data.eval_sizes is not None:  # larger ones
        return draw_unseen(SceneSet(data.n, data.eval_sizes[1], (), data.eval_sizes[0]), count, rng)
    if data.split != "pairs":
        return draw_unseen(known, count, rng)
    met = {pair for scene in known.scenes for pair in combinations(scene, 2)}
    drawn = draw_unseen(known, 50 * count, rng)  # of which some hold a pair that is new
    new = [scene for scene in drawn.scenes if any(pair not in met for pair in combinations(scene, 2))]
    if not new:
        raise HowmError("no unseen scene with a pair of objects that training kept apart was found; evaluate on data")
    return replace(drawn, scenes=tuple(new[:count]))
