"""Slot Attention on convolutional features, in the frame of the picture or in that of each slot (invariant)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from howm.config import require_least, validate
from howm.models.cells import unit
from howm.models.extractors.base import Extractor
from howm.models.extractors.cells import normalised
from howm.models.product_cpu import Linear
from howm.worlds.spec import WorldSpec

_STRIDE = 4  # pixels between features, and the side of the patches that the decoder paints


@dataclass(frozen=True)
class ConvAttentionConfig:
    """With ``frame=slot`` each slot has a place, and sees and paints everything relative to it (Biza et al., 2023)."""

    slot: int = 32
    features: int = 64
    hidden: int = 128
    iterations: int = 7
    implicit: bool = True  # gradient through the last iteration alone (Chang et al., 2022)
    frame: Literal["picture", "slot"] = "picture"

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "features", "hidden", "iterations")
        require_least(self, 3, "slot")  # fewer entries cannot be normalised


class ConvAttention(Extractor):
    """K+1 slots compete for features of the whole picture; a broadcast decoder paints each with masks of its own.

    Any slot may hold the background. With ``frame=slot`` the last two entries of a slot are its place.
    """

    Config: ClassVar[type[Any]] = ConvAttentionConfig
    noise: Tensor
    grid: Tensor

    def __init__(self, spec: WorldSpec, config: ConvAttentionConfig) -> None:
        super().__init__()
        self.spec, self.config = spec, config
        self.places = tuple(-(-side // _STRIDE) for side in (spec.height, spec.width))
        relative = config.frame == "slot"
        self.num_slots, self.slot_size = spec.k + 1, config.slot + 2 * relative
        size, features, hidden = config.slot, config.features, config.hidden
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 32, 5, 2, padding=2), nn.ReLU(), nn.Conv2d(32, 48, 5, 2, padding=2), nn.ReLU(),
            nn.Conv2d(48, features, 3, padding=1), nn.ReLU(), nn.Conv2d(features, features, 3, padding=1),
        )  # fmt: skip
        self.where = Linear(2, features)
        self.mix = nn.Sequential(
            nn.LayerNorm(features), Linear(features, features), nn.ReLU(), Linear(features, 2 * size)
        )
        self.norm, self.queries, self.update = nn.LayerNorm(size), Linear(size, size), nn.GRUCell(size, size)
        self.mlp = nn.Sequential(nn.LayerNorm(size), Linear(size, hidden), nn.ReLU(), Linear(hidden, size))
        self.mean = nn.Parameter(torch.zeros(size))
        self.log_spread = nn.Parameter(torch.zeros(size))
        self.where_to_paint = Linear(2, size)
        self.decoder = nn.Sequential(
            Linear(size, hidden), nn.ReLU(), Linear(hidden, hidden), nn.ReLU(),
            Linear(hidden, 4 * _STRIDE**2),
        )  # fmt: skip
        self.register_buffer("noise", torch.randn(self.num_slots, size + 2))
        rows, columns = (torch.linspace(-1, 1, count) for count in self.places)
        self.register_buffer("grid", torch.cartesian_prod(rows, columns), persistent=False)

    def forward(self, pictures: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        slots = self.slots(pictures)
        masks = self.masks(slots)
        loss = (self.draw(slots) - unit(pictures)).square().mean()
        return loss, {"reconstruction": loss.detach(), "sharpness": masks.detach().amax(dim=1).mean()}

    def slots(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        size = (len(pictures), *self.noise.shape)
        noise = torch.randn(size, device=pictures.device) if self.training else self.noise.expand(size)
        slots = begin = self.mean + self.log_spread.exp() * noise[..., :-2]
        place = 0.5 * torch.tanh(noise[..., -2:])
        features = self.trunk(unit(pictures).permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.implicit):
            for _ in range(self.config.iterations - 1):
                slots, place = self._iterate(features, slots, place)
        if self.config.implicit:
            slots = slots.detach() + begin - begin.detach()
        slots, place = self._iterate(features, slots, place)
        slots = normalised(slots)
        return torch.cat([slots, place], dim=2) if self.config.frame == "slot" else slots

    def _offsets(self, place: Float[Tensor, "B S 2"]) -> Float[Tensor, "B slots places 2"]:
        """Of all places of the grid: from each slot's own, or, for all slots alike, from the picture's centre."""
        if self.config.frame == "picture":
            return self.grid.expand(len(place), 1, -1, -1)
        return 4 * (self.grid - place.unsqueeze(2))  # an object is about a quarter of the picture

    def _iterate(self, features: Tensor, slots: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        located = self.mix(features.unsqueeze(1) + self.where(self._offsets(place)))
        keys, values = located.chunk(2, dim=3)  # B, S or 1, places, size
        logits = (self.queries(self.norm(slots)).unsqueeze(2) * keys).sum(dim=3) / math.sqrt(slots.shape[2])
        attention = torch.softmax(logits, dim=1) + 1e-8
        weights = attention / attention.sum(dim=2, keepdim=True)
        read = (weights.unsqueeze(3) * values).sum(dim=2)
        updated: Tensor = self.update(read.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return updated + self.mlp(updated), weights @ self.grid

    def _painted(self, slots: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S 3 H W"], Float[Tensor, "B S H W"]]:
        """Colours and masks of each slot."""
        code, place = slots[..., : self.config.slot], slots[..., -2:]
        painted = self.decoder(code.unsqueeze(2) + self.where_to_paint(self._offsets(place)))
        batch, count = slots.shape[:2]
        tiles = painted.view(batch, count, *self.places, 4, _STRIDE, _STRIDE).permute(0, 1, 4, 2, 5, 3, 6)
        whole = tiles.reshape(batch, count, 4, self.places[0] * _STRIDE, self.places[1] * _STRIDE)
        whole = whole[..., : self.spec.height, : self.spec.width]
        return torch.sigmoid(whole[:, :, :3]), torch.softmax(whole[:, :, 3], dim=1)

    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S H W"]:
        return self._painted(slots)[1]

    def draw(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B H W 3"]:
        colours, masks = self._painted(slots)
        return (colours * masks.unsqueeze(2)).sum(dim=1).permute(0, 2, 3, 1)
