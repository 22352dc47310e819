"""Slot Attention with balanced masses."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from howm.errors import HowmError
from howm.models.extractors.cells import ExtractorConfig, normalised
from howm.models.extractors.iterations import SlotAttentionIterations
from howm.models.extractors.sprites import SpriteExtractor
from howm.worlds.spec import WorldSpec


class BalancedAttention(SpriteExtractor):
    """Slot Attention with learned queries and balanced masses: one cell to each object slot, the rest to the last."""

    mass: Tensor

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        if spec.k >= spec.cells:
            raise HowmError(
                f"k must be below the {spec.cells} cells, to leave one to the background, got {spec.k}; use proposals"
            )
        self.attention = SlotAttentionIterations(config)
        self.queries = nn.Parameter(torch.randn(spec.k + 1, config.slot))
        self.register_buffer("mass", torch.tensor([1.0] * spec.k + [float(spec.cells - spec.k)]))

    def slots(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        begin = self.queries.expand(len(pictures), -1, -1)
        return normalised(self.attention(self.located(pictures), begin, self.mass))
