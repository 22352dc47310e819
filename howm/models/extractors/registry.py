"""Extractors by name: those of howm, of installed packages (entry points ``howm.extractors``), and of a person."""

from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from howm.config import from_plain
from howm.errors import HowmError, short
from howm.registry import Registry

if TYPE_CHECKING:
    from howm.models.extractors.base import Extractor
    from howm.worlds.spec import WorldSpec


def _extractor(name: str, found: Any) -> "type[Extractor]":
    from howm.models.extractors.base import Extractor

    if not (isinstance(found, type) and issubclass(found, Extractor)):
        raise HowmError(f"the extractor {name} must be a subclass of howm.Extractor, got {found!r}")
    return found


_ROOM = "howm.models.extractors"
EXTRACTORS: "Registry[type[Extractor]]" = Registry(
    "extractor",
    {
        "slot_attention": f"{_ROOM}.slot_attention:SlotAttention",
        "balanced": f"{_ROOM}.balanced:BalancedAttention",
        "proposals": f"{_ROOM}.proposals:Proposals",
        "anchors": f"{_ROOM}.anchors:Anchors",
        "conv_attention": f"{_ROOM}.conv_attention:ConvAttention",
    },
    _extractor,
)


def require_kind(kind: str) -> None:
    """Refuse the name of an extractor that is not known; nothing is imported."""
    if kind not in EXTRACTORS:
        EXTRACTORS[kind]


def parse_extractor(values: Any, key: str) -> Any:
    """The values of model.extractor as the configuration of the extractor that its ``kind`` names."""
    if not isinstance(values, Mapping):
        raise HowmError(f"{key}={short(values)} should be a group of keys")
    kind = values.get("kind", "slot_attention")
    if not isinstance(kind, str):
        raise HowmError(f"{key}.kind={short(kind)} is of the wrong type; it should be str")
    config = EXTRACTORS[kind].Config
    if all(one.name != "kind" for one in fields(config)):  # stored beside the extractor's own keys
        config = make_dataclass(config.__name__, [("kind", str, field(default=kind))], bases=(config,), frozen=True)
    return from_plain(config, values, f"{key}.")


def build_extractor(spec: "WorldSpec", config: Any) -> "Extractor":
    """The extractor that a configuration names, with fresh weights."""
    try:
        kind = config.kind
    except AttributeError:
        raise HowmError(f"{type(config).__name__} has no kind; make it with howm.configure") from None
    return EXTRACTORS[kind](spec, config)
