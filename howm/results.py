"""The results of a run: its model evaluated on unseen and on training scenes, as one JSON object."""

import itertools
import json
import sys
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from howm.batches import Rollouts
from howm.checkpoint import Checkpoint, find_checkpoint, load_checkpoint, rebuild, training_world
from howm.config import read_yaml
from howm.dataset import Episodes, collect
from howm.equivariance import equivariance_error
from howm.errors import HowmError
from howm.evaluation import Evaluation, evaluate
from howm.scenes import DEFAULT_SCENES, Scene, SceneSet, as_scene
from howm.storage import file_hash, load_dataset, written_whole

FRESH_EPISODES = 10_000


def evaluate_run(
    run: str,
    steps: Sequence[int] = (1, 5, 10),
    *,
    data: Path | None = None,
    fresh_seed: int | None = None,
    equivariance: bool = False,
) -> dict[str, Any]:
    """Evaluate the best model of a run on its data, or on fresh episodes; nothing is written."""
    checkpoint = load_checkpoint(find_checkpoint(run))
    if fresh_seed is not None:
        unseen, seen = fresh_episodes(checkpoint, max(steps), fresh_seed)
    else:
        dataset = load_dataset(data or _data_path(Path(run), checkpoint))
        unseen, seen = dataset.eval, dataset.eval_seen
    model, moving = rebuild(checkpoint), checkpoint.about["data"]["moving"]
    on_unseen = evaluate(model, Rollouts(unseen), steps, moving=moving)
    on_seen = evaluate(model, Rollouts(seen), steps, moving=moving, controls=False)
    results = summarise_run(checkpoint, on_unseen, on_seen, unseen)
    if fresh_seed is not None:
        results["fresh_seed"] = fresh_seed
    if equivariance:
        report = equivariance_error(model, unseen, np.random.default_rng(0))
        print(report, file=sys.stderr)
        results["equivariance"] = report.to_json()
    return results


def results_path(results: dict[str, Any], folder: Path) -> Path:
    """Where the results of a run stand among those of others."""
    world = f"{results['env']}-n{results['n']}-k{results['k']}"
    return folder / world / f"{results['method']}-seed{results['seed']}.json"


def save_results(results: dict[str, Any], path: Path) -> Path:
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return path


def summarise_run(
    checkpoint: Checkpoint, on_unseen: Evaluation, on_seen: Evaluation, unseen: Episodes
) -> dict[str, Any]:
    """The layout of results.json; gaps are train minus eval MRR by number of steps."""
    about = checkpoint.about
    data = about["data"]
    ours, seen = on_unseen.to_json(), on_seen.to_json()["model"]

    def gap(pool: str) -> dict[str, float]:
        return {k: seen[pool][k]["mrr"] - ours["model"][pool][k]["mrr"] for k in seen[pool]}

    return {
        "status": "ok",
        "method": about["method"],
        "preset": about.get("preset"),
        "env": data["world"],
        "n": data["n"],
        "k": data["k"],
        "seed": about["seed"],
        "unseen": "eval scenes are unseen in training" if data["n"] > data["k"] else "no unseen scene exists",
        "eval": ours["model"]["easy"],
        "eval_hard": ours["model"]["hard"],
        "train": seen["easy"],
        "train_hard": seen["hard"],
        "gap": gap("easy"),
        "gap_hard": gap("hard"),
        "controls": {
            name: {"eval": scores["easy"], "eval_hard": scores["hard"]} for name, scores in ours["controls"].items()
        },
        "pool": len(unseen),
        "scenes": int(unseen.scene_index.max()) + 1,
        "params": sum(tensor.numel() for tensor in rebuild(checkpoint).parameters()),
        "step": checkpoint.step,
        "train_seconds": about["train_seconds"],
        "train_cpu_seconds": about["train_cpu_seconds"],
        "peak_memory_mb": about["peak_memory_mb"],
        "versions": about["versions"],
    }


def _data_path(run: Path, checkpoint: Checkpoint) -> Path:
    """The dataset that a run was trained with, if it is still there and still the same."""
    path = read_yaml(str(run / "config.yaml")).get("data") if (run / "config.yaml").exists() else None
    if path is None or not Path(path).is_file():
        raise HowmError(f"the data of {run} ({path}) is not there; give --data FILE or --fresh-seed S")
    if file_hash(path) != checkpoint.about["data"]["hash"]:
        raise HowmError(f"{path} is not the data that {run} was trained with; give --data FILE or --fresh-seed S")
    return Path(path)


def fresh_episodes(
    checkpoint: Checkpoint, steps: int, seed: int, episodes: int = FRESH_EPISODES
) -> tuple[Episodes, Episodes]:
    """New episodes in scenes that training did not contain (all of them when few exist), and in as many that it did."""
    renderer, train = training_world(checkpoint.about)
    moving = checkpoint.about["data"]["moving"]
    rng = np.random.default_rng([seed, 99])
    unseen = draw_unseen(train, DEFAULT_SCENES, rng) if train.n > train.k else train
    count = min(len(unseen), len(train))

    def play(scenes: SceneSet) -> Episodes:
        chosen = [scenes.scenes[i] for i in rng.permutation(len(scenes))[:count]]
        return collect(renderer, SceneSet(train.n, train.k, tuple(chosen)), episodes, steps, rng, moving)

    return play(unseen), play(train)


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
