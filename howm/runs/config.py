"""The configuration of a run: the keys of its method's model and of the phases of training."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from howm.config import from_plain, has_key, merge, require_least, require_positive, require_share, validate
from howm.errors import HowmError, short, shorten
from howm.models.extractors.registry import EXTRACTORS
from howm.models.registry import METHODS, Method
from howm.worlds.spec import WorldSpec


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How to fit. The defaults are the paper's: 100 passes over 100,000 transitions in batches of 1,024."""

    steps: int = 9_766
    starts: int = 1  # how often to train, each time from new weights; the run with the lowest held-out loss is kept
    batch: int = 1_024
    lr: float = 5e-4
    optimizer: Literal["adam", "rmsprop"] = "adam"
    beta2: float = 0.999  # of Adam: how long it remembers the size of gradients
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    same_scene: float = 0.5  # the paper's ε: the share of negatives from the same scene
    still: float = 0.0  # the share of a batch that is drawn from transitions in which nothing changes
    hold_out: float = 0.05  # the share of training episodes that choose the best checkpoint
    check_every: int = 500
    log_every: int = 50
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "steps", "starts", "batch", "check_every", "log_every")
        require_positive(self, "lr")
        require_least(self, 0, "warmup", "beta2")
        if self.beta2 >= 1:
            raise HowmError(f"beta2 must be in [0, 1), got {self.beta2}")
        require_share(self, "same_scene", "still")
        if not 0 < self.hold_out < 1:
            raise HowmError(f"hold_out must be in (0, 1), got {self.hold_out}")
        if self.check_every % self.log_every:
            raise HowmError(
                f"check_every={self.check_every} must be a multiple of log_every={self.log_every}; change one of them"
            )


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """All that a run needs besides data and seed. ``method`` is None for a model that is given as an object."""

    train: TrainConfig
    represent: TrainConfig | None = None  # of the extractor, where one is trained first
    method: str | None = None
    preset: str | None = None
    model: Any = None


OF_RUN = ("precision", "hold_out", "same_scene")  # keys that are of a run, not of one of its phases


def refuse_contradiction(represent: TrainConfig, train: TrainConfig) -> None:
    for name in OF_RUN:
        if getattr(represent, name) != getattr(train, name):
            raise HowmError(f"represent.{name} differs from train.{name}={getattr(train, name)}; set the latter alone")


def configure(method: str, preset: str, *overrides: Mapping[str, Any], spec: WorldSpec | None = None) -> RunConfig:
    """A preset of a method with overrides put in, checked; ``spec`` is that of the data, by default of a grid world.

    The method and ``model.extractor.kind``, given in Python, may also be ``package.module:Name``; do not pass on what
    a file says.
    """
    METHODS.allow(method)
    for kind in filter(None, map(extractor_kind, overrides)):
        EXTRACTORS.allow(kind)
    return read_config(method, preset, *overrides, spec=spec)


def extractor_kind(values: Mapping[str, Any]) -> str | None:
    """The extractor that the values of a configuration name, if they name one."""
    for key in ("model", "extractor"):
        values = values.get(key, {})
        if not isinstance(values, Mapping):
            return None
    kind = values.get("kind")
    return kind if isinstance(kind, str) else None


def read_config(method: str, preset: str, *overrides: Mapping[str, Any], spec: WorldSpec | None = None) -> RunConfig:
    """As `configure`, of values that may come from a file: names must be declared or allowed already."""
    found = METHODS[method]
    groups = ("model", "represent", "train") if found.represents else ("model", "train")
    kinds = [kind for kind in map(extractor_kind, overrides) if kind is not None]
    begin = found.preset(preset, spec, kinds[-1] if kinds else None)
    values: dict[str, Any] = merge({group: {} for group in groups}, begin)
    for override in overrides:
        values = merge(values, override)
    for group in groups:
        if not isinstance(values[group], Mapping):
            raise HowmError(f"{group}={short(values[group])} should be a group of keys")
    unknown = set(values) - set(groups)
    if unknown:
        raise HowmError(
            f"unknown key {shorten(min(unknown, key=str), 60)} in the configuration; "
            f"the groups of {found.name} are {', '.join(groups)}"
        )
    model = from_plain(found.model_config, values["model"], "model.")
    train = from_plain(TrainConfig, values["train"], "train.")
    represent = None
    if found.represents:
        of_run = {name: getattr(train, name) for name in OF_RUN}
        represent = from_plain(TrainConfig, merge(of_run, values["represent"]), "represent.")
        refuse_contradiction(represent, train)
    return RunConfig(train, represent, found.name, preset, model)


def has_setting(method: Method, setting: str) -> bool:
    """Whether a setting such as model.hidden=64 is of a key that the method has."""
    group, *path = setting.partition("=")[0].split(".")
    if group == "represent" and not method.represents:
        return False
    return has_key(method.model_config if group == "model" else TrainConfig, path)
