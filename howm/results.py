"""The results of a run: its model evaluated on unseen and on training scenes, as one JSON object."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import torch

from howm.batches import Rollouts
from howm.checkpoint import Checkpoint, find_checkpoint, load_checkpoint, rebuild, spec_of, training_world
from howm.config import read_yaml, to_plain
from howm.dataset import Episodes, collect
from howm.diagnosis import diagnose
from howm.equivariance import equivariance_error
from howm.errors import HowmError
from howm.evaluation import Evaluation, evaluate
from howm.models.howm import HOWM
from howm.rundir import read_metrics
from howm.scenes import DEFAULT_SCENES, Scene, SceneSet, as_scene
from howm.segmentation import segmentation
from howm.storage import file_hash, load_certified, written_whole

_STREAM = 300  # of random numbers for fresh episodes


@dataclass(frozen=True)
class EvaluationData:
    """Episodes in scenes that a run did not train on, and in scenes that it did."""

    unseen: Episodes
    seen: Episodes
    k: int
    about: dict[str, Any]  # for results.json: where the episodes come from


def evaluate_run(
    run: str,
    steps: Sequence[int] = (1, 5, 10),
    *,
    data: Path | None = None,
    fresh_seed: int | None = None,
    episodes: int | None = None,
    equivariance: bool = False,
    hard_binding: bool = False,
) -> dict[str, Any]:
    """Evaluate the best model of a run on its data, on other data, or on fresh episodes; nothing is written.

    ``hard_binding`` sends each object's actions to one slot, where the model's own binding is soft.
    """
    if not steps or min(steps) < 1:
        raise HowmError(f"steps={list(steps)} cannot be evaluated; give numbers of 1 or more")
    checkpoint = load_checkpoint(find_checkpoint(run))
    rebuild(checkpoint)  # refuses a model of the user's own before any work
    if fresh_seed is not None:
        chosen = fresh_episodes(checkpoint, max(steps), fresh_seed, episodes)
    else:
        chosen = stored_episodes(checkpoint, data or _data_path(Path(run), checkpoint))
        if episodes is not None:
            chosen = replace(chosen, unseen=chosen.unseen.some(episodes), seen=chosen.seen.some(episodes))
    if equivariance:
        chosen.unseen.state()  # refuses pictures without states before any work
    model = rebuild(checkpoint, chosen.k).to("cuda" if torch.cuda.is_available() else "cpu")
    if hard_binding:
        if not isinstance(model, HOWM):
            raise HowmError(f"{checkpoint.about['method']} has no soft binding to make hard")
        model.hard = True

    if model.most_references is not None and len(chosen.unseen) > model.most_references:
        raise HowmError(
            f"{checkpoint.about['method']} matches slots with slots: ranking among {len(chosen.unseen)} references "
            "would take hours; give --episodes 500"
        )

    # Unequal pools would bias the gap: it compares as many episodes of as many scenes on both sides.
    seen, unseen = matched(chosen.seen, chosen.unseen)
    on_unseen = evaluate(model, Rollouts(chosen.unseen), steps)
    on_seen = evaluate(model, Rollouts(seen), steps, controls=False)
    comparable = on_unseen
    if len(unseen) < len(chosen.unseen):
        comparable = evaluate(model, Rollouts(unseen), steps, controls=False)

    costs = load_checkpoint(find_checkpoint(run, "last")).about
    results = _summarise(checkpoint, chosen, on_unseen, on_seen, comparable, costs)
    results["config"] = {
        name: checkpoint.about[name] for name in ("model", "represent", "train") if checkpoint.about.get(name)
    }
    results["curve"] = _curve(Path(run))
    results["matched"] = model.most_references is not None
    results["params"] = sum(parameter.numel() for parameter in model.parameters())
    masked = segmentation(model, chosen.unseen) if chosen.unseen.cells is not None else None
    if masked is not None:
        results["segmentation"] = masked.to_json()
    if isinstance(model, HOWM) and chosen.unseen.cells is not None:
        depth = min(5, chosen.unseen.steps)
        results["binding"] = diagnose(model, Rollouts(chosen.unseen), depth).to_json()
    if equivariance:
        results["equivariance"] = equivariance_error(model, chosen.unseen, np.random.default_rng(0)).to_json()
    return results


def _summarise(
    checkpoint: Checkpoint,
    chosen: EvaluationData,
    on_unseen: Evaluation,
    on_seen: Evaluation,
    comparable: Evaluation,
    costs: dict[str, Any],
) -> dict[str, Any]:
    """The layout of results.json; gaps are train minus eval MRR by number of steps."""
    about, data = checkpoint.about, checkpoint.about["data"]
    taken = about.get("extractor") or {}  # slots that another run has trained: their cost counts as well
    ours, seen, compared = on_unseen.to_json(), on_seen.to_json()["model"], comparable.to_json()["model"]

    def gap(pool: str) -> dict[str, float]:
        return {k: seen[pool][k]["mrr"] - compared[pool][k]["mrr"] for k in seen[pool]}

    return {
        "status": "ok",
        "method": about["method"],
        "preset": about.get("preset"),
        "env": data["world"],
        "n": data["n"],
        "k": chosen.k,
        "seed": about["seed"],
        "unseen": unseen_label(checkpoint, chosen),
        "eval": ours["model"]["easy"],
        "eval_hard": ours["model"]["hard"],
        "train": seen["easy"],
        "train_hard": seen["hard"],
        "gap": gap("easy"),
        "gap_hard": gap("hard"),
        "controls": {
            name: {"eval": scores["easy"], "eval_hard": scores["hard"]} for name, scores in ours["controls"].items()
        },
        "pool": len(chosen.unseen),
        "scenes": int(chosen.unseen.scene_index.max()) + 1,
        "train_scenes": len(data["train_scenes"]) if "train_scenes" in data else None,
        "best_step": checkpoint.step,
        "steps": costs["step"],
        "train_seconds": costs["train_seconds"] + taken.get("train_seconds", 0.0),
        "train_cpu_seconds": costs["train_cpu_seconds"] + taken.get("train_cpu_seconds", 0.0),
        "peak_memory_mb": max(costs["peak_memory_mb"], taken.get("peak_memory_mb", 0.0)),
        "data": chosen.about,
        "versions": about["versions"],
    }


def _curve(run: Path) -> list[dict[str, float]]:
    """What was measured on held-out training episodes along the way; empty for a model without a run directory."""
    return [row for row in read_metrics(run) if "held_out_loss" in row]


def results_path(results: dict[str, Any], folder: Path) -> Path:
    """Where the results of a run stand among those of others."""
    world = f"{results['env']}-n{results['n']}-k{results['k']}"
    return folder / world / f"{results['method']}-seed{results['seed']}.json"


def save_results(results: dict[str, Any], path: Path) -> Path:
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return path


def matched(seen: Episodes, unseen: Episodes) -> tuple[Episodes, Episodes]:
    """Equally many episodes in equally many scenes of both, all of them where they match already."""
    sizes = [np.bincount(episodes.scene_index) for episodes in (seen, unseen)]
    if sorted(sizes[0]) == sorted(sizes[1]):
        return seen, unseen
    scenes, each = min(len(size) for size in sizes), min(int(size.min()) for size in sizes)

    def cut(episodes: Episodes) -> Episodes:
        rows = [np.flatnonzero(episodes.scene_index == scene)[:each] for scene in range(scenes)]
        return episodes.select(np.concatenate(rows))

    return cut(seen), cut(unseen)


def unseen_label(checkpoint: Checkpoint, chosen: EvaluationData) -> str:
    """What can be said of the scenes of evaluation."""
    data, unseen = checkpoint.about["data"], chosen.unseen
    if chosen.k != data["k"]:
        return f"all scenes have {chosen.k} objects; those of training had {data['k']}"
    if data["n"] == data["k"]:
        return "no unseen scene exists"
    if unseen.scene_ids is None or "train_scenes" not in data:
        return "unknown: the data names no objects"
    return "eval scenes are unseen in training"


def stored_episodes(checkpoint: Checkpoint, path: Path) -> EvaluationData:
    """The evaluation episodes of a dataset that fits the model and has none of its training scenes in ``eval``."""
    dataset = load_certified(path)
    trained = checkpoint.about["data"]
    if to_plain(spec_of(dataset)) | {"k": trained["k"]} != checkpoint.about["spec"]:
        raise HowmError(
            f"{path} has {to_plain(spec_of(dataset))}, but the model was made for {checkpoint.about['spec']}"
        )
    if dataset.library is not None and json.loads(dataset.library.to_json())["objects"] != trained.get(
        "library", {}
    ).get("objects"):
        raise HowmError(f"{path} shows other objects than the model was trained with; make it with its --library-seed")
    if dataset.n > dataset.k == trained["k"] and "train_scenes" in trained:
        train = {tuple(scene) for scene in trained["train_scenes"]}
        overlap = dataset.eval.scenes & (train | _extractor_scenes(checkpoint))
        if overlap:
            raise HowmError(
                f"{len(overlap)} evaluation scenes of {path} are training scenes of the run; use --fresh-seed"
            )
        other = dataset.eval_seen.scenes - train
        if other:
            raise HowmError(
                f"{len(other)} scenes that {path} calls seen are no training scenes of the run; use --fresh-seed"
            )
    about = {"hash": file_hash(path), "seed": dataset.seed, "moving": dataset.moving}
    if dataset.split is not None:
        about["split"] = dataset.split.hash
    return EvaluationData(dataset.eval, dataset.eval_seen, dataset.k, about)


def _extractor_scenes(checkpoint: Checkpoint) -> set[Scene]:
    """Scenes of this library that an extractor which was taken over has seen."""
    extractor, data = checkpoint.about.get("extractor"), checkpoint.about["data"]
    scenes = [tuple(scene) for scene in extractor["scenes"]] if extractor else []
    return {scene for scene in scenes if len(scene) == data["k"] and max(scene) < data["n"]}


def _data_path(run: Path, checkpoint: Checkpoint) -> Path:
    """The dataset that a run was trained with, if it is still there and still the same."""
    path = read_yaml(str(run / "config.yaml")).get("data") if (run / "config.yaml").exists() else None
    if path is None or not Path(path).is_file():
        raise HowmError(f"the data of {run} ({path}) is not there; give --data FILE or --fresh-seed S")
    if file_hash(path) != checkpoint.about["data"]["hash"]:
        raise HowmError(f"{path} is not the data that {run} was trained with; give --data FILE or --fresh-seed S")
    return Path(path)


def fresh_episodes(checkpoint: Checkpoint, steps: int, seed: int, episodes: int | None = None) -> EvaluationData:
    """New episodes in scenes that training did not contain (all of them when few exist), and in scenes that it did.

    By default as many as the run's own evaluation episodes: numbers from fewer references are not comparable.
    """
    renderer, train = training_world(checkpoint.about)
    moving = checkpoint.about["data"]["moving"]
    episodes = episodes or checkpoint.about["data"]["eval_episodes"]
    rng = np.random.default_rng([seed, _STREAM])
    known = SceneSet(train.n, train.k, tuple(sorted({*train.scenes, *_extractor_scenes(checkpoint)})))
    unseen = draw_unseen(known, min(DEFAULT_SCENES, episodes, len(train)), rng) if train.n > train.k else train
    some = [train.scenes[i] for i in rng.permutation(len(train))[: len(unseen)]]
    seen = SceneSet(train.n, train.k, tuple(some))
    on_unseen, on_seen = (collect(renderer, scenes, episodes, steps, rng, moving) for scenes in (unseen, seen))
    return EvaluationData(on_unseen, on_seen, train.k, {"fresh_seed": seed, "moving": moving})


def draw_unseen(train: SceneSet, count: int, rng: np.random.Generator) -> SceneSet:
    """Up to ``count`` different scenes outside ``train``."""
    n, k = train.n, train.k
    left = comb(n, k) - len(train)
    if left <= 0:
        raise HowmError(f"the model was trained on all {len(train)} scenes of n={n}, k={k}: no unseen scene exists")
    if left <= 10 * count:
        unseen = [scene for scene in itertools.combinations(range(n), k) if not train.contains(scene)]
        return SceneSet(n, k, tuple(unseen[i] for i in rng.permutation(left)[:count]))
    drawn: dict[Scene, None] = {}
    while len(drawn) < count:
        scene = as_scene(rng.choice(n, k, replace=False))
        if not train.contains(scene):
            drawn[scene] = None
    return SceneSet(n, k, tuple(drawn))
