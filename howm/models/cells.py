"""Pictures as rows of cells."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from howm.worlds.spec import WorldSpec


class CellFeatures(nn.Module):
    """A linear map of each cell's pixels: a convolution whose stride is its kernel, the size of a cell.

    A black cell has the features of the bias alone; on the CPU only the others, the few that hold objects, are
    multiplied. (Elsewhere finding them would cost more than it saves.)
    """

    def __init__(self, spec: WorldSpec, features: int) -> None:
        super().__init__()
        self.cell_pixels = spec.grid_pixels
        self.linear = nn.Linear(3 * spec.grid_pixels**2, features)

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


def split_cells(obs: Tensor, cell_pixels: int) -> Tensor:
    """Pictures (B, height, width, 3) cut into their cells, in reading order: (B, cells, pixels)."""
    batch, height, width, channels = obs.shape
    rows, columns = height // cell_pixels, width // cell_pixels
    blocks = obs.view(batch, rows, cell_pixels, columns, cell_pixels, channels).transpose(2, 3)
    return blocks.reshape(batch, rows * columns, -1)


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
