"""The object library: N unique objects, each a shape, a colour and a size (and in Rush Hour a heading)."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from howm.errors import HowmError, require_int
from howm.worlds.silhouettes import CARS, SHAPES, SIZES, silhouette

KINDS = ("shapes", "rush_hour")
HEADINGS = ("north", "east", "south", "west")
COLOUR_LEVELS = 16  # candidate colours per channel
FAR_COLOUR = 0.4  # a colour is far enough with this share of the best squared distance
DARKEST = 0.45  # OKLab lightness below which a colour is too near the black background


@dataclass(frozen=True)
class LibraryObject:
    """What one object looks like; ``heading`` (0-3: north, east, south, west) is set in Rush Hour only."""

    shape: str
    colour: tuple[int, int, int]
    size: str
    heading: int | None = None

    def __post_init__(self) -> None:
        if self.shape not in SHAPES or self.size not in SIZES:
            raise HowmError(f"unknown object {self.shape!r}, {self.size!r}: shapes are {SHAPES}, sizes {tuple(SIZES)}")
        if len(self.colour) != 3 or not all(isinstance(c, int) and 0 <= c <= 255 for c in self.colour):
            raise HowmError(f"colour {self.colour} must be three integers in 0-255")
        if not any(self.colour):
            raise HowmError(f"an object may not be black {self.colour}: black is the background")
        if self.heading is not None and self.heading not in range(4):
            raise HowmError(f"heading {self.heading!r} must be in 0-3 ({', '.join(HEADINGS)})")
        if self.heading is not None and self.shape != CARS[self.heading]:
            raise HowmError(f"a car of heading {self.heading} is a {CARS[self.heading]}, not a {self.shape}")


@dataclass(frozen=True)
class ObjectLibrary:
    """N objects in a fixed order; object i owns the actions 4i ... 4i+3."""

    world: str
    objects: tuple[LibraryObject, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        _check_world(self.world)
        if not self.objects:
            raise HowmError("a library needs at least one object; give n >= 1")
        commonest, times = Counter(self.objects).most_common(1)[0]
        if times > 1:
            raise HowmError(f"{times} objects of a library are {commonest}; every object must be unique")
        if any((o.heading is None) != (self.world == "shapes") for o in self.objects):
            raise HowmError("every object of Rush Hour has a heading, and none of Shapes has one")

    @classmethod
    def make(cls, world: str, n: int, seed: int = 0) -> "ObjectLibrary":
        """The first ``n`` objects of the endless library that ``seed`` names: smaller libraries are prefixes."""
        _check_world(world)
        n, seed = require_int("n", n, 1), require_int("seed", seed, 0)
        return cls(world, _spread_objects(world, n, seed), seed)

    @property
    def n(self) -> int:
        return len(self.objects)

    def __len__(self) -> int:
        return self.n

    @cached_property
    def headings(self) -> Integer[np.ndarray, " N"]:
        """The absolute direction of each object's action 0: its heading, or north (0) in Shapes."""
        return np.array([o.heading or 0 for o in self.objects], dtype=np.int8)

    @property
    def colours(self) -> list[tuple[int, int, int]]:
        return [item.colour for item in self.objects]

    def prefix(self, n: int) -> "ObjectLibrary":
        """The library of the first ``n`` objects."""
        if not 1 <= n <= self.n:
            raise HowmError(f"a library of {self.n} objects has no prefix of {n}")
        return ObjectLibrary(self.world, self.objects[:n], self.seed)

    def permuted(self, order: Integer[np.ndarray, " N"]) -> "ObjectLibrary":
        """The library whose object i is this one's object ``order[i]``."""
        return ObjectLibrary(self.world, tuple(self.objects[i] for i in order), self.seed)

    def to_plain(self) -> dict[str, Any]:
        """In JSON's types; the same library gives the same values in the same order."""
        objects = [
            {"shape": o.shape, "colour": list(o.colour), "size": o.size, "heading": o.heading} for o in self.objects
        ]
        return {"world": self.world, "seed": self.seed, "objects": objects}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "ObjectLibrary":
        try:
            objects = tuple(
                LibraryObject(o["shape"], tuple(o["colour"]), o["size"], o["heading"]) for o in values["objects"]
            )
            return cls(values["world"], objects, values["seed"])
        except (KeyError, TypeError, IndexError) as error:
            raise HowmError(f"not a library: {error!r}") from error

    def to_json(self) -> str:
        """Canonical JSON: the same library gives the same text."""
        return json.dumps(self.to_plain(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "ObjectLibrary":
        try:
            return cls.from_plain(json.loads(text))
        except json.JSONDecodeError as error:
            raise HowmError(f"not a library in JSON: {error!r}") from error

    @property
    def hash(self) -> str:
        """Names the objects and their order, whatever seed made them."""
        return hashlib.sha256(json.dumps([self.world, self.to_plain()["objects"]]).encode()).hexdigest()[:16]


def _check_world(world: str) -> None:
    if world not in KINDS:
        raise HowmError(f"unknown world {world!r}; choose one of {', '.join(KINDS)}")


def oklab(rgb: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3"]:
    """sRGB in 0-1 to OKLab, where Euclidean distance is close to perceived difference; black is the origin."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    lab: np.ndarray = np.cbrt(linear @ np.transpose(to_cones)) @ np.transpose(to_lab)
    return lab


@lru_cache(maxsize=64)
def _spread_objects(world: str, n: int, seed: int) -> tuple[LibraryObject, ...]:
    """Farthest-first, so that smaller libraries are prefixes: each next object has a new colour far from all others
    (in OKLab) and, among the shapes and sizes used least so far, the sprite farthest from all others (in RGB)."""
    levels = np.linspace(0, 255, COLOUR_LEVELS).round().astype(int)
    rgb = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    rgb = rgb[oklab(rgb / 255)[:, 0] >= DARKEST]
    if n > len(rgb):
        raise HowmError(f"n={n} is more than the {len(rgb)} colours of a library; choose a smaller n")
    rgb = np.random.default_rng(np.random.SeedSequence([seed, KINDS.index(world)])).permutation(rgb)
    lab = oklab(rgb / 255)
    looks = [(shape, size) for shape in (SHAPES if world == "shapes" else CARS) for size in SIZES]
    masks = np.array([silhouette(shape, size).ravel() for shape, size in looks], dtype=float)
    overlap, brightness = masks @ masks.T, (rgb**2).sum(axis=1)
    energy = np.diag(overlap)[:, None] * brightness  # (looks, colours)

    nearest_colour = np.full(len(rgb), np.inf)
    nearest_sprite = np.full(energy.shape, np.inf)
    shapes_used: Counter[str] = Counter()
    sizes_used: Counter[str] = Counter()
    objects: list[LibraryObject] = []
    for _ in range(n):
        use = np.array([(shapes_used[shape], sizes_used[size]) for shape, size in looks])
        fresh = use[:, 0] == use[:, 0].min()
        fresh &= use[:, 1] == use[fresh, 1].min()
        far = nearest_colour >= FAR_COLOUR * nearest_colour.max()
        look, colour = np.unravel_index(np.where(fresh[:, None] & far, nearest_sprite, -1.0).argmax(), energy.shape)
        shape, size = looks[look]
        red, green, blue = (int(channel) for channel in rgb[colour])
        objects.append(
            LibraryObject(shape, (red, green, blue), size, CARS.index(shape) if world == "rush_hour" else None)
        )
        shapes_used[shape] += 1
        sizes_used[size] += 1
        # |m_a c_a - m_b c_b|^2 = |m_a||c_a|^2 + |m_b||c_b|^2 - 2 |m_a and m_b| c_a.c_b: two sprites on black
        sprite_distance = energy + energy[look, colour] - 2 * np.outer(overlap[look], rgb @ rgb[colour])
        nearest_sprite = np.minimum(nearest_sprite, sprite_distance)
        nearest_colour = np.minimum(nearest_colour, ((lab - lab[colour]) ** 2).sum(axis=1))
    return tuple(objects)
