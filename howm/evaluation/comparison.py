"""Models side by side on the same queries, with intervals of the paired difference."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Integer

from howm.config import to_plain
from howm.data.dataset import Dataset
from howm.data.episodes import Episodes
from howm.data.rollouts import Rollouts
from howm.data.storage import load_certified
from howm.errors import HowmError, require_int
from howm.evaluation.episodes import EvaluationData, digest, episodes_of, fresh_episodes, stored_episodes
from howm.evaluation.evaluate import evaluate, frames_to_embed
from howm.evaluation.metrics import summarise
from howm.models.world_model import WorldModel
from howm.progress import progress as bar
from howm.runs.checkpoint import Checkpoint, load_checkpoint
from howm.runs.locate import find_checkpoint, find_data, rebuild
from howm.runs.ranks import QueryRanks, ranks_path, read_ranks
from howm.runs.result import EVALUATION_VERSION, Metrics, Pool, read_result

Place = str | os.PathLike[str]
_STREAM = 301  # of random numbers for intervals of differences
POOLS: tuple[Pool, Pool] = ("hard", "paper")


@dataclass(frozen=True)
class Difference:
    """MRR of a model minus that of the first one, in points, with its 95 % interval over scenes."""

    mrr: float
    mrr_ci: tuple[float, float]
    better: float  # percent of the queries that it ranks better than the first one does
    worse: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return not self.mrr_ci[0] <= 0 <= self.mrr_ci[1]


@dataclass(frozen=True)
class Compared:
    """One model in one pool after some steps; the first model has no difference to itself."""

    name: str
    pool: Pool
    steps: str
    metrics: Metrics
    difference: Difference | None


@dataclass(frozen=True)
class Comparison:
    """Models on the same queries; the first is what the others are compared with."""

    names: tuple[str, ...]
    entries: tuple[Compared, ...]  # hard pool first, then by steps, then by model
    references: int
    scenes: int
    data: str  # where the queries come from, in words
    hard_pool: str

    def of(self, pool: Pool, name: str | None = None) -> list[Compared]:
        """The entries of a pool, of one model or of all."""
        return [entry for entry in self.entries if entry.pool == pool and name in (None, entry.name)]

    def to_json(self) -> dict[str, Any]:
        return to_plain(self)


def compare(
    models: Sequence[Place | WorldModel] | Mapping[str, Place | WorldModel], data: Place | Dataset | None = None, *,
    steps: Sequence[int] | None = None, fresh_seed: int | None = None, episodes: int | None = None,
    progress: bool = False,
) -> Comparison:  # fmt: skip
    """Rank the predictions of two or more models on the same queries in unseen scenes.

    Models are runs, shipped models or model objects, or else result files (.json) with the ranks of their queries
    beside them (``evaluate_run(..., ranks=True)``). Runs are compared on ``data``, by default on the file that all of
    them were trained with; where there is none, and with ``fresh_seed``, on fresh episodes in scenes that none of them
    was trained on. ``steps`` are 1, 5 and 10 by default. A mapping gives models names of its own.
    """
    named = dict(models) if isinstance(models, Mapping) else dict(zip(_names(models), models, strict=True))
    if len(named) < 2:
        raise HowmError("a comparison needs two models or more")
    stored = [name for name, model in named.items() if not isinstance(model, WorldModel) and _is_result(model)]
    if stored and len(stored) < len(named):
        raise HowmError(f"{stored[0]} is a result, the others are not; compare runs with runs, results with results")
    if stored:
        if data is not None or fresh_seed is not None or episodes is not None:
            raise HowmError("results are compared as they are; leave out `data`, `fresh_seed` and `episodes`")
        found = {name: _stored_ranks(Path(os.fspath(model))) for name, model in named.items()}  # type: ignore[arg-type]
        return _compare(found, "the episodes that they were evaluated on", steps)
    chosen = tuple(steps or (1, 5, 10))
    if min(chosen) < 1:
        raise HowmError(f"steps must be 1 or more, got {list(chosen)}")
    subjects, unseen, where = _subjects(named, data, max(chosen), fresh_seed, episodes)
    rollouts, same = Rollouts(unseen), digest(unseen)
    found = {}
    with bar(len(subjects) * frames_to_embed(rollouts, chosen), "compare", show=progress) as shown:
        for name, model in subjects.items():
            device = "cuda" if torch.cuda.is_available() else "cpu"
            ranked = evaluate(model.to(device), rollouts, chosen, controls=False, progress=shown.update)
            index = unseen.scene_index
            found[name] = QueryRanks(same, ranked.hard_pool, EVALUATION_VERSION, index, ranked.ranks)
    return _compare(found, where, chosen)


def _names(models: Sequence[Place | WorldModel]) -> list[str]:
    """What tells models apart: a name, the last parts of a path, or a class."""
    texts = [type(m).__name__ if isinstance(m, WorldModel) else os.fspath(m).rstrip("/") for m in models]
    parts = [text.split("/") for text in texts]
    for length in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len({*names}) == len(names):
            return names
    raise HowmError(f"{next(text for text in texts if texts.count(text) > 1)} is given twice; give different models")


def _is_result(model: Place) -> bool:
    return os.fspath(model).endswith(".json")


def _stored_ranks(path: Path) -> QueryRanks:
    read_result(path)
    if not ranks_path(path).is_file():
        raise HowmError(f"{path} has no ranks of its queries; compare the runs, or make it with howm eval --ranks")
    return read_ranks(ranks_path(path))


def _subjects(
    named: Mapping[str, Place | WorldModel], data: Place | Dataset | None, steps: int, fresh_seed: int | None,
    episodes: int | None,
) -> tuple[dict[str, WorldModel], Episodes, str]:  # fmt: skip
    """The models, the episodes in scenes unseen by all of them, and in words where those come from."""
    if data is not None and fresh_seed is not None:
        raise HowmError("give `data` or `fresh_seed`, not both")
    runs = {name: model for name, model in named.items() if not isinstance(model, WorldModel)}
    checkpoints = {name: load_checkpoint(find_checkpoint(run)) for name, run in runs.items()}
    if isinstance(data, Dataset) or len(runs) < len(named):
        if data is None or (runs and isinstance(data, Dataset)):
            raise HowmError("to compare a model object, give `data`: a dataset, or with runs beside it the path of one")
        dataset = data if isinstance(data, Dataset) else load_certified(Path(data))
        chosen, where = episodes_of(dataset, None), "the evaluation episodes of the dataset"
        chosen = replace(chosen, seen=chosen.unseen)
        for checkpoint in checkpoints.values():
            stored_episodes(checkpoint, Path(data))  # type: ignore[arg-type]  # refuses data that it was trained on
    else:
        chosen, where = _common_episodes(runs, checkpoints, data, steps, fresh_seed, episodes)
    models = {
        name: model if isinstance(model, WorldModel) else rebuild(checkpoints[name], chosen.k)
        for name, model in named.items()
    }
    unseen = chosen.unseen
    limits = [model.metric.max_references for model in models.values()]
    most = min([limit for limit in (*limits, episodes) if limit is not None], default=len(unseen))
    if most < len(unseen):
        unseen = unseen.subsample(require_int("episodes", most, 2))
    return models, unseen, where


def _common_episodes(
    runs: Mapping[str, Place], checkpoints: Mapping[str, Checkpoint], data: Place | Dataset | None, steps: int,
    fresh_seed: int | None, episodes: int | None,
) -> tuple[EvaluationData, str]:  # fmt: skip
    """Episodes for all runs: of a file, of the file that they have in common, or fresh ones."""
    first, *others = checkpoints.values()
    name, *other_names = checkpoints
    for other, checkpoint in zip(other_names, others, strict=True):
        ours, theirs = first.record.data, checkpoint.record.data
        if (ours.world, ours.n, ours.k, ours.simulator) != (theirs.world, theirs.n, theirs.k, theirs.simulator):
            raise HowmError(
                f"{name} and {other} were trained in different worlds ({ours.world}, N={ours.n}, K={ours.k}, and "
                f"{theirs.world}, N={theirs.n}, K={theirs.k}, or other objects); compare runs of one world"
            )
    if data is None and fresh_seed is None and len({one.record.data.hash for one in checkpoints.values()}) == 1:
        try:
            data = find_data(Path(runs[name]), first.record)
        except HowmError:
            fresh_seed = 0  # a shipped model does not say where its data is
    if data is not None and not isinstance(data, Dataset):
        found = [stored_episodes(checkpoint, Path(data)) for checkpoint in checkpoints.values()]
        return found[0], f"the evaluation episodes of {Path(data).name}"
    seed = 0 if fresh_seed is None else fresh_seed
    asked = episodes or min(one.record.data.eval_episodes for one in checkpoints.values())
    fresh = fresh_episodes(first, steps, seed, asked, others)
    return fresh, f"fresh episodes of seed {seed}, in scenes that none was trained on"


def _compare(found: Mapping[str, QueryRanks], data: str, steps: Sequence[int] | None) -> Comparison:
    names = tuple(found)
    first = found[names[0]]
    for name, ranks in found.items():
        for what in ("queries", "evaluation_version", "hard_pool"):
            if getattr(ranks, what) != getattr(first, what):
                differ = "queries" if what == "queries" else f"{what.replace('_', ' ')}s"
                raise HowmError(f"{names[0]} and {name} were evaluated with different {differ}; evaluate both again")
    measured = [k for k in first.ranks["hard"] if all(k in ranks.ranks["hard"] for ranks in found.values())]
    wanted = measured if steps is None else [str(k) for k in steps]
    if not wanted or set(wanted) - set(measured):
        raise HowmError(f"not all were evaluated after {', '.join(wanted) or 'the same numbers of'} steps")
    entries = []
    for pool in POOLS:
        for k in wanted:
            base = first.ranks[pool][k]
            for name, ranks in found.items():
                mine = ranks.ranks[pool][k]
                metrics = summarise(mine, first.scene_index, np.random.default_rng([0, _STREAM, int(k)]))
                change = None if name == names[0] else paired_difference(mine, base, first.scene_index, int(k))
                entries.append(Compared(name, pool, k, metrics, change))
    scenes = len(np.unique(first.scene_index))
    return Comparison(names, tuple(entries), len(first.scene_index), scenes, data, first.hard_pool)


def paired_difference(
    ranks: Float[np.ndarray, " E"], base: Float[np.ndarray, " E"], scenes: Integer[np.ndarray, " E"], stream: int = 0,
    resamples: int = 1000,
) -> Difference:  # fmt: skip
    """MRR of ``ranks`` minus MRR of ``base``, query by query; the interval is a percentile bootstrap over scenes.

    Both models see the same scenes in each resample, so that what is hard for both cancels. With one scene only,
    queries are resampled instead.
    """
    gain = 1.0 / ranks - 1.0 / base
    scene = np.unique(scenes, return_inverse=True)[1].reshape(-1)
    if scene.max() == 0:
        scene = np.arange(len(gain))
    total, count = np.bincount(scene, weights=gain), np.bincount(scene)
    rng = np.random.default_rng([stream, _STREAM])
    drawn = rng.integers(len(total), size=(resamples, len(total)))
    means = total[drawn].sum(axis=1) / count[drawn].sum(axis=1)
    low, high = 100.0 * np.percentile(means, [2.5, 97.5])
    better, worse = (100.0 * float(np.mean(change)) for change in (ranks < base, ranks > base))
    return Difference(100.0 * float(gain.mean()), (float(low), float(high)), better, worse)
