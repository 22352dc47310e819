"""A run, or a model of your own, evaluated on unseen and on training scenes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from howm.config import merge
from howm.data.dataset import Dataset
from howm.data.rollouts import Rollouts
from howm.data.storage import load_certified
from howm.errors import HowmError
from howm.evaluation.audit import audit
from howm.evaluation.diagnosis import EPISODES, can_diagnose, diagnose
from howm.evaluation.episodes import (
    EvaluationData,
    digest,
    episodes_of,
    fresh_episodes,
    matched,
    stored_episodes,
    unseen_label,
)
from howm.evaluation.equivariance import equivariance_error
from howm.evaluation.evaluate import evaluate, frames_to_embed, query_rows
from howm.evaluation.segmentation import segmentation
from howm.files import file_hash
from howm.models.registry import METHODS
from howm.models.world_model import WorldModel
from howm.progress import progress as bar
from howm.runs.checkpoint import load_checkpoint
from howm.runs.directory import read_metrics
from howm.runs.locate import find_checkpoint, find_data, rebuild
from howm.runs.provenance import versions, world_title
from howm.runs.ranks import QueryRanks, ranks_path, write_ranks
from howm.runs.result import (
    EVALUATION_VERSION,
    Pool,
    RunResult,
    Scores,
    refuse_other_data,
    result_path,
    setting_name,
    write_result,
)

Place = str | os.PathLike[str]
_DIAGNOSIS_FRAMES = 100  # that a diagnosis is worth, for each of its episodes: only to say how far an evaluation is


def evaluate_run(
    model: Place | WorldModel, data: Place | Dataset | None = None, out: Place | Sequence[Place] = (), *,
    steps: Sequence[int] = (1, 5, 10), fresh_seed: int | None = None, episodes: int | None = None,
    queries: int | None = None, equivariance: bool = False, hard_binding: bool = False,
    infer_count: int | None = None, method: str | None = None, title: str | None = None, seed: int = 0,
    force: bool = False, ranks: bool = False, progress: bool = False,
) -> RunResult:  # fmt: skip
    """Evaluate the best model of a run, or a model object, and write the result to ``out``.

    A run is evaluated on its own data, on the dataset file ``data``, or on fresh episodes. A model object is evaluated
    on ``data``, whose ``train`` part it should have been trained on; its results stand under ``method``, ``title`` and
    ``seed``, by default the name of its class and 0. ``out`` are .json files, or folders of results as `howm report`
    reads them; a result of other data there is replaced with ``force`` only. ``hard_binding`` sends each object's
    actions to one slot, where the model's own binding is soft; ``infer_count`` does not tell it how many objects there
    are, only how many there may be. ``queries`` limits how many predictions are ranked.
    ``ranks`` also writes, beside each result, the rank of every query, for `howm.compare`. ``progress`` shows how far
    it is and the time left.
    """
    if not steps or min(steps) < 1:
        raise HowmError(f"steps must be 1 or more, got {list(steps)}")
    if isinstance(model, WorldModel):
        if data is None or fresh_seed is not None:
            raise HowmError("a model object is evaluated on a dataset; give data, and no fresh_seed")
        subject = _own_model(model, data, method or type(model).__name__, title, seed)
    else:
        subject = _trained(model, data, max(steps), fresh_seed, episodes)
    chosen = subject.chosen
    if episodes is not None and fresh_seed is None:
        chosen = replace(chosen, unseen=chosen.unseen.subsample(episodes), seen=chosen.seen.subsample(episodes))
    about = subject.about
    setting = setting_name(about["world"], about["n"], about["sizes"] or chosen.k, about["split"])
    targets = [
        place if place.suffix == ".json" else result_path(place, setting, about["method"], about["seed"])
        for place in map(Path, [out] if isinstance(out, str | os.PathLike) else out)
    ]  # fmt: skip
    for target in targets:
        refuse_other_data(target, chosen.source, force)
    if equivariance:
        chosen.unseen.state()  # refuses pictures without states before any work
    found = subject.model.to("cuda" if torch.cuda.is_available() else "cpu")
    if infer_count is not None:
        if infer_count < chosen.k:
            raise HowmError(f"infer_count must be {chosen.k} or more, the objects of a scene, got {infer_count}")
        found = found.inferring_count(infer_count)
        counts = {"model": {"extractor": {"count": "infer", "max_objects": infer_count}}}
        about = {**about, "config": merge(about.get("config", {}), counts)}
    if hard_binding:
        found.hard_binding()
    most = found.metric.max_references
    if most is not None and len(chosen.unseen) > most:
        raise HowmError(
            f"{about['method']} matches slots with slots: ranking among {len(chosen.unseen)} references "
            "would take hours; give `episodes=500`"
        )
    measured, by_query = _measure(found, chosen, steps, queries, equivariance, progress)
    result = RunResult(status="ok", **about, k=chosen.k, **measured)
    if fresh_seed is not None and not isinstance(model, WorldModel) and not (hard_binding or infer_count):
        result = replace(result, audit=audit(Path(model), result))
    for target in targets:
        write_result(result, target)
        if ranks:
            write_ranks(by_query, ranks_path(target))
    return result


def _measure(
    model: WorldModel,
    chosen: EvaluationData,
    steps: Sequence[int],
    queries: int | None,
    equivariance: bool,
    progress: bool,
) -> tuple[dict[str, Any], QueryRanks]:
    """What a result says that has to be computed, and the rank of every query in unseen scenes."""
    # Unequal pools would bias the gap: it compares as many episodes of as many scenes on both sides.
    pairs = matched(chosen.seen, chosen.unseen)
    more = [] if pairs[0][0] is chosen.seen else [Rollouts(part) for pair in pairs for part in pair]
    unseen, seen = Rollouts(chosen.unseen), Rollouts(chosen.seen)
    diagnosed = can_diagnose(model, unseen)
    asked = {one: None if queries is None else min(queries, len(one)) for one in (seen, *more)}
    asked[unseen] = queries
    work = [frames_to_embed(one, steps, count) for one, count in asked.items()]
    diagnosis_work = min(EPISODES, len(chosen.unseen)) * _DIAGNOSIS_FRAMES if diagnosed else 0
    with bar(sum(work) + diagnosis_work, "evaluate", show=progress) as shown:
        on_unseen = evaluate(model, unseen, steps, queries=queries, progress=shown.update)
        on_seen, *others = (
            evaluate(model, one, steps, queries=asked[one], controls=False, progress=shown.update).model
            for one in (seen, *more)
        )
        binding = diagnose(model, unseen, min(5, chosen.unseen.steps)) if diagnosed else None
        shown.update(diagnosis_work)
    compared = zip(others[::2], others[1::2], strict=True) if more else [(on_seen, on_unseen.model)]
    gaps = [{pool: _gap(*scores, pool) for pool in on_seen} for scores in compared]
    which = digest(chosen.unseen) + ("" if queries is None else f", {queries} queries")
    scenes = chosen.unseen.scene_index[query_rows(unseen, queries)]
    by_query = QueryRanks(which, on_unseen.hard_pool, EVALUATION_VERSION, scenes, on_unseen.ranks)
    return {
        "privileged": model.privileged,
        "hard_pool": on_unseen.hard_pool,
        "references": len(chosen.unseen),
        "queries": queries,
        "scenes": int(chosen.unseen.scene_index.max()) + 1,
        "matched": model.metric.max_references is not None,
        "scores": {"unseen": on_unseen.model, "training": on_seen},
        "gap": {pool: {k: fmean(gap[pool][k] for gap in gaps) for k in on_seen[pool]} for pool in on_seen},
        "controls": on_unseen.controls,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "segmentation": segmentation(model, chosen.unseen) if chosen.unseen.states is not None else None,
        "binding": binding,
        "equivariance": equivariance_error(model, chosen.unseen, np.random.default_rng(0)).to_json()
        if equivariance else None,
        "data": chosen.source,
        "evaluation_version": EVALUATION_VERSION,
    }, by_query  # fmt: skip


def _gap(seen: Scores, unseen: Scores, pool: Pool) -> dict[str, float]:
    return {k: seen[pool][k].mrr - unseen[pool][k].mrr for k in seen[pool]}


@dataclass(frozen=True)
class _Subject:
    """What is evaluated, on what, and what its result says of it without any computation."""

    model: WorldModel
    chosen: EvaluationData
    about: Mapping[str, Any]


def _own_model(model: WorldModel, data: Place | Dataset, method: str, title: str | None, seed: int) -> _Subject:
    stored = None if isinstance(data, Dataset) else Path(data)
    dataset = data if isinstance(data, Dataset) else load_certified(Path(data))
    certificate = dataset.certificate()
    for violation in certificate["violations"]:
        if not violation.startswith("pools"):  # which are made equal here
            raise HowmError(f"the certificate of the data is violated ({violation}); make the data again")
    known = METHODS[method].title if method in METHODS else method.rpartition(":")[2]
    about = {
        "method": method,
        "method_title": title or known,
        "world": dataset.world_name,
        "world_title": world_title(dataset.world_name),
        "n": dataset.n,
        "seed": seed,
        "unseen": certificate["unseen"],
        "training_scenes": None if dataset.split is None else len(dataset.split.train),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }
    chosen = episodes_of(dataset, None if stored is None else file_hash(stored))
    return _Subject(model, chosen, about | {"split": chosen.split, "sizes": chosen.sizes})


def _trained(
    run: Place, data: Place | Dataset | None, steps: int, fresh_seed: int | None, episodes: int | None
) -> _Subject:
    if isinstance(data, Dataset):
        raise HowmError("a run is evaluated on a dataset file; save the dataset and give its path")
    checkpoint = load_checkpoint(find_checkpoint(run))
    rebuild(checkpoint)  # refuses a model of the user's own before any work
    if fresh_seed is not None:
        chosen = fresh_episodes(checkpoint, steps, fresh_seed, episodes)
    else:
        chosen = stored_episodes(checkpoint, find_data(Path(run), checkpoint.record) if data is None else Path(data))
    record, ended = checkpoint.record, load_checkpoint(find_checkpoint(run, "last")).record.progress
    config = {"model": record.model, "represent": record.represent, "train": record.train}
    about = {
        "method": record.method,
        "method_title": record.title,
        "world": record.data.world,
        "world_title": record.data.world_title,
        "n": record.data.n,
        "seed": record.seed,
        "split": chosen.split if chosen.split == record.data.split else f"{record.data.split}-on-{chosen.split}",
        "sizes": chosen.sizes,
        "preset": record.preset,
        "unseen": unseen_label(checkpoint, chosen),
        "training_scenes": None if record.data.train_scenes is None else len(record.data.train_scenes),
        "training_steps": ended.step,
        "best_step": checkpoint.step,
        # Of slots that another run has trained, the cost counts as well.
        "costs": ended.costs if record.extractor is None else ended.costs.after(record.extractor.costs),
        "threads": record.threads,
        "curve": tuple(row for row in read_metrics(Path(run)) if "held_out_loss" in row),
        "config": {name: values for name, values in config.items() if values},
        "versions": record.versions,
    }
    return _Subject(rebuild(checkpoint, chosen.k), chosen, about)
