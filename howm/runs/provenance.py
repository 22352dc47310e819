"""What made a run: versions and data."""

import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from howm.data.dataset import Dataset
from howm.errors import HowmError
from howm.runs.record import DataRecord
from howm.version import __version__
from howm.worlds.registry import describe_world, read_world
from howm.worlds.scenes import SceneSet
from howm.worlds.world import World


def describe_data(dataset: Dataset, data_hash: str | None) -> DataRecord:
    """What a checkpoint must know of its data to make fresh episodes of the same world in unseen scenes."""
    known: dict[str, Any] = {}
    if (split := dataset.split) is not None:
        larger = None if split.train.sizes == split.eval.sizes else (split.eval.sizes[0], split.eval.sizes[-1])
        known = {"train_scenes": split.train.scenes, "split": split.kind, "eval_sizes": larger}
    return DataRecord(
        data_hash, dataset.world_name, world_title(dataset.world_name), dataset.n, dataset.k, dataset.seed,
        dataset.moving, len(dataset.eval), None if dataset.world is None else describe_world(dataset.world),
        **known,
    )  # fmt: skip


def world_title(name: str) -> str:
    """How tables call a world: the last part of ``package.module:Name``, in words."""
    words = name.rpartition(":")[2].replace("_", " ")
    return {"pixels": "imported pictures"}.get(name, words.title() if words.islower() else words)


def training_world(data: DataRecord) -> tuple[World, SceneSet]:
    """The world and the training scenes that a checkpoint was trained with."""
    world = None if data.simulator is None else read_world(data.world, data.simulator)
    if world is None or data.train_scenes is None:
        raise HowmError("the model was trained on imported pictures, whose world is unknown; evaluate it on its data")
    sizes = {len(scene) for scene in data.train_scenes} or {data.k}
    return world, SceneSet(data.n, max(sizes), data.train_scenes, min(sizes))


def versions() -> dict[str, str]:
    """What made a run; the commit, and whether it was changed, where the package is used from its repository."""
    found = {"howm": __version__, "torch": torch.__version__, "python": platform.python_version()}
    root = Path(__file__).parents[2]
    if (root / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            changed = _git(root, "status", "--porcelain", "--", "howm")
            found["commit"] = _git(root, "rev-parse", "HEAD") + ("-dirty" if changed else "")
    return found


def _git(root: Path, *arguments: str) -> str:
    """What git says; it takes no lock, which would stay in the repository if the process were killed."""
    command = ["git", "--no-optional-locks", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
