"""The one table of methods: what `howm methods` lists, `howm train` builds and a checkpoint names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from howm.config import from_plain, merge
from howm.errors import HowmError
from howm.models.cswm import CSWMK, CSWMN, CWMN, CSWMConfig, CSWMKCopy
from howm.models.worldmodel import WorldModel, WorldSpec


@dataclass(frozen=True)
class TrainConfig:
    """How to fit. The defaults are the paper's: 100 passes over 100,000 transitions in batches of 1,024."""

    steps: int = 9_766
    batch: int = 1_024
    lr: float = 5e-4
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    same_scene: float = 0.5
    hold_out: float = 0.05
    check_every: int = 500
    log_every: int = 50
    precision: Literal["no", "bf16", "fp16"] = "no"
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "check_every", "log_every"):
            if getattr(self, name) < 1:
                raise HowmError(f"train.{name}={getattr(self, name)} is too small; give 1 or more")
        if not self.lr > 0:
            raise HowmError(f"train.lr={self.lr} is no learning rate; give a number above 0")


@dataclass(frozen=True)
class Method:
    """A row of the table. ``presets`` hold only what differs from the defaults, which are the paper's."""

    name: str
    title: str
    summary: str
    build: Callable[[WorldSpec, Any], WorldModel]
    model_config: type[Any]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def config(self, preset: str, *overrides: Mapping[str, Any]) -> "RunConfig":
        """A preset with overrides put in, checked."""
        if preset not in self.presets:
            raise HowmError(f"unknown preset {preset!r} of {self.name}; choose one of {', '.join(self.presets)}")
        values: dict[str, Any] = merge({"model": {}, "train": {}}, self.presets[preset])
        for override in overrides:
            values = merge(values, override)
        unknown = set(values) - {"model", "train"}
        if unknown:
            raise HowmError(f"unknown key {sorted(unknown)[0]} in the configuration; the groups are model and train")
        return RunConfig(
            self.name,
            preset,
            from_plain(self.model_config, values["model"], "model."),
            from_plain(TrainConfig, values["train"], "train."),
        )


@dataclass(frozen=True)
class RunConfig:
    """All that a run needs besides data and seed."""

    method: str
    preset: str
    model: Any
    train: TrainConfig


# Until each mask has found its object the loss stays on a plateau, and the number of steps, not of samples, decides
# how soon it leaves it: small batches are the fastest way off.
_CPU = {"model": {"hidden": 128}, "train": {"steps": 7_000, "batch": 64, "lr": 7e-4, "schedule": "cosine"}}
_CSWM_PRESETS: Mapping[str, Mapping[str, Any]] = {"paper": {}, "cpu": _CPU}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("cswm-n", "Σ_N-CSWM", "N masks in action order: exact, O(N²)", CSWMN, CSWMConfig, _CSWM_PRESETS),
        Method("cswm-k", "Σ_K-CSWM", "K masks, actions by the scene's ids", CSWMK, CSWMConfig, _CSWM_PRESETS),
        Method("cswm-k-ca", "Σ_K-CSWM(CA)", "K masks, all actions to each", CSWMKCopy, CSWMConfig, _CSWM_PRESETS),
        Method("cwm-n", "C-WM(N)", "N masks, flat MLPs: no equivariance", CWMN, CSWMConfig, _CSWM_PRESETS),
    )
}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise HowmError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]


def build_model(method: str, spec: WorldSpec, config: Any, seed: int) -> WorldModel:
    """A model with fresh weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return find_method(method).build(spec, config)


def default_preset() -> str:
    return "paper" if torch.cuda.is_available() else "cpu"
