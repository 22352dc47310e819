"""Object masks over cells and their embeddings: the mask CNN and encoders of C-SWM and C-WM."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from howm.models.cells import CellFeatures
from howm.models.mlp import MLP
from howm.worlds.spec import WorldSpec


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
