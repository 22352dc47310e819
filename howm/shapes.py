"""The silhouettes of objects: which pixels of its cell a shape of a given size covers."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Bool

from howm.errors import HowmError

MIN_CELL_PIXELS = 5  # below this a shape is no longer recognisable (colours are unique in any case)

# x grows to the right and y downwards; both run from -1 to 1 over the object's extent.
_Inside = Callable[[np.ndarray, np.ndarray], np.ndarray]
_SILHOUETTES: dict[str, _Inside] = {
    "square": lambda x, y: np.ones_like(x, dtype=bool),
    "circle": lambda x, y: x**2 + y**2 <= 1.0,
    "diamond": lambda x, y: abs(x) + abs(y) <= 1.0,
    "triangle_north": lambda x, y: 2 * abs(x) <= y + 1.0,
    "triangle_east": lambda x, y: 2 * abs(y) <= 1.0 - x,
    "triangle_south": lambda x, y: 2 * abs(x) <= 1.0 - y,
    "triangle_west": lambda x, y: 2 * abs(y) <= x + 1.0,
    "plus": lambda x, y: np.minimum(abs(x), abs(y)) <= 0.34,
    "saltire": lambda x, y: abs(abs(x) - abs(y)) <= 0.34,
    "frame": lambda x, y: np.maximum(abs(x), abs(y)) >= 0.5,
    "bars": lambda x, y: abs(y) >= 0.34,
}
SHAPES = tuple(_SILHOUETTES)
CARS = ("triangle_north", "triangle_east", "triangle_south", "triangle_west")  # by heading 0-3

SIZES = {"large": 1.0, "small": 0.6}  # extent as a share of the cell


@lru_cache(maxsize=1024)
def silhouette(shape: str, size: str, cell_pixels: int = 10) -> Bool[np.ndarray, "p p"]:
    """The pixels of a cell that an object covers, centred in the cell. The result is read-only."""
    if cell_pixels < MIN_CELL_PIXELS:
        raise HowmError(f"cell_pixels={cell_pixels} is too small to tell shapes apart; use {MIN_CELL_PIXELS} or more")
    extent = round(SIZES[size] * cell_pixels)
    extent -= (cell_pixels - extent) % 2  # equal margins on both sides
    centres = (np.arange(extent) * 2 + 1) / extent - 1
    y, x = np.meshgrid(centres, centres, indexing="ij")
    margin = (cell_pixels - extent) // 2
    mask = np.pad(_SILHOUETTES[shape](x, y), margin)
    mask.flags.writeable = False
    return mask
