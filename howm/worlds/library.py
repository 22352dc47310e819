"""The object library: N unique objects, each a shape, a colour, a size and a texture (and in Rush Hour a heading)."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, Integer, UInt8

from howm.errors import HowmError, require_int
from howm.worlds.silhouettes import CARS, SHAPES, SIZES, TEXTURES, dark_pixels, silhouette

KINDS = ("shapes", "rush_hour")
HEADINGS = ("north", "east", "south", "west")
COLOUR_LEVELS = 16  # candidate colours per channel
FAR_COLOUR = 0.4  # a colour is far enough with this share of the best squared distance
DARKEST = 0.45  # OKLab lightness below which a colour is too near the black background
OF_ONE_COLOUR = 300  # the first objects of a library, which are plain and share no colour
FEWER_LEVELS = 8  # candidate colours per channel of the objects after them, which may have textures


@dataclass(frozen=True)
class LibraryObject:
    """What one object looks like; ``heading`` (0-3: north, east, south, west) is set in Rush Hour only."""

    shape: str
    colour: tuple[int, int, int]
    size: str
    heading: int | None = None
    texture: str = "plain"

    def __post_init__(self) -> None:
        if self.shape not in SHAPES or self.size not in SIZES:
            raise HowmError(f"unknown object {self.shape!r}, {self.size!r}: shapes are {SHAPES}, sizes {tuple(SIZES)}")
        if self.texture not in TEXTURES:
            raise HowmError(f"unknown texture {self.texture!r}; choose one of {', '.join(TEXTURES)}")
        if len(self.colour) != 3 or not all(isinstance(c, int) and 0 <= c <= 255 for c in self.colour):
            raise HowmError(f"colour {self.colour} must be three integers in 0-255")
        if not any(self.colour):
            raise HowmError(f"an object may not be black {self.colour}: black is the background")
        if self.heading is not None and self.heading not in range(4):
            raise HowmError(f"heading {self.heading!r} must be in 0-3 ({', '.join(HEADINGS)})")
        if self.heading is not None and self.shape != CARS[self.heading]:
            raise HowmError(f"a car of heading {self.heading} is a {CARS[self.heading]}, not a {self.shape}")

    def __str__(self) -> str:
        texture = "" if self.texture == "plain" else f" {self.texture}"
        return f"{self.size:5s}  {self.shape:15s} rgb{self.colour}{texture}"

    def picture(self, cell_pixels: int = 10) -> UInt8[np.ndarray, "p p 3"]:
        """The object in its cell, on black."""
        colour = np.array(self.colour, dtype=np.uint8)
        shades = np.where(dark_pixels(self.texture, cell_pixels)[..., None], colour - colour // 2, colour)
        return silhouette(self.shape, self.size, cell_pixels)[..., None] * shades

    def to_plain(self) -> dict[str, Any]:
        """In JSON's types; files say nothing of a plain texture."""
        values = {"shape": self.shape, "colour": list(self.colour), "size": self.size, "heading": self.heading}
        return values if self.texture == "plain" else values | {"texture": self.texture}


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

    def closest_pair(self, cell_pixels: int = 10) -> tuple[int, int, float]:
        """The two objects that look most alike, and the L2 distance of their pictures (RGB of 0-1)."""
        if self.n == 1:
            raise HowmError("a library of one object has no pair; give n >= 2")
        flat = np.stack([item.picture(cell_pixels).ravel() for item in self.objects]).astype(np.float64)
        lengths = (flat**2).sum(axis=1)
        best = (0, 0, np.inf)
        for start in range(0, self.n, 256):
            some = flat[start : start + 256]
            squared = lengths[start : start + 256, None] + lengths - 2 * some @ flat.T  # whole numbers: exact
            squared[np.arange(self.n) <= np.arange(start, start + len(some))[:, None]] = np.inf  # each pair once
            i, j = np.unravel_index(squared.argmin(), squared.shape)
            if squared[i, j] < best[2]:
                best = (start + int(i), int(j), float(squared[i, j]))
        return best[0], best[1], float(np.sqrt(best[2]) / 255)

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
        return {"world": self.world, "seed": self.seed, "objects": [item.to_plain() for item in self.objects]}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "ObjectLibrary":
        try:
            objects = tuple(
                LibraryObject(o["shape"], tuple(o["colour"]), o["size"], o["heading"], o.get("texture", "plain"))
                for o in values["objects"]
            )
            return cls(values["world"], objects, values["seed"])
        except (AttributeError, KeyError, TypeError, IndexError) as error:
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
    """Farthest-first, so that smaller libraries are prefixes."""
    first = _spread_colours(world, min(n, OF_ONE_COLOUR), seed)
    return first if n <= OF_ONE_COLOUR else first + _spread_sprites(world, n - len(first), first)


