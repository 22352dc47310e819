"""The silhouettes of objects, which pixels of its cell a shape of a given size covers, and their textures."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Bool

from howm.errors import HowmError

MIN_CELL_PIXELS = 5  # below this a shape is no longer recognisable (colours are unique in any case)

# x grows to the right and y downwards, both in half pixels from the centre to that of a pixel; the object's edges lie
# at -r and r. Whole numbers keep every silhouette exactly symmetric.
_Inside = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
_SILHOUETTES: dict[str, _Inside] = {
    "square": lambda x, y, r: np.ones_like(x, dtype=bool),
    "circle": lambda x, y, r: x**2 + y**2 <= r**2,
    "diamond": lambda x, y, r: abs(x) + abs(y) <= r,
    # A row of a triangle is as wide as at its lower edge: else an even extent would lose the tip.
    "triangle_north": lambda x, y, r: 2 * abs(x) <= r + 1 + y,
    "triangle_east": lambda x, y, r: 2 * abs(y) <= r + 1 - x,
    "triangle_south": lambda x, y, r: 2 * abs(x) <= r + 1 - y,
    "triangle_west": lambda x, y, r: 2 * abs(y) <= r + 1 + x,
    "plus": lambda x, y, r: np.minimum(abs(x), abs(y)) <= 0.34 * r,
    "saltire": lambda x, y, r: abs(abs(x) - abs(y)) <= 0.34 * r,
    "frame": lambda x, y, r: 2 * np.maximum(abs(x), abs(y)) >= r,
    "bars": lambda x, y, r: abs(y) >= 0.34 * r,
}
SHAPES = tuple(_SILHOUETTES)
CARS = ("triangle_north", "triangle_east", "triangle_south", "triangle_west")  # by heading 0-3

SIZES = {"large": 1.0, "small": 0.6}  # extent as a share of the cell

# Which pixels of a cell, by row and column, are dark: half as bright as the others.
_DARK: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "plain": lambda row, column: np.zeros_like(row, dtype=bool),
    "striped": lambda row, column: row % 2 == 1,
    "barred": lambda row, column: column % 2 == 1,
    "checked": lambda row, column: (row // 2 + column // 2) % 2 == 1,
}
TEXTURES = tuple(_DARK)


def extent(size: str, pixels: int) -> int:
    """The side of the box of an object, in pixels, where a cell has ``pixels``."""
    side = round(SIZES[size] * pixels)
    return side - (pixels - side) % 2  # equal margins on both sides


@lru_cache(maxsize=1024)
def silhouette(shape: str, size: str, cell_pixels: int = 10) -> Bool[np.ndarray, "p p"]:
    """The pixels of a cell that an object covers, centred in the cell. The result is read-only."""
    if cell_pixels < MIN_CELL_PIXELS:
        raise HowmError(f"cell_pixels={cell_pixels} is too small to draw shapes; use {MIN_CELL_PIXELS} or more")
    side = extent(size, cell_pixels)
    centres = np.arange(1 - side, side, 2)
    y, x = np.meshgrid(centres, centres, indexing="ij")
    mask = np.pad(_SILHOUETTES[shape](x, y, side), (cell_pixels - side) // 2)
    mask.flags.writeable = False
    return mask


@lru_cache(maxsize=64)
def dark_pixels(texture: str, cell_pixels: int = 10) -> Bool[np.ndarray, "p p"]:
    """The pixels of a cell at which a texture is half as bright. The result is read-only."""
    dark = np.array(_DARK[texture](*np.indices((cell_pixels, cell_pixels))))
    dark.flags.writeable = False
    return dark
