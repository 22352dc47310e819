"""Weights, configuration and provenance in one safetensors file: the only way a model is saved and rebuilt.

The file's header carries JSON under the key ``howm``; one file, replaced in one go, is always whole. No pickle.
"""

import json
import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from howm.config import from_plain, to_plain
from howm.dataset import Dataset
from howm.errors import HowmError
from howm.grid import Grid
from howm.library import ObjectLibrary
from howm.models.methods import build_model, find_method
from howm.models.worldmodel import WorldModel, WorldSpec
from howm.remote import MODEL, PREFIX, cached_model
from howm.render import Renderer
from howm.scenes import SceneSet
from howm.storage import written_whole
from howm.version import __version__

FORMAT = "howm-checkpoint"
VERSION = 1
CONFIGURED = ("method", "preset", "seed", "model", "extractor", "represent", "train")  # what a config.yaml repeats
SHIPPED = Path(__file__).parent / "trained"


@dataclass(frozen=True)
class Checkpoint:
    """``about`` is the JSON part; ``tensors`` are named ``model.*`` and, where training can go on, ``optimizer.*``."""

    about: dict[str, Any]
    tensors: dict[str, Tensor]

    @property
    def step(self) -> int:
        return int(self.about["step"])

    def weights(self) -> dict[str, Tensor]:
        return {name.removeprefix("model."): t for name, t in self.tensors.items() if name.startswith("model.")}


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    about = {"format": FORMAT, "version": VERSION, **checkpoint.about}
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in checkpoint.tensors.items()}
    with written_whole(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={"howm": json.dumps(about)})
        except SafetensorError as error:  # a full disk comes in this dress
            raise OSError(str(error)) from error


