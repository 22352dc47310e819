"""The iterations of Slot Attention, plain and balanced."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from howm.models.extractors.cells import ExtractorConfig
from howm.models.product_cpu import Linear


class SlotAttentionIterations(nn.Module):
    """The iterations of Slot Attention: slots compete for cells, a GRU and an MLP update them."""

    def __init__(self, config: ExtractorConfig) -> None:
        super().__init__()
        size = config.slot
        self.iterations, self.implicit = config.iterations, config.implicit
        self.norm_inputs, self.norm_slots = nn.LayerNorm(config.features), nn.LayerNorm(size)
        self.keys = Linear(config.features, size, bias=False)
        with torch.no_grad():
            self.keys.weight.mul_(config.key_gain)
        self.values = Linear(config.features, size, bias=False)
        self.queries = Linear(size, size, bias=False)
        self.update = nn.GRUCell(size, size)
        self.mlp = nn.Sequential(
            nn.LayerNorm(size), Linear(size, config.hidden), nn.ReLU(), Linear(config.hidden, size)
        )

    def forward(
        self, inputs: Float[Tensor, "B cells features"], slots: Float[Tensor, "B S D"], mass: Tensor | None = None
    ) -> Float[Tensor, "B S D"]:
        """With ``mass`` the attention is balanced: slot s receives the mass of mass[s] cells.

        With ``implicit`` the iterations are a search for a fixed point: only the last is differentiated, which is the
        first term of the implicit derivative at the fixed point (Chang et al., 2022). Where the slots begin then gets
        the gradient of where the last iteration began.
        """
        inputs = self.norm_inputs(inputs)
        keys, values = self.keys(inputs), self.values(inputs)
        begin = slots
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.implicit):
            for _ in range(self.iterations - 1):
                slots = self._iterate(keys, values, slots, mass)
        if self.implicit:
            slots = slots.detach() + begin - begin.detach()
        return self._iterate(keys, values, slots, mass)

    def _iterate(self, keys: Tensor, values: Tensor, slots: Tensor, mass: Tensor | None) -> Tensor:
        attention = self._attention(keys, slots, mass)
        weights = attention / attention.sum(dim=2, keepdim=True)
        updated: Tensor = self.update((weights @ values).flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        changed: Tensor = self.mlp(updated)
        return updated + changed

    def attend(self, inputs: Float[Tensor, "B cells features"], slots: Float[Tensor, "B S D"]) -> Tensor:
        """How the cells are shared among given slots, (B, S, cells)."""
        return self._attention(self.keys(self.norm_inputs(inputs)), slots, None)

    def _attention(self, keys: Tensor, slots: Tensor, mass: Tensor | None) -> Tensor:
        logits = self.queries(self.norm_slots(slots)) @ keys.transpose(1, 2) / math.sqrt(slots.shape[-1])
        return torch.softmax(logits, dim=1) + 1e-8 if mass is None else sinkhorn(logits, mass)


def sinkhorn(logits: Float[Tensor, "B S cells"], mass: Float[Tensor, " S"], rounds: int = 5) -> Tensor:
    """exp(logits) scaled so that each cell gives away one unit and slot s receives mass[s] of them.

    The last scaling is of the cells, so what cells give is exact and what slots receive nearly so.
    """
    target = mass.log().unsqueeze(-1)
    for _ in range(rounds):
        logits = logits - logits.logsumexp(dim=2, keepdim=True) + target
        logits = logits.log_softmax(dim=1)
    return logits.exp()
