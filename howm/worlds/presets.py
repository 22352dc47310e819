"""Worlds by name, each one step further from the aligned grid: useful combinations of the parts of `ObjectWorld`."""

from dataclasses import dataclass
from typing import Literal

from howm.worlds.backgrounds import Kind
from howm.worlds.boxes import Contact
from howm.worlds.object_world import ObjectWorld
from howm.worlds.traits import Classes


@dataclass(frozen=True)
class Free(ObjectWorld):
    """Continuous positions; objects block each other."""


@dataclass(frozen=True)
class Layers(ObjectWorld):
    """Continuous positions; objects pass over each other, and nearer ones hide farther ones."""

    contact: Contact = "overlap"


@dataclass(frozen=True)
class Textured(ObjectWorld):
    """Continuous positions on a random texture for each scene, seen by a noisy camera."""

    background: Kind = "texture"
    noise: float = 0.02


@dataclass(frozen=True)
class Push(ObjectWorld):
    """A grid on which objects push what is in their way, in chains."""

    space: Literal["grid", "free"] = "grid"
    contact: Contact = "push"


@dataclass(frozen=True)
class Team(ObjectWorld):
    """A grid on which all objects of a colour family move together."""

    space: Literal["grid", "free"] = "grid"
    contact: Contact = "team"


@dataclass(frozen=True)
class Classed(ObjectWorld):
    """A grid of movable, heavy, fixed and ghostly objects that push each other; their class can be seen."""

    space: Literal["grid", "free"] = "grid"
    contact: Contact = "push"
    classes: Classes = "visible"


@dataclass(frozen=True)
class Changing(ObjectWorld):
    """Continuous positions; now and then an object leaves and another one enters."""

    change_rate: float = 0.05


@dataclass(frozen=True)
class Grand(ObjectWorld):
    """Continuous positions, 3 to 7 objects that push each other by their class, on a texture for each scene."""

    contact: Contact = "push"
    classes: Classes = "visible"
    background: Kind = "texture"

    @property
    def default_k(self) -> range:
        return range(3, 8)
