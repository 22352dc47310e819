"""States to pictures: pure functions of library, grid and state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

import numpy as np
from jaxtyping import Bool, Num, UInt8

from howm.errors import HowmError
from howm.worlds.grid import Grid
from howm.worlds.library import ObjectLibrary
from howm.worlds.silhouettes import silhouette


@dataclass(frozen=True)
class Renderer:
    """Draws scenes of a library on a grid: RGB on a black ground, one object a cell, ``cell_pixels`` pixels a side."""

    library: ObjectLibrary
    grid: Grid = field(default_factory=Grid)
    cell_pixels: int = 10

    def __post_init__(self) -> None:
        silhouette("square", "large", self.cell_pixels)  # refuses cells that are too small

    @cached_property
    def sprites(self) -> UInt8[np.ndarray, "N p p 3"]:
        """What each object of the library looks like in its cell."""
        return np.stack([item.picture(self.cell_pixels) for item in self.library.objects])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a picture."""
        return self.grid.height * self.cell_pixels, self.grid.width * self.cell_pixels, 3

    @cached_property
    def _sprite_rows(self) -> np.ndarray:
        """One item per row of pixels of a sprite, so that a row is copied in one go; (N, p)."""
        return self.sprites.reshape(self.library.n, self.cell_pixels, -1).view(f"V{3 * self.cell_pixels}")[..., 0]

    @cached_property
    def _mask_rows(self) -> np.ndarray:
        """The same of the pixels that each sprite covers."""
        return self.sprites.any(axis=-1).view(f"V{self.cell_pixels}")[..., 0]

    def render(
        self, scene_ids: Num[np.ndarray, "frames k"], cells: Num[np.ndarray, "frames k"]
    ) -> UInt8[np.ndarray, "frames height width 3"]:
        """The pictures of many states."""
        canvas = np.zeros((len(cells), *self.shape), dtype=np.uint8)
        self._paint(canvas, self._sprite_rows, scene_ids, cells)
        return canvas

    def masks(
        self, scene_ids: Num[np.ndarray, "frames k"], cells: Num[np.ndarray, "frames k"]
    ) -> Bool[np.ndarray, "frames k height width"]:
        """Which pixels each object of the scene covers."""
        canvas = np.zeros((*cells.shape, *self.shape[:2]), dtype=bool)
        self._paint(canvas, self._mask_rows, scene_ids.reshape(-1, 1), cells.reshape(-1, 1))
        return canvas

    def _paint(self, canvas: np.ndarray, sprite_rows: np.ndarray, scene_ids: np.ndarray, cells: np.ndarray) -> None:
        """Copy the sprites of each frame to their cells."""
        for name, values, limit in (("ids", scene_ids, self.library.n), ("cells", cells, self.grid.cell_count)):
            if values.size and not 0 <= values.min() <= values.max() < limit:
                raise HowmError(f"{name} from {values.min()} to {values.max()} cannot be drawn; give 0 to {limit - 1}")
        p, width = self.cell_pixels, self.grid.width
        # A row of pixels of a cell is one item: its index is ((frame * height + row) * p + y) * width + column.
        rows = canvas.reshape(-1).view(sprite_rows.dtype)
        row, column = np.divmod(cells.astype(np.intp), width)
        corner = (np.arange(len(cells))[:, None] * self.grid.height + row) * (p * width) + column
        rows[corner[..., None] + np.arange(p) * width] = sprite_rows[scene_ids.astype(np.intp)]


def film_strip(
    frames: UInt8[np.ndarray, "frames H W 3"], columns: int = 11, scale: int = 2
) -> UInt8[np.ndarray, "H2 W2 3"]:
    """Frames side by side, row by row, each with a grey border."""
    columns = min(columns, len(frames))
    rows = ceil(len(frames) / columns)
    big = frames.repeat(scale, axis=1).repeat(scale, axis=2)
    big = np.pad(big, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=96)
    blank = np.full((rows * columns - len(big), *big.shape[1:]), 96, dtype=np.uint8)
    tiles = np.concatenate([big, blank]).reshape(rows, columns, *big.shape[1:])
    return tiles.transpose(0, 2, 1, 3, 4).reshape(rows * big.shape[1], columns * big.shape[2], 3)


def labelled_strips(strips: Mapping[str, UInt8[np.ndarray, "frames H W 3"]]) -> UInt8[np.ndarray, "H2 W2 3"]:
    """Film strips below each other, each with its name."""
    from PIL import Image, ImageDraw, ImageFont

    drawn = {name: film_strip(frames, columns=len(frames)) for name, frames in strips.items()}
    left, width = 100, max(strip.shape[1] for strip in drawn.values())
    rows = []
    for name, strip in drawn.items():
        row = Image.new("RGB", (left + width, strip.shape[0] + 6), "white")
        text = ImageFont.load_default(15)
        ImageDraw.Draw(row).text((8, strip.shape[0] // 2), name, fill="black", font=text, anchor="lm")
        row.paste(Image.fromarray(strip), (left, 3))
        rows.append(np.asarray(row))
    return np.concatenate(rows)
