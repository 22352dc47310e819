"""Typed configuration: frozen dataclasses to and from plain values, with errors that name the key."""

import dataclasses
import math
import reprlib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import yaml

from howm.errors import HowmError

C = TypeVar("C")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How to fit. The defaults are the paper's: 100 passes over 100,000 transitions in batches of 1,024."""

    steps: int = 9_766
    batch: int = 1_024
    lr: float = 5e-4
    optimizer: Literal["adam", "rmsprop"] = "adam"
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    same_scene: float = 0.5  # the paper's ε: the share of negatives from the same scene
    hold_out: float = 0.05  # the share of training episodes that choose the best checkpoint
    check_every: int = 500
    log_every: int = 50
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "check_every", "log_every"):
            if getattr(self, name) < 1:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give 1 or more")
        if not 0 < self.lr < math.inf:
            raise HowmError(f"lr={self.lr} is no learning rate; give a number above 0")
        if self.warmup < 0:
            raise HowmError(f"warmup={self.warmup} is negative; give a number of steps, or 0")
        if not 0 <= self.same_scene <= 1:
            raise HowmError(f"same_scene={self.same_scene} is no probability; give a number from 0 to 1")
        if not 0 < self.hold_out < 1:
            raise HowmError(f"hold_out={self.hold_out} is no share; give a number between 0 and 1")
        if self.check_every % self.log_every:
            raise HowmError(
                f"check_every={self.check_every} is no multiple of log_every={self.log_every}; change one of them"
            )


OF_RUN = ("precision", "hold_out", "same_scene")  # keys that are of a run, not of one of its phases


def refuse_contradiction(represent: TrainConfig, train: TrainConfig) -> None:
    for name in OF_RUN:
        if getattr(represent, name) != getattr(train, name):
            raise HowmError(f"represent.{name} differs from train.{name}={getattr(train, name)}; set the latter alone")


def has_key(cls: type[Any], path: Iterable[str]) -> bool:
    """Whether a (nested) dataclass has the key at a path of names."""
    found: Any = cls
    for name in path:
        hints = typing.get_type_hints(found) if dataclasses.is_dataclass(found) else {}
        if name not in hints:
            return False
        found = hints[name]
    return True


def from_plain(cls: type[C], values: Mapping[str, Any], where: str = "") -> C:
    """Build a (nested) dataclass from plain values; unknown keys and wrong types are errors."""
    assert dataclasses.is_dataclass(cls)
    if not isinstance(values, Mapping):
        raise HowmError(f"{where.rstrip('.') or 'the configuration'}={values!r} should be a group of keys")
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for key in values:
        if key not in names:
            raise HowmError(f"unknown key {where}{key} in the configuration; known are {', '.join(sorted(names))}")
    for field in dataclasses.fields(cls):
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and field.name not in values:
            raise HowmError(f"{where}{field.name} is missing in the configuration")
    converted = {key: _convert(value, hints[key], f"{where}{key}") for key, value in values.items()}
    try:
        return cls(**converted)
    except HowmError as error:  # which names the key, but not the group
        raise HowmError(f"{where}{error}") from None


def _convert(value: Any, hint: Any, key: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type[Any], hint), value, where=f"{key}.")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in arguments:
            raise HowmError(f"{key}={value!r} is not one of {', '.join(map(str, arguments))}")
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in arguments:
            return None
        return _convert(value, next(a for a in arguments if a is not types.NoneType), key)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise HowmError(f"{key}={value!r} is of the wrong type; it should be a list")
        return tuple(_convert(item, arguments[0], key) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML reads 5e-4 as text
        try:
            return float(value)
        except ValueError:
            pass
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise HowmError(f"{key}={value!r} is of the wrong type; it should be {hint.__name__}")
    return value


def to_plain(config: Any) -> dict[str, Any]:
    return dataclasses.asdict(config)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the keys of ``over`` put in, group by group."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def difference(key: str, old: Any, new: Any) -> str | None:
    """The first key with different values, and both of them."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = (difference(f"{key}.{name}", old.get(name), new.get(name)) for name in old | new)
        return next(filter(None, found), None)
    return None if old == new else f"{key}={reprlib.repr(old)}, not {reprlib.repr(new)}"


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """``["train.lr=1e-3"]`` to ``{"train": {"lr": "1e-3"}}``, values read as YAML."""
    values: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise HowmError(f"setting {setting!r} is not of the form key=value, for example train.lr=0.001")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise HowmError(f"setting {setting!r} has a value that is not YAML") from error
        for key in reversed(path.split(".")):
            value = {key: value}
        values = merge(values, value)
    return values


def read_yaml(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            values = yaml.safe_load(file)
    except OSError as error:
        raise HowmError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise HowmError(f"{path} is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(values, dict):
        raise HowmError(f"{path} holds no keys; a configuration has groups such as model and train")
    return values


def to_yaml(values: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(values), sort_keys=False))