def _colours(levels: int) -> Integer[np.ndarray, "colours 3"]:
    """All colours of so many levels a channel that are bright enough."""
    steps = np.linspace(0, 255, levels).round().astype(int)
    rgb = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    return np.asarray(rgb[oklab(rgb / 255)[:, 0] >= DARKEST])


def _made(world: str, shape: str, size: str, texture: str, rgb: Integer[np.ndarray, " 3"]) -> LibraryObject:
    red, green, blue = (int(channel) for channel in rgb)
    heading = CARS.index(shape) if world == "rush_hour" else None
    return LibraryObject(shape, (red, green, blue), size, heading, texture)


def _spread_colours(world: str, n: int, seed: int) -> tuple[LibraryObject, ...]:
    """Each next object has a new colour far from all others (in OKLab) and, among the shapes and sizes used least so
    far, the sprite farthest from all others (in RGB)."""
    rgb = _colours(COLOUR_LEVELS)
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
        objects.append(_made(world, shape, size, "plain", rgb[colour]))
        shapes_used[shape] += 1
        sizes_used[size] += 1
        # |m_a c_a - m_b c_b|^2 = |m_a||c_a|^2 + |m_b||c_b|^2 - 2 |m_a and m_b| c_a.c_b: two sprites on black
        sprite_distance = energy + energy[look, colour] - 2 * np.outer(overlap[look], rgb @ rgb[colour])
        nearest_sprite = np.minimum(nearest_sprite, sprite_distance)
        nearest_colour = np.minimum(nearest_colour, ((lab - lab[colour]) ** 2).sum(axis=1))
    return tuple(objects)


def _spread_sprites(world: str, n: int, first: tuple[LibraryObject, ...]) -> tuple[LibraryObject, ...]:
    """Each next object has the sprite, of any shape, size, texture and colour, farthest from all others (in RGB)."""
    rgb = _colours(FEWER_LEVELS)
    looks = list(product(SHAPES if world == "shapes" else CARS, SIZES, TEXTURES))
    if n > (most := len(looks) * len(rgb) // 3):  # beyond, neighbours are too much alike
        raise HowmError(f"n={len(first) + n} is more than the {len(first) + most} objects of a library; choose fewer")
    shades = [silhouette(shape, size) * (2 - 1 * dark_pixels(texture)) for shape, size, texture in looks]
    masks = np.array(shades, dtype=float).reshape(len(looks), -1)  # whole numbers: sums are exact on any machine
    overlap = masks @ masks.T
    energy = np.diag(overlap)[:, None] * (rgb**2).sum(axis=1)
    nearest = np.full(energy.shape, np.inf)

    def add(look: int, colour: Integer[np.ndarray, " 3"]) -> None:
        distance = np.outer(overlap[look], -2 * (rgb @ colour))
        distance += energy
        distance += overlap[look, look] * (colour @ colour)
        np.minimum(nearest, distance, out=nearest)

    for item in first:
        add(looks.index((item.shape, item.size, item.texture)), np.array(item.colour))
    objects: list[LibraryObject] = []
    for _ in range(n):
        look, colour = np.unravel_index(nearest.argmax(), nearest.shape)
        objects.append(_made(world, *looks[look], rgb[colour]))
        add(int(look), rgb[colour])
    return tuple(objects)
