"""Slots of which each paints the picture and says where its paint counts."""

from dataclasses import dataclass

import torch
from torch import nn

from howm import Extractor, WorldSpec


@dataclass(frozen=True)
class PaintersConfig:
    """What ``--set model.extractor.slot=8`` sets."""

    slot: int = 12


class Painters(Extractor):
    """K+1 slots, read off the picture and painted by linear maps."""

    Config = PaintersConfig

    def __init__(self, spec: WorldSpec, config: PaintersConfig) -> None:
        super().__init__()
        self.spec, self.slot_size, self.num_slots = spec, config.slot, spec.k + 1
        pixels = spec.height * spec.width
        self.reader = nn.Linear(3 * pixels, self.num_slots * config.slot)
        self.painter = nn.Linear(config.slot, 4 * pixels)

    def forward(self, pictures):
        error = (self.draw(self.slots(pictures)) - self._unit(pictures)).square().mean()
        return error, {"reconstruction": error.detach()}

    def slots(self, pictures):
        return self.reader(self._unit(pictures).flatten(1)).unflatten(1, (self.num_slots, self.slot_size))

    def masks(self, slots):
        return self._painted(slots)[..., 3].softmax(dim=1)

    def draw(self, slots):
        return (self._painted(slots)[..., :3].sigmoid() * self.masks(slots).unsqueeze(-1)).sum(dim=1)

    def _painted(self, slots):
        return self.painter(slots).unflatten(2, (self.spec.height, self.spec.width, 4))

    def _unit(self, pictures):
        return pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures
