"""The paper's Slot Attention."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from howm.models.extractors.cells import CellExtractor, ExtractorConfig, normalised
from howm.models.extractors.iterations import SlotAttentionIterations
from howm.models.extractors.sprites import SpriteDecoder
from howm.models.product_cpu import Linear
from howm.worlds.spec import WorldSpec


class SlotAttention(CellExtractor):
    """The paper's: Gaussian slots with learned mean and spread, softmax over slots; each cell knows where it lies.

    The decoder broadcasts each slot to all cells, where it paints with an alpha of its own for every pixel, or draws
    one sprite for each slot: then no slot can hold a region in the place of an object.

    The noise of the slots is drawn anew for every picture in training. Otherwise it is fixed, or the same picture
    would not have the same slots. Any of the K+1 slots may hold an object.
    """

    has_background: bool = False
    noise: Tensor
    borders: Tensor

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        self.attention = SlotAttentionIterations(config)
        self.mean = nn.Parameter(torch.zeros(config.slot))
        self.log_spread = nn.Parameter(torch.full((config.slot,), math.log(config.spread)))
        nn.init.xavier_uniform_(self.mean.data.unsqueeze(0))
        self.register_buffer("noise", torch.randn(spec.k + 1, config.slot))
        self.register_buffer("borders", _borders(spec))
        self.position = Linear(4, config.features)
        self.mix = nn.Sequential(
            nn.LayerNorm(config.features),
            Linear(config.features, config.features),
            nn.ReLU(),
            Linear(config.features, config.features),
        )
        self.sprite_decoder: SpriteDecoder | None = None
        if config.decoder == "sprites":
            self.sprite_decoder = SpriteDecoder(spec, config)
            return
        self.place = nn.Parameter(torch.randn(spec.cells, config.slot))
        self.decoder = nn.Sequential(
            Linear(config.slot, config.hidden),
            nn.ReLU(),
            Linear(config.hidden, config.hidden),
            nn.ReLU(),
            Linear(config.hidden, 4 * spec.grid_pixels**2),
        )

    def slots(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        size = (len(pictures), *self.noise.shape)
        noise = torch.randn(size, device=pictures.device) if self.training else self.noise.expand(size)
        begin = self.mean + self.log_spread.exp() * noise
        located = self.mix(torch.relu(self.features(pictures)) + self.position(self.borders))
        return normalised(self.attention(located, begin))

    def decode(
        self, slots: Float[Tensor, "B S D"]
    ) -> tuple[Float[Tensor, "B S cells pixels 3"], Float[Tensor, "B S cells pixels"]]:
        """Colours and masks: each slot is broadcast to all cells, told where it is, and paints them."""
        painted = self.decoder(slots.unsqueeze(2) + self.place).unflatten(-1, (-1, 4))
        return painted[..., :3], torch.softmax(painted[..., 3], dim=1)

    def cell_masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S cells pixels"]:
        if self.sprite_decoder is None:
            return self.decode(slots)[1]
        _, where = self.sprite_decoder(slots)
        masks: Tensor = (where + 1e-8) / (where + 1e-8).sum(dim=1, keepdim=True)
        return masks.unsqueeze(-1).expand(-1, -1, -1, self.spec.grid_pixels**2)

    def draw_cells(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B cells values"]:
        if self.sprite_decoder is not None:
            sprites, where = self.sprite_decoder(slots)
            return self.sprite_decoder.compose(sprites, where)
        colours, masks = self.decode(slots)
        return (masks.unsqueeze(-1) * colours).sum(dim=1).flatten(2)

    def sharpness(self, slots: Float[Tensor, "B S D"]) -> Tensor:
        """How much of a pixel its first owner has, on average."""
        with torch.no_grad():
            return self.cell_masks(slots).amax(dim=1).mean()


def _borders(spec: WorldSpec) -> Float[Tensor, "cells 4"]:
    """How far each cell is from the four borders, as a share of the picture."""
    rows, columns = spec.height // spec.grid_pixels, spec.width // spec.grid_pixels
    down, right = torch.meshgrid(torch.linspace(0, 1, rows), torch.linspace(0, 1, columns), indexing="ij")
    return torch.stack([down, right, 1 - down, 1 - right], dim=-1).flatten(0, 1)
