"""Slots decoded into what, one sprite, and where, a place on the grid."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from howm.models.extractors.cells import CellExtractor, ExtractorConfig
from howm.models.product_cpu import Linear, fast_linear
from howm.worlds.spec import WorldSpec


class SpriteDecoder(nn.Module):
    """A slot decoded into *what*, one sprite, and *where*, a distribution over the cells.

    So no slot can draw two different objects. What no slot covers shows the background.
    """

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__()
        values = 3 * spec.grid_pixels**2
        self.what = nn.Sequential(Linear(config.slot, config.hidden), nn.ReLU(), Linear(config.hidden, values))
        self.where = nn.Sequential(Linear(config.slot, config.hidden), nn.ReLU(), Linear(config.hidden, spec.cells))
        self.background = nn.Parameter(torch.zeros(spec.cells, values))

    def forward(self, slots: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b values"], Float[Tensor, "*b cells"]]:
        return self.what(slots), torch.softmax(self.where(slots), dim=-1)

    def compose(
        self, sprites: Float[Tensor, "B K values"], where: Float[Tensor, "B K cells"]
    ) -> Float[Tensor, "B cells values"]:
        return where.transpose(1, 2) @ sprites + (1 - where.sum(dim=1)).unsqueeze(-1) * self.background


class SpriteExtractor(CellExtractor):
    """Extractors that decode what and where."""

    knows_places: bool = True
    knows_looks: bool = True

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        self.position = nn.Parameter(torch.randn(spec.cells, config.features))
        self.sprite_decoder = SpriteDecoder(spec, config)

    def located(self, pictures: Tensor) -> Float[Tensor, "B cells features"]:
        """What is in each cell, and where that cell is."""
        return torch.relu(self.features(pictures)) + self.position

    def drawn_at(self, slots: Float[Tensor, "*b D"]) -> Float[Tensor, "*b 2"]:
        columns = self.spec.width // self.spec.grid_pixels
        cells = torch.arange(self.spec.cells, device=slots.device)
        at = torch.stack([cells // columns, cells % columns], dim=1).to(slots.dtype)
        where = torch.softmax(self.sprite_decoder.where(slots), dim=-1)
        return where @ (at - at.mean(dim=0))

    def look(self, slots: Float[Tensor, "*b D"], basis: Float[Tensor, "L size"] | None = None) -> Float[Tensor, "*b F"]:
        first, activation, last = self.sprite_decoder.what
        assert isinstance(last, Linear)
        hidden = activation(first(slots))
        if basis is None:
            return fast_linear(hidden, last.weight, last.bias)
        return fast_linear(hidden, basis.t() @ last.weight, basis.t() @ last.bias)  # sprites are never made

    def draw_cells(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B cells values"]:
        return self.sprite_decoder.compose(*self.sprite_decoder(slots[:, :-1]))

    def cell_masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S cells pixels"]:
        _, where = self.sprite_decoder(slots[:, :-1])
        where = where / where.sum(dim=1, keepdim=True).clamp_min(1)
        masks = torch.cat([where, 1 - where.sum(dim=1, keepdim=True)], dim=1)
        return masks.unsqueeze(-1).expand(-1, -1, -1, self.spec.grid_pixels**2)
