"""Object-oriented world models and an honest measure of their compositional generalization."""

from importlib import import_module
from typing import Any

from howm.registration import register_envs
from howm.version import __version__

# Where each public name lives; a module loads when its name is first used, so that `import howm` stays cheap.
_PUBLIC = {
    "HowmError": "errors",
    "LibraryObject": "library",
    "ObjectLibrary": "library",
    "SceneSet": "scenes",
    "SceneSplit": "scenes",
    "seeded_split": "scenes",
    "split_scenes": "scenes",
    "Grid": "grid",
    "Renderer": "render",
    "Amounts": "dataset",
    "Dataset": "dataset",
    "Episodes": "dataset",
    "make_dataset": "dataset",
    "load_dataset": "storage",
    "save_dataset": "storage",
    "Batch": "batches",
    "Rollouts": "batches",
    "Transitions": "batches",
    "State": "models.worldmodel",
    "WorldModel": "models.worldmodel",
    "WorldSpec": "models.worldmodel",
    "METHODS": "models.methods",
    "TrainConfig": "config",
    "load": "checkpoint",
    "fit": "train",
    "evaluate": "evaluation",
}

__all__ = ["__version__", *_PUBLIC]

register_envs()


def __getattr__(name: str) -> Any:
    if name == "hub":  # a module with verbs of its own: howm.hub.push and howm.hub.pull
        return import_module("howm.hub")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'howm' has no attribute {name!r}")
    value = getattr(import_module(f"howm.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
