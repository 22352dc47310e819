"""Slots that say what and where: which of their numbers are a code, a position, a depth and a presence."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

PIXELS_PER_UNIT = 2.5  # of positions in slots: beside normalised codes, steps of a few pixels are then large


@dataclass(frozen=True)
class SlotLayout:
    """Where a slot keeps what: a normalised code, row and column in units of 2.5 pixels from the picture's
    centre, the depth, and whether there is an object at all (1 or 0; then all else is 0, too)."""

    code: int

    @property
    def size(self) -> int:
        return self.code + 4

    @property
    def position(self) -> slice:
        return slice(self.code, self.code + 2)

    @property
    def same_code(self) -> float:
        """Codes that are nearer than this are of the same object; those of different ones are √2 as far, by chance."""
        return float(self.code**0.5)

    def join(
        self, code: Float[Tensor, "B S code"], position: Float[Tensor, "B S 2"], depth: Float[Tensor, "B S"],
        presence: Float[Tensor, "B S"],
    ) -> Float[Tensor, "B S D"]:  # fmt: skip
        slots = torch.cat([code, position, depth.unsqueeze(2), torch.ones_like(depth).unsqueeze(2)], dim=2)
        return slots * presence.unsqueeze(2)

    def split(self, slots: Float[Tensor, "B S D"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Codes, positions, depths and presences."""
        return slots[..., : self.code], slots[..., self.position], slots[..., -2], slots[..., -1]
