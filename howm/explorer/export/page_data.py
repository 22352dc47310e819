"""All that an exported page needs, in plain values: what it shows, the world, and the models for some scene sizes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from howm.errors import HowmError
from howm.explorer.api import Api
from howm.explorer.export.graph import Weights, in_base64
from howm.explorer.export.verbs import export_verbs, metric_record
from howm.explorer.export.world_data import world_data
from howm.explorer.hard_rank import HardPool
from howm.explorer.stage import Stage
from howm.explorer.subject import Sight, Subject

ROUND = 2  # sizes beyond those of training, on both sides, that a page has unless others are asked for
ROLLOUTS = 100  # of a search in a page

Report = Callable[[str], None]


def silent(line: str) -> None:
    """The report of whoever wants none."""


def page_data(stage: Stage, sizes: Sequence[int] | None = None, report: Report = silent) -> dict[str, Any]:
    """For scenes of ``sizes`` objects, by default those of training and a few more or less; each is reported."""
    world = world_data(stage.world)
    chosen = _sizes(stage, sizes)
    weights = Weights()
    models: list[dict[str, Any]] = []
    for subject in stage.subjects:
        metric = metric_record(subject.model)
        if metric is None:
            raise HowmError(
                f"{subject.name} compares states by a metric in Python; explore it live with `howm explore`"
            )
        models.append({"metric": metric, "sizes": {}})
    elsewhere = {}
    pool = HardPool(stage)
    for k in chosen:
        report(f"scenes of {k} objects")
        sights = stage.sights(k)
        others = pool.other_scenes(k, sights)
        elsewhere[str(k)] = {"scenes": others.scenes.tolist(), "states": others.states.tolist()}
        for model, sight, embeddings in zip(models, sights, others.embeddings, strict=True):
            model["sizes"][str(k)] = {
                **_verbs(sight, others.scenes[:1], others.states[:1], weights),
                "elsewhere": in_base64(embeddings.numpy().astype(np.float32)),
            }
    return {
        "about": _about(stage, chosen),
        "world": world,
        "models": models,
        "weights": weights.to_plain(),
        "elsewhere": elsewhere,
        "moves": {str(item): moves for item, moves in stage.moves(tuple(range(stage.world.n))).items()},
        "texts": {str(k): _texts(stage, k) for k in chosen},
        "training": [_training_scenes(subject) for subject in stage.subjects],
        "moving": stage.moving,
    }


def _sizes(stage: Stage, wanted: Sequence[int] | None) -> list[int]:
    if wanted is None:
        trained = stage.subjects[0].trained_sizes
        wanted = [k for k in stage.sizes if trained[0] - ROUND <= k <= trained[-1] + ROUND]
    for k in wanted:
        if k not in stage.sizes:
            raise HowmError(
                f"scenes of {k} objects cannot be played here; sizes are {', '.join(map(str, stage.sizes))}"
            )
    return sorted(set(wanted))


def _verbs(sight: Sight, scene: np.ndarray, state: np.ndarray, weights: Weights) -> dict[str, Any]:
    picture = torch.from_numpy(sight.world.render(scene, state))
    rows, count = sight.rows(sight.encode(scene, state))
    return {
        **export_verbs(sight.model, picture, torch.from_numpy(scene), weights).to_plain(),
        "rows": rows,
        "count": count,
    }


def _about(stage: Stage, sizes: list[int]) -> dict[str, Any]:
    """What the server of the same stage would say, for these sizes."""
    about: dict[str, Any] = json.loads(Api(stage).describe())
    about["sizes"] = sizes
    about["kinds"] = {str(k): about["kinds"][str(k)] for k in sizes}
    about["size"] = about["size"] if about["size"] in sizes else sizes[0]
    about["search"]["rollouts"] = ROLLOUTS
    return about


def _texts(stage: Stage, k: int) -> dict[str, str]:
    """What the stage says of scenes of k objects, by which of the models were trained on them (such as 1,0)."""
    trained = [set(map(tuple, _training_scenes(subject))) for subject in stage.subjects]
    known = [scene for scene in sorted(set().union(*trained)) if len(scene) == k]
    examples = known + [stage.draw(kind, k, np.random.default_rng(0))[0] for kind in stage.kinds[k]]
    return {",".join(str(int(scene in some)) for some in trained): stage.scene_text(scene) for scene in examples}


def _training_scenes(subject: Subject) -> list[list[int]]:
    known = subject.training_scenes
    return [] if known is None else [list(scene) for scene in known.scenes]
