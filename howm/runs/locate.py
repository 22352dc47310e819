"""Trained models by name, and how they are rebuilt."""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from howm.config import from_plain, read_yaml
from howm.errors import HowmError, require_int, short, shorten
from howm.files import PARSE_ERRORS, file_hash
from howm.models.registry import METHODS, build_model
from howm.models.world_model import WorldModel
from howm.remote import MODEL, PREFIX, cached_model
from howm.runs.checkpoint import Checkpoint, load_checkpoint
from howm.runs.record import RunRecord
from howm.worlds.scenes import SceneSet, draw_unseen

SHIPPED = Path(__file__).parents[1] / "trained"


def shipped() -> list[str]:
    """Names of the trained models that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))


def find_checkpoint(run: str | os.PathLike[str], which: str = "best") -> Path:
    """The checkpoint of a model that comes with the package, of a run directory (best or last), of a folder from the
    Hub or ``hf:owner/name`` on it, or the file itself.

    Before the first check the last one is the best.
    """
    path = Path(run)
    if str(run).startswith(PREFIX):
        path = cached_model(run)
    elif str(run) in shipped() and not path.exists():
        path = SHIPPED / f"{run}.safetensors"
    if path.is_dir():
        names = (f"{which}.safetensors", "last.safetensors", MODEL)
        path = next((path / name for name in names if (path / name).is_file()), path)
    if not path.is_file():
        what = "holds no trained model" if os.path.lexists(path) else "does not exist"
        raise HowmError(f"{run} {what}; give the folder of a run, or a model of the package: {', '.join(shipped())}")
    return path


def find_data(run: Path, record: RunRecord) -> Path:
    """The dataset that a run was trained with, if it is still there and still the same."""
    written = run / "config.yaml"
    path = read_yaml(str(written)).get("data") if os.path.lexists(written) else None
    if path is None:
        raise HowmError(f"{run} does not say where its data is; give `data=FILE` or `fresh_seed=SEED`")
    if not isinstance(path, str) or not os.path.isfile(path):
        raise HowmError(f"the data of {run} ({short(path)}) does not exist; give `data=FILE` or `fresh_seed=SEED`")
    if file_hash(path) != record.data.hash:
        raise HowmError(
            f"{shorten(path)} is not the data that {run} was trained with; give `data=FILE` or `fresh_seed=SEED`"
        )
    return Path(path)


def load(run: str | os.PathLike[str]) -> WorldModel:
    """The best model of a run, or ``hf:owner/name`` from the Hub, ready for use, rebuilt from its checkpoint alone."""
    return rebuild(load_checkpoint(find_checkpoint(run)))


def rebuild(checkpoint: Checkpoint, k: int | None = None) -> WorldModel:
    """The model of a checkpoint; one that can do so may be asked to look at scenes of another number of objects."""
    record = checkpoint.record
    if record.method is None:
        raise HowmError("this checkpoint is of a model of your own: build it and call load_state_dict with its weights")
    if record.progress.phase == "represent":
        raise HowmError("only the extractor of this run is trained so far; resume its training")
    model = _build(record.method, record, checkpoint.weights())
    if record.data.train_scenes is not None:
        n, k_trained = record.data.n, record.data.k
        taken_over = () if record.extractor is None else record.extractor.scenes
        sizes = {k_trained, *map(len, record.data.train_scenes)}
        alike = (scene for scene in taken_over if len(scene) in sizes and max(scene) < n)
        scenes = sorted({*record.data.train_scenes, *alike})
        model.training_scenes = SceneSet(n, k_trained, tuple(scenes), min(map(len, scenes), default=k_trained))
    return (model if k is None or k == record.spec.k else model.for_scene_size(k)).eval()


def _build(method: str, record: RunRecord, weights: dict[str, Tensor]) -> WorldModel:
    """The model that a record describes; weights of other shapes are refused before any memory is taken for it."""
    misfit = "the weights of this checkpoint do not fit to its record; get or train it again"
    try:
        config = from_plain(METHODS[method].model_config, record.model, "model.")
        with torch.device("meta"):
            claimed = build_model(method, record.spec, config, seed=0).state_dict()
        if {name: tensor.shape for name, tensor in claimed.items()} != {n: t.shape for n, t in weights.items()}:
            raise HowmError(misfit)
        model = build_model(method, record.spec, config, seed=0)
    except HowmError:
        raise
    except (RuntimeError, ArithmeticError, *PARSE_ERRORS) as error:
        raise HowmError(f"{misfit} ({shorten(error, 120)})") from error
    load_weights(model, weights, "this checkpoint")
    return model


def unseen_scenes(model: WorldModel, count: int, seed: int = 0) -> SceneSet:
    """Up to ``count`` different scenes that no part of a loaded model was trained on."""
    if model.training_scenes is None:
        raise HowmError("the training scenes of this model are not known; load a run whose data names its objects")
    return draw_unseen(model.training_scenes, require_int("count", count, 1), np.random.default_rng(seed))


def load_weights(module: nn.Module, weights: dict[str, Tensor], path: str | os.PathLike[str]) -> None:
    try:
        module.load_state_dict(weights)
    except RuntimeError:
        raise HowmError(
            f"the weights of {path} do not fit: they are of another kind or size, or of another version"
        ) from None
