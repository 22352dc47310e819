"""Extractors that read a picture as a row of cells, and give K+1 slots.

Slots are normalised (mean 0, variance 1 over their entries), so that whatever is built on them need not know which
extractor made them.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm

from howm.config import require_least, require_positive, require_share, validate
from howm.models.cells import CellFeatures, erase_cells, join_cells, split_cells, unit
from howm.models.extractors.base import Extractor
from howm.models.extractors.registry import require_kind
from howm.worlds.spec import WorldSpec


@dataclass(frozen=True)
class ExtractorConfig:
    """``decoder`` and ``spread`` are of Slot Attention alone: the others draw sprites and have no Gaussian slots.

    ``iterations``, ``implicit``, ``key_gain`` and ``erase`` are of the two kinds of attention. Where all scenes have
    the same objects, a slot can hold two of them as if they were one; with ``erase`` each is seen without the other.
    """

    kind: str = "slot_attention"
    decoder: Literal["broadcast", "sprites"] = "broadcast"
    slot: int = 16
    features: int = 64
    hidden: int = 128
    iterations: int = 3
    implicit: bool = False  # gradient through the last iteration alone
    key_gain: float = 1.0  # of the keys' first weights: how sharp the attention begins
    spread: float = 1.0  # of Slot Attention's Gaussian slots, at first
    erase: float = 0.0  # the share of cells that are made black in training

    def __post_init__(self) -> None:
        validate(self)
        require_kind(self.kind)
        require_least(self, 1, "features", "hidden", "iterations")
        require_positive(self, "key_gain", "spread")
        require_share(self, "erase")
        require_least(self, 3, "slot")  # fewer entries cannot be normalised


class CellExtractor(Extractor):
    """K+1 slots; where ``has_background``, objects are in the first K."""

    Config: ClassVar[type[Any]] = ExtractorConfig
    has_background: bool = True

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__()
        self.k, self.spec, self.assumed_cell = spec.k, spec, spec.grid_pixels
        self.slot_size, self.num_slots = config.slot, spec.k + 1
        self.features = CellFeatures(spec, config.features)
        self.erase = config.erase

    @abstractmethod
    def cell_masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S cells pixels"]:
        """How much of each pixel belongs to each slot; over the slots that sums to one."""

    @abstractmethod
    def draw_cells(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B cells values"]:
        """The cells of the picture that the slots stand for."""

    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S H W"]:
        masks = self.cell_masks(slots)
        joined = join_cells(masks.flatten(0, 1), self.spec.height, self.spec.width, self.spec.grid_pixels)
        return joined.view(*masks.shape[:2], self.spec.height, self.spec.width)

    def draw(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B H W 3"]:
        return join_cells(self.draw_cells(slots).clamp(0, 1), self.spec.height, self.spec.width, self.spec.grid_pixels)

    def forward(self, pictures: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.training and self.erase:
            pictures = erase_cells(pictures, self.spec.grid_pixels, self.erase)
        slots = self.slots(pictures)
        error = (self.draw_cells(slots) - unit(split_cells(pictures, self.spec.grid_pixels))).square().mean()
        logs = {"reconstruction": error.detach()}
        return error, logs if self.training else logs | {"sharpness": self.sharpness(slots)}

    def sharpness(self, slots: Float[Tensor, "B S D"]) -> Tensor:
        """How much of its best cell each object slot owns, on average: 1 where every slot owns a cell."""
        with torch.no_grad():
            return self.cell_masks(slots)[:, :-1].mean(dim=-1).amax(dim=-1).mean()


def normalised(slots: Tensor) -> Tensor:
    return layer_norm(slots, slots.shape[-1:])
