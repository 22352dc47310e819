"""Pictures as rows of cells."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from howm.models.product_cpu import Linear
from howm.worlds.spec import WorldSpec


class CellFeatures(nn.Module):
    """A linear map of each cell's pixels: a convolution whose stride is its kernel, the size of a cell.

    A black cell has the features of the bias alone; on the CPU only the others, the few that hold objects, are
    multiplied. (Elsewhere finding them would cost more than it saves.)
    """

    def __init__(self, spec: WorldSpec, features: int) -> None:
        super().__init__()
        self.cell_pixels = spec.grid_pixels
        self.linear = Linear(3 * spec.grid_pixels**2, features)

    def forward(self, obs: Tensor) -> Float[Tensor, "B cells features"]:
        lit, features = self.rows(obs)
        if len(features) == lit.numel():
            return features.view(*lit.shape, -1)
        everywhere = self.linear.bias.to(features.dtype).expand(*lit.shape, -1)
        return everywhere.index_put((lit,), features)

    def rows(self, obs: Tensor) -> tuple[Bool[Tensor, "B cells"], Float[Tensor, "rows features"]]:
        """Which cells are not black, and the features of those alone. (Elsewhere than on the CPU, all count.)"""
        cells = split_cells(obs, self.cell_pixels)
        lit = torch.ones(cells.shape[:2], dtype=torch.bool, device=obs.device)
        if obs.device.type == "cpu" and not torch.compiler.is_compiling():
            lit = cells.amax(dim=2) > 0
            cells = cells[lit]
        features: Tensor = self.linear(unit(cells))
        return lit, features.view(-1, features.shape[-1])


def unit(pixels: Tensor) -> Tensor:
    """Bytes or numbers in 0-1 to numbers in 0-1."""
    return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels


@dataclass(frozen=True)
class DistinctCells:
    """The cells of some pictures that are not black, each that stands in the same place in several pictures once."""

    pixels: Tensor  # (rows, pixels)
    place: Int[Tensor, " rows"]
    number: Int[Tensor, "B cells"]  # of the row that shows each cell, -1 of black ones


def distinct_cells(obs: Tensor, cell_pixels: int) -> DistinctCells | None:
    """None where to look for equal cells may not pay: elsewhere than on the CPU, or of pictures that are not bytes."""
    if obs.device.type != "cpu" or obs.dtype != torch.uint8 or not len(obs) or torch.compiler.is_compiling():
        return None
    batch, height, width, _ = obs.shape
    columns, line = width // cell_pixels, 3 * cell_pixels
    cells = columns * (height // cell_pixels)
    lines = obs.contiguous().numpy().reshape(-1, cell_pixels, columns * line)
    word = next(size for size in (8, 4, 2, 1) if line % size == 0)
    covered = np.bitwise_or.reduce(lines.view(f"u{word}"), axis=1).reshape(batch * cells, -1)
    lit = np.flatnonzero(covered.any(axis=1))
    # A line of pixels of a cell is one item: its index is (row * cell_pixels + y) * columns + column.
    row, column = np.divmod(lit, columns)
    first = row * (cell_pixels * columns) + column
    items = lines.reshape(-1).view(f"V{line}")
    found = items[first[:, None] + columns * np.arange(cell_pixels)].view(np.uint8)
    found = found.reshape(len(lit), cell_pixels * line)
    place = lit % cells
    chosen, number = _distinct_rows(found, place)
    numbers = np.full(batch * cells, -1)
    numbers[lit] = number
    return DistinctCells(
        torch.from_numpy(found[chosen]), torch.from_numpy(place[chosen]), torch.from_numpy(numbers).view(batch, cells)
    )


def _distinct_rows(rows: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows to keep of those that are equal and have the same place, and which of the kept ones each is."""
    size = next(size for size in (4, 2, 1) if rows.shape[1] % size == 0)
    words = rows.view(f"u{size}")
    factors = np.random.default_rng(0).integers(1, 1 << 62, words.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    keys = words.astype(np.uint64) @ factors[:-1] + place.astype(np.uint64) * factors[-1]
    _, chosen, number = np.unique(keys, return_index=True, return_inverse=True)
    same = chosen[number]
    if np.array_equal(place[same], place) and np.array_equal(words[same], words):
        return chosen, number
    return np.arange(len(rows)), np.arange(len(rows))  # two that are not equal have one key


def split_cells(obs: Tensor, cell_pixels: int) -> Tensor:
    """Pictures (B, height, width, 3) cut into their cells, in reading order: (B, cells, pixels)."""
    batch, height, width, channels = obs.shape
    rows, columns = height // cell_pixels, width // cell_pixels
    blocks = obs.view(batch, rows, cell_pixels, columns, cell_pixels, channels).transpose(2, 3)
    return blocks.reshape(batch, rows * columns, -1)


def erase_cells(obs: Tensor, cell_pixels: int, share: float) -> Tensor:
    """Pictures (B, height, width, 3) with some of their cells, drawn at random, made black."""
    rows, columns = obs.shape[1] // cell_pixels, obs.shape[2] // cell_pixels
    kept = (torch.rand(len(obs), rows, columns, device=obs.device) >= share).to(obs.dtype)
    return obs * kept.repeat_interleave(cell_pixels, 1).repeat_interleave(cell_pixels, 2).unsqueeze(3)


def join_cells(cells: Tensor, height: int, width: int, cell_pixels: int) -> Tensor:
    """The inverse of `split_cells`."""
    rows, columns = height // cell_pixels, width // cell_pixels
    blocks = cells.view(len(cells), rows, columns, cell_pixels, cell_pixels, -1).transpose(2, 3)
    return blocks.reshape(len(cells), height, width, -1)


def cell_masks_to_pixels(masks: Float[Tensor, "B S cells"], spec: WorldSpec) -> Float[Tensor, "B S H W"]:
    """Masks with one number for each cell, which all its pixels have."""
    pixels = spec.grid_pixels
    grid = masks.view(*masks.shape[:2], spec.height // pixels, spec.width // pixels)
    return grid.repeat_interleave(pixels, 2).repeat_interleave(pixels, 3)
