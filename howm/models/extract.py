"""Pictures to object masks and to embeddings: the mask CNN and encoders of C-SWM and C-WM."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from howm.models.mlp import MLP
from howm.models.worldmodel import WorldSpec


class CellFeatures(nn.Module):
    """A linear map of each cell's pixels: a convolution whose stride is its kernel, the size of a cell.

    A black cell has the features of the bias alone; on the CPU only the others, the few that hold objects, are
    multiplied. (Elsewhere finding them would cost more than it saves.)
    """

    def __init__(self, spec: WorldSpec, features: int) -> None:
        super().__init__()
        self.cell_pixels = spec.cell_pixels
        self.linear = nn.Linear(3 * spec.cell_pixels**2, features)

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


class MaskCNN(nn.Module):
    """One mask over the cells per slot (first table of "Model Architectures")."""

    def __init__(self, spec: WorldSpec, slots: int, features: int) -> None:
        super().__init__()
        self.features = CellFeatures(spec, features)
        self.norm = nn.BatchNorm1d(features)
        self.masks = nn.Linear(features, slots)

    def forward(self, obs: Tensor) -> Float[Tensor, "B S cells"]:
        features = self.features(obs)
        normed = self.norm(features.flatten(0, 1)).view_as(features)
        masks: Tensor = torch.sigmoid(self.masks(torch.relu(normed)))
        return masks.transpose(1, 2)


class SharedEncoder(nn.Module):
    """Every mask to its embedding, by one network for all slots."""

    def __init__(self, spec: WorldSpec, hidden: int, embedding: int) -> None:
        super().__init__()
        self.mlp = MLP(spec.cells, hidden, embedding)

    def forward(self, masks: Float[Tensor, "B S cells"]) -> Float[Tensor, "B S D"]:
        embeddings: Tensor = self.mlp(masks)
        return embeddings


class FlatEncoder(nn.Module):
    """All masks to all embeddings at once: no slot is treated as another."""

    def __init__(self, spec: WorldSpec, slots: int, hidden: int, embedding: int) -> None:
        super().__init__()
        self.mlp = MLP(slots * spec.cells, hidden, slots * embedding)

    def forward(self, masks: Float[Tensor, "B S cells"]) -> Float[Tensor, "B S D"]:
        flat: Tensor = self.mlp(masks.flatten(1))
        return flat.view(len(flat), masks.shape[1], -1)
