"""The one table of methods: what `howm methods` lists, `howm train` builds and a checkpoint names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from howm.config import OF_RUN, TrainConfig, from_plain, has_key, merge, refuse_contradiction
from howm.errors import HowmError
from howm.models.cswm import CSWMK, CSWMN, CWMN, CSWMConfig, CSWMKCopy
from howm.models.cswm_slots import CSWMSlotsConfig, cswm_slots
from howm.models.howm import HOWM, HOWMConfig
from howm.models.monet import MONetBM, MONetBMConfig
from howm.models.worldmodel import WorldModel, WorldSpec


@dataclass(frozen=True)
class Method:
    """A row of the table. ``presets`` hold only what differs from the defaults, which are the paper's."""

    name: str
    title: str
    summary: str
    build: Callable[[WorldSpec, Any], WorldModel]
    model_config: type[Any]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    represents: str | None = None  # the group of model.* that says how, where a representation is trained first

    def config(self, preset: str, *overrides: Mapping[str, Any]) -> "RunConfig":
        """A preset with overrides put in, checked."""
        if preset not in self.presets:
            raise HowmError(f"unknown preset {preset!r} of {self.name}; choose one of {', '.join(self.presets)}")
        groups = ("model", "represent", "train") if self.represents else ("model", "train")
        values: dict[str, Any] = merge({group: {} for group in groups}, self.presets[preset])
        for override in overrides:
            values = merge(values, override)
        unknown = set(values) - set(groups)
        if unknown:
            raise HowmError(
                f"unknown key {sorted(unknown)[0]} in the configuration; the groups of {self.name} are "
                f"{', '.join(groups)}"
            )
        model = from_plain(self.model_config, values["model"], "model.")
        train = from_plain(TrainConfig, values["train"], "train.")
        represent = None
        if self.represents:
            of_run = {name: getattr(train, name) for name in OF_RUN}
            represent = from_plain(TrainConfig, merge(of_run, values["represent"]), "represent.")
            refuse_contradiction(represent, train)
        return RunConfig(self.name, preset, model, train, represent)

    def has(self, setting: str) -> bool:
        """Whether a setting such as model.hidden=64 is of a key that the method has."""
        group, *path = setting.partition("=")[0].split(".")
        if group == "represent" and not self.represents:
            return False
        return has_key(self.model_config if group == "model" else TrainConfig, path)


@dataclass(frozen=True)
class RunConfig:
    """All that a run needs besides data and seed."""

    method: str
    preset: str
    model: Any
    train: TrainConfig
    represent: TrainConfig | None = None


# Training has two plateaus. Until each mask has found its object, the number of steps and not of samples decides how
# soon the loss falls: hence small batches. Then moves that another object blocks stay unlearned (the error of one
# transition in 27). Embeddings that are large beside the weights of the transition (sigma), a batch of 128 and a rate
# that starts high leave that plateau. Embeddings of 4 instead of the paper's 2: in Rush Hour two dimensions cannot hold
# both a cell and a heading.
_CPU = {
    "model": {"hidden": 128, "embedding": 4, "sigma": 2.0},
    "train": {"steps": 6_000, "batch": 128, "lr": 2.5e-3, "schedule": "cosine", "warmup": 200},
}
_CSWM_PRESETS: Mapping[str, Mapping[str, Any]] = {"paper": {}, "cpu": _CPU}

# Our HOWM differs from the paper's in all that was found to matter, at any budget; see the README's ablation.
_HOWM_MODEL = {
    "extractor": {"kind": "proposals"},
    "attention": 32,
    "maps": "mlp",
    "compete": "objects",
    "lift": "claims",
    "witness": 1.0,
    "sigma": 2.0,
}
_HOWM_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"model": _HOWM_MODEL},
    "cpu": {
        "model": {**_HOWM_MODEL, "hidden": 128},
        "represent": {"steps": 1_500, "batch": 64, "lr": 2e-3, "schedule": "cosine", "warmup": 100},
        "train": {"steps": 5_000, "batch": 128, "lr": 2.5e-3, "schedule": "cosine", "warmup": 200},
    },
}
_HOWM_PAPER_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "cpu": {
        # With a broadcast decoder, slots come to own regions instead of objects: 2 % of the frames are separated.
        "model": {"hidden": 128, "extractor": {"slot": 32, "decoder": "sprites"}},
        "represent": {"steps": 6_000, "batch": 64, "lr": 1e-3, "schedule": "cosine", "warmup": 500},
        "train": {"steps": 6_000, "batch": 128, "lr": 1e-3, "schedule": "cosine", "warmup": 200},
    },
}

_MONET_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"represent": {"steps": 1_000_000, "batch": 64, "lr": 1e-4, "optimizer": "rmsprop"}},
    "cpu": {  # the paper's weight of the masks' KL keeps all of them alike: the decoder cannot guess them at first
        "model": {"hidden": 128, "monet": {"resolution": "cells", "hidden": 128, "gamma": 0.01}},
        "represent": {"steps": 3_000, "batch": 32, "lr": 2e-3, "schedule": "cosine", "warmup": 100},
        "train": {"steps": 2_000, "batch": 128, "lr": 2.5e-3, "schedule": "cosine", "warmup": 200},
    },
}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("cswm-n", "Σ_N-CSWM", "N masks in action order: exact, O(N²)", CSWMN, CSWMConfig, _CSWM_PRESETS),
        Method("cswm-k", "Σ_K-CSWM", "K masks, actions by the scene's ids", CSWMK, CSWMConfig, _CSWM_PRESETS),
        Method("cswm-k-ca", "Σ_K-CSWM(CA)", "K masks, all actions to each", CSWMKCopy, CSWMConfig, _CSWM_PRESETS),
        Method("cwm-n", "C-WM(N)", "N masks, flat MLPs: no equivariance", CWMN, CSWMConfig, _CSWM_PRESETS),
        Method("cswm-slots", "C-SWM + slots", "N slots of Slot Attention", cswm_slots, CSWMSlotsConfig, _CSWM_PRESETS),
        Method(
            "monet-bm",
            "MONet(N)+BM",
            "N slots of MONet, matched, unbound",
            MONetBM,
            MONetBMConfig,
            _MONET_PRESETS,
            represents="monet",
        ),
        Method("howm-paper", "HOWM", "Slot Attention, linear maps", HOWM, HOWMConfig, _HOWM_PAPER_PRESETS, "extractor"),
        Method(
            "howm",
            "HOWM (ours)",
            "K+1 slots that know who they are: exact, O(K²)",
            HOWM,
            HOWMConfig,
            _HOWM_PRESETS,
            "extractor",
        ),
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
