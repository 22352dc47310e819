"""Worlds by name: those of howm, and those of the entry points ``howm.worlds``."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from howm.errors import HowmError
from howm.registry import Registry

if TYPE_CHECKING:
    from howm.worlds.world import World


def _check(name: str, found: Any) -> "type[World]":
    from howm.worlds.world import World

    if not (isinstance(found, type) and issubclass(found, World)):
        raise HowmError(f"{name} must be a subclass of howm.World, got {found!r}")
    return found


WORLDS: "Registry[type[World]]" = Registry(
    "world",
    {
        "shapes": "howm.worlds.grid_world:Shapes",
        "rush_hour": "howm.worlds.grid_world:RushHour",
        "free": "howm.worlds.presets:Free",
        "layers": "howm.worlds.presets:Layers",
        "textured": "howm.worlds.presets:Textured",
        "push": "howm.worlds.presets:Push",
        "team": "howm.worlds.presets:Team",
        "classes": "howm.worlds.presets:Classed",
        "changing": "howm.worlds.presets:Changing",
        "grand": "howm.worlds.presets:Grand",
    },
    _check,
)


def make_world(name: str, n: int = 10, seed: int = 0, **settings: Any) -> "World":
    """The world of that name, or of ``package.module:Name``, with ``n`` objects of the library that ``seed`` names."""
    cls = WORLDS[WORLDS.allow(name)]
    if any(field.name == "seed" for field in fields(cls)):
        settings["seed"] = seed
    elif seed != 0:
        raise HowmError(f"the world {name} has one library only, so its seed must be 0, got {seed!r}")
    return cls.from_settings({"n": n, **settings})


def describe_world(world: "World") -> dict[str, Any]:
    """What files say of a world beside its name: grid worlds in keys of their own, as ever, others in ``record``."""
    record = world.to_record()
    return record if "library" in record else {"record": record}


def read_world(name: str, said: Mapping[str, Any]) -> "World | None":
    """The world that a file describes, None where it describes none; only declared or allowed ones are imported."""
    if "record" not in said and "library" not in said:
        return None
    return WORLDS[name].from_record(said.get("record", said))
