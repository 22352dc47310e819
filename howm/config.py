"""Typed configuration: frozen dataclasses to and from plain values, with errors that name the key."""

import dataclasses
import math
import operator
import re
import types
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import yaml

from howm.errors import HowmError, short, shorten
from howm.files import MAX_DEPTH, PARSE_ERRORS, read_text

C = TypeVar("C")


def has_key(cls: type[Any], path: Iterable[str]) -> bool:
    """Whether a (nested) dataclass has the key at a path of names."""
    found: Any = cls
    for name in path:
        fields = {field.name: field for field in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else {}
        if name not in fields:
            return False
        if PARSER in fields[name].metadata:  # which keys there are depends on the values
            return True
        found = typing.get_type_hints(found)[name]
    return True


PARSER = "parser"  # in the metadata of a field: a function of a plain value and its key that makes the field's value


def validate(config: Any) -> None:
    """Check the fields of a dataclass by their annotations, as `from_plain` does; call it in ``__post_init__``."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        object.__setattr__(config, field.name, convert(getattr(config, field.name), hints[field.name], field.name))


def require_least(config: Any, least: int, *names: str) -> None:
    """Refuse numbers below ``least``, and those that are not finite."""
    for name in names:
        value = getattr(config, name)
        if not least <= value < math.inf:
            raise HowmError(f"{name} must be {least} or more, got {short(value)}")


def require_positive(config: Any, *names: str) -> None:
    """Refuse numbers that are not above 0, and those that are not finite."""
    for name in names:
        value = getattr(config, name)
        if not 0 < value < math.inf:
            raise HowmError(f"{name} must be above 0, got {short(value)}")


def require_share(config: Any, *names: str) -> None:
    """Refuse numbers that are not in [0, 1]."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value <= 1:
            raise HowmError(f"{name} must be in [0, 1], got {short(value)}")


_NAME = re.compile(r"\w(?:[\w.:+ -]|<locals>){0,199}")


def require_name(key: str, value: str) -> None:
    """Refuse names of worlds, methods and variants that could lead a path elsewhere, or do more than name."""
    if not _NAME.fullmatch(value) or ".." in value:
        raise HowmError(f"{key}={short(value)} cannot be a name; use letters, digits, - and _")


def from_plain(cls: type[C], values: Mapping[str, Any], where: str = "") -> C:
    """Build a (nested) dataclass from plain values; unknown keys and wrong types are errors."""
    assert dataclasses.is_dataclass(cls)
    if not isinstance(values, Mapping):
        raise HowmError(f"{where.rstrip('.') or 'the configuration'}={short(values)} should be a group of keys")
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for key in values:
        if key not in names:
            raise HowmError(f"unknown key {where}{shorten(key, 60)}; known are {', '.join(sorted(names))}")
    for field in dataclasses.fields(cls):
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and field.name not in values:
            raise HowmError(f"{where}{field.name} is missing")
    parsers = {field.name: field.metadata[PARSER] for field in dataclasses.fields(cls) if PARSER in field.metadata}

    converted = {
        key: parsers[key](value, f"{where}{key}") if key in parsers else convert(value, hints[key], f"{where}{key}")
        for key, value in values.items()
    }
    try:
        return cls(**converted)
    except HowmError as error:  # which names the key, but not the group
        raise HowmError(f"{where}{error}") from None


def convert(value: Any, hint: Any, key: str) -> Any:
    """A plain value as its annotation has it; a wrong type is an error that names the key."""
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type[Any], hint)):
            return value
        return from_plain(typing.cast(type[Any], hint), value, where=f"{key}.")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is dict:
        if not isinstance(value, Mapping):
            raise HowmError(f"{key}={short(value)} is of the wrong type; it should be a group of keys")
        return {convert(k, arguments[0], f"a key of {key}"): convert(v, arguments[1], f"{key}.{shorten(k, 60)}")
                for k, v in value.items()}  # fmt: skip
    if origin is typing.Literal:
        if not isinstance(value, str | int) or value not in arguments:  # an unhashable value is in nothing
            raise HowmError(f"{key}={short(value)} is not one of {', '.join(map(str, arguments))}")
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in arguments:
            return None
        *others, last = (a for a in arguments if a is not types.NoneType)
        for one in others:
            with suppress(HowmError):
                return convert(value, one, key)
        return convert(value, last, key)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise HowmError(f"{key}={short(value)} is of the wrong type; it should be a list")
        if arguments[-1] is not Ellipsis:
            if len(value) != len(arguments):
                raise HowmError(f"{key}={short(value)} has {len(value)} entries; it should have {len(arguments)}")
            return tuple(convert(item, one, key) for item, one in zip(value, arguments, strict=True))
        return tuple(convert(item, arguments[0], key) for item in value)
    if hint is float:
        return _number(value, key)
    if hint is int and not isinstance(value, bool) and hasattr(value, "__index__"):
        if not -(2**63) <= operator.index(value) < 2**64:
            raise HowmError(f"{key}={short(value)} does not fit into 64 bits; give a smaller number")
        return operator.index(value)  # NumPy's integers as well
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise HowmError(f"{key}={short(value)} is of the wrong type; it should be {hint.__name__}")
    return value


def _number(value: Any, key: str) -> float:
    """A finite float, also of an integer, of NumPy's numbers and of text: YAML reads 5e-4 as text."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        raise HowmError(f"{key}={short(value)} is of the wrong type; it should be a number") from None
    if isinstance(value, bool) or not math.isfinite(number):
        raise HowmError(f"{key} must be a finite number, got {short(value)}")
    return number


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
    return None if old == new else f"{key}={short(old)}, not {short(new)}"


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """``["train.lr=1e-3"]`` to ``{"train": {"lr": "1e-3"}}``, values read as YAML."""
    values: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise HowmError(f"setting {short(setting)} is not of the form key=value, for example train.lr=0.001")
        value = parse_yaml(text, f"the value of {short(setting)}")
        for key in reversed(path.split(".")):
            value = {key: value}
        values = merge(values, value)
    return values


MAX_YAML = 2**19  # bytes
MAX_NODES = 100_000  # with those that aliases repeat


class _Loader(yaml.SafeLoader):
    """Refuses aliases that stand for more than anybody wrote, and values nested too deeply."""

    depth = nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        sizes: dict[str, int] = self.__dict__.setdefault("sizes", {})
        before, self.depth, self.nodes = self.nodes, self.depth + 1, self.nodes + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise yaml.YAMLError(f"the alias {shorten(event.anchor, 60)} has no anchor, or is within it")
            self.nodes += sizes[event.anchor]
        if self.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise yaml.YAMLError(f"more than {MAX_DEPTH} levels or {MAX_NODES:,} values")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            sizes[event.anchor] = self.nodes - before
        return node


def parse_yaml(text: str, where: object) -> Any:
    """The value of a YAML text, in plain Python values."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, *PARSE_ERRORS) as error:
        raise HowmError(f"{shorten(where)} is not YAML that howm reads: {shorten(error, 120)}") from None


def read_yaml(path: str) -> dict[str, Any]:
    """The keys of a YAML file."""
    values = parse_yaml(read_text(path, MAX_YAML, "give a configuration in YAML"), path)
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise HowmError(f"{shorten(path)} holds no keys; a configuration has groups such as model and train")
    return values


def to_yaml(values: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(values), sort_keys=False))