def load_checkpoint(path: Path) -> Checkpoint:
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("howm", "{}"))
            if about.get("format") != FORMAT or about.get("version") != VERSION:
                raise HowmError(f"{path} is no checkpoint of this howm (format version {VERSION})")
            return Checkpoint(about, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except FileNotFoundError:
        raise HowmError(f"there is no checkpoint {path}; train a model with `howm train`") from None
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise HowmError(f"checkpoint {path} cannot be read: {str(error).splitlines()[0]}") from error


def describe_data(dataset: Dataset, data_hash: str | None) -> dict[str, Any]:
    """What a checkpoint must know of its data to make fresh episodes of the same world in unseen scenes."""
    about: dict[str, Any] = {"hash": data_hash, "world": dataset.world, "n": dataset.n, "k": dataset.k}
    about |= {"seed": dataset.seed, "moving": dataset.moving, "eval_episodes": len(dataset.eval)}
    if dataset.renderer is not None:
        grid = dataset.renderer.grid
        about |= {"grid": [grid.height, grid.width], "cell_pixels": dataset.renderer.cell_pixels}
        about["library"] = json.loads(dataset.renderer.library.to_json())
    if dataset.split is not None:
        about["train_scenes"] = dataset.split.train.to_array().tolist()
    return about


def training_world(about: dict[str, Any]) -> tuple[Renderer, SceneSet]:
    """The renderer and the training scenes that a checkpoint was trained with."""
    data = about["data"]
    if "library" not in data:
        raise HowmError("the model was trained on imported pictures, whose world is unknown; evaluate it on its data")
    library = ObjectLibrary.from_json(json.dumps(data["library"]))
    scenes = SceneSet(data["n"], data["k"], tuple(tuple(scene) for scene in data["train_scenes"]))
    return Renderer(library, Grid(*data["grid"]), data["cell_pixels"]), scenes


def spec_of(dataset: Dataset) -> WorldSpec:
    """What a model may know of the world of a dataset."""
    height, width = dataset.train.picture_shape[:2]
    return WorldSpec(dataset.n, dataset.k, height, width, dataset.cell_pixels)


def versions() -> dict[str, str]:
    """What made a run; the commit, and whether it was changed, where the package is used from its repository."""
    found = {"howm": __version__, "torch": torch.__version__, "python": platform.python_version()}
    root = Path(__file__).parents[1]
    if (root / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            changed = _git(root, "status", "--porcelain", "--", "howm")
            found["commit"] = _git(root, "rev-parse", "HEAD") + ("-dirty" if changed else "")
    return found


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


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
        raise HowmError(f"{run} holds no trained model; train one with `howm train --out {run} ...`")
    return path


def load(run: str | os.PathLike[str]) -> WorldModel:
    """The best model of a run, or ``hf:owner/name`` from the Hub, ready for use, rebuilt from its checkpoint alone."""
    return rebuild(load_checkpoint(find_checkpoint(run)))


def rebuild(checkpoint: Checkpoint, k: int | None = None) -> WorldModel:
    """The model of a checkpoint; one that can do so may be asked to look at scenes of another number of objects."""
    about = checkpoint.about
    if about["method"] is None:
        raise HowmError("this checkpoint is of a model of your own: build it and call load_state_dict with its weights")
    if about.get("phase") == "represent":
        raise HowmError("only the representation of this run is trained so far; go on with howm train ... --resume")
    config = from_plain(find_method(about["method"]).model_config, about["model"], "model.")
    spec = WorldSpec(**about["spec"])
    if k is not None and k != spec.k:
        if not getattr(config, "any_k", False):
            raise HowmError(f"this {about['method']} was made for scenes of {spec.k} objects and cannot see {k}")
        spec = replace(spec, k=k)
    model = build_model(about["method"], spec, config, seed=0)
    _put(model, checkpoint.weights(), "this checkpoint")
    return model.eval()


def take_representation(model: WorldModel, config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Give ``model`` the trained representation of another run, and say which that was and what scenes it has seen.

    It may come from a library of another size: what a representation sees are cells, not names.
    """
    checkpoint = load_checkpoint(path)
    about, weights = checkpoint.about, checkpoint.weights()
    part = model.representation
    if part is None:
        raise HowmError("this method has no representation of its own to take over; leave out --extractor")
    if about["method"] is None:
        raise HowmError(f"{path} is a model of your own, whose representation cannot be told; give a run of a method")
    name = next(name for name, module in model.named_modules() if module is part)
    made_with = to_plain(from_plain(find_method(about["method"]).model_config, about["model"], "model."))
    if made_with.get(name) != config[name]:
        raise HowmError(
            f"{path} holds no representation with model.{name}={config[name]}; train one, or set that to its own"
        )
    found = {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}
    made_for = f"n={about['spec']['n']} objects, k={about['spec']['k']} in a scene"
    _put(part, found, f"{path}, which were made for {made_for},")
    if about.get("extractor"):  # taken over itself: what counts is who trained it, and on which scenes
        origin: dict[str, Any] = about["extractor"]
        return origin
    data = about["data"]
    return {
        "method": about["method"],
        "seed": about["seed"],
        "data": data["hash"],
        "scenes": data.get("train_scenes", []),
        **_slots_took(path),
    }


def _slots_took(path: Path) -> dict[str, float]:
    """What training the slots cost, to its end: the best checkpoint may be an earlier one."""
    last = path.with_name("last.safetensors")
    took: dict[str, float] = load_checkpoint(last if last.exists() else path).about.get("slots_took", {})
    return took


def refuse_seen(extractor: dict[str, Any], dataset: Dataset) -> None:
    """A representation that has seen the scenes of evaluation would make them no longer unseen."""
    if dataset.split is None or dataset.n == dataset.k:
        return
    seen = {tuple(scene) for scene in extractor["scenes"]} & set(dataset.split.eval.scenes)
    if seen:
        raise HowmError(
            f"the extractor was trained on {len(seen)} of the evaluation scenes, e.g. {min(seen)}; "
            "take one that was trained with data of the same --seed"
        )


def _put(module: nn.Module, weights: dict[str, Tensor], path: str | os.PathLike[str]) -> None:
    try:
        module.load_state_dict(weights)
    except RuntimeError:
        raise HowmError(
            f"the weights of {path} do not fit: they are of another kind or size, or of another version"
        ) from None
