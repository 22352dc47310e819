"""Every cell proposes a slot."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.errors import HowmError
from howm.models.cells import distinct_cells, split_cells, unit
from howm.models.extractors.cells import ExtractorConfig, normalised
from howm.models.extractors.sprites import SpriteExtractor
from howm.models.product_cpu import Linear
from howm.worlds.spec import WorldSpec


class Proposals(SpriteExtractor):
    """Every cell proposes a slot with a presence; presences sum to K, and the K largest become the slots.

    Presence multiplies what a proposal draws and is conserved, so reconstruction alone drives it onto the objects.
    The picture is drawn twice: by all proposals, weighted by presence, which finds the objects, and by the K chosen
    ones at full presence, which is how slots are used later (alone it would not learn at all).
    """

    any_scene_size: bool = True
    background: Tensor

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        if spec.k > spec.cells:
            raise HowmError(f"k must be at most the {spec.cells} cells, got {spec.k}; use slot_attention")
        self.propose = nn.Sequential(
            nn.LayerNorm(config.features),
            Linear(config.features, config.hidden),
            nn.ReLU(),
            Linear(config.hidden, config.slot + 1),
        )
        self.register_buffer("background", torch.zeros(config.slot))

    def proposals(
        self, pictures: Tensor
    ) -> tuple[Float[Tensor, "rows D"], Float[Tensor, " rows"], Int[Tensor, "B cells"]]:
        """Different slots and logits, and which of them each cell proposes.

        Black cells are alike but for their place: all pictures share what those propose.
        """
        lit, features = self.features.rows(pictures)
        rows = torch.relu(features) + self.position.expand(*lit.shape, -1)[lit]
        number = lit.flatten().cumsum(0).view_as(lit) - 1
        return self._propose(rows, torch.where(lit, number, -1))

    def _distinct(
        self, pictures: Tensor
    ) -> tuple[Float[Tensor, "rows D"], Float[Tensor, " rows"], Int[Tensor, "B cells"]]:
        """As `proposals`, with equal cells in equal places shared, too: many pictures of a few objects have few."""
        found = distinct_cells(pictures, self.spec.grid_pixels)
        if found is None:
            return self.proposals(pictures)
        features = self.features.linear(unit(found.pixels))
        return self._propose(torch.relu(features) + self.position[found.place], found.number)

    def _propose(
        self, rows: Float[Tensor, "lit features"], number: Int[Tensor, "B cells"]
    ) -> tuple[Float[Tensor, "rows D"], Float[Tensor, " rows"], Int[Tensor, "B cells"]]:
        """Of located features, of which ``number`` says where they stand; where it is -1, cells are black."""
        black = torch.relu(self.features.linear.bias) + self.position
        proposed = self.propose(torch.cat([rows, black]))
        index = torch.where(number >= 0, number, len(rows) + torch.arange(number.shape[1], device=number.device))
        return normalised(proposed[:, :-1]), proposed[:, -1], index

    def slots(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        slots, index = self.slot_rows(pictures)
        return slots[index]

    def slot_rows(self, pictures: Tensor) -> tuple[Float[Tensor, "rows D"], Int[Tensor, "B S"]]:
        slots, logits, index = self.proposals(pictures) if torch.is_grad_enabled() else self._distinct(pictures)
        chosen = index.gather(1, logits[index].topk(self.k, dim=1).indices)
        background = torch.full_like(chosen[:, :1], len(slots))
        return torch.cat([slots, self.background.unsqueeze(0)]), torch.cat([chosen, background], dim=1)

    def forward(self, pictures: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        slots, logits, index = self.proposals(pictures)
        presence = sigmoid_with_sum(logits[index], self.k)
        sprites, where = (rows[index] for rows in self.sprite_decoder(slots))
        best = presence.topk(self.k, dim=1)
        picture = unit(split_cells(pictures, self.spec.grid_pixels))
        soft = (self.sprite_decoder.compose(sprites, where * presence.unsqueeze(-1)) - picture).square().mean()
        drawn = self.sprite_decoder.compose(_take(sprites, best.indices), _take(where, best.indices))
        hard = (drawn - picture).square().mean()
        return soft + hard, {"reconstruction": hard.detach(), "sharpness": best.values.mean().detach()}


def sigmoid_with_sum(logits: Float[Tensor, "B cells"], total: int | Float[Tensor, "B 1"]) -> Float[Tensor, "B cells"]:
    """sigmoid(logits - τ) with τ such that each row sums to ``total``, or to its own."""
    with torch.no_grad():
        exact = logits.double()
        low, high = exact.amin(dim=1, keepdim=True) - 40, exact.amax(dim=1, keepdim=True) + 40
        for _ in range(60):
            middle = (low + high) / 2
            over = torch.sigmoid(exact - middle).sum(dim=1, keepdim=True) > total
            low, high = torch.where(over, middle, low), torch.where(over, high, middle)
        shift = ((low + high) / 2).to(logits.dtype)
        presence = torch.sigmoid(logits - shift)
        slope = (presence * (1 - presence)).sum(dim=1, keepdim=True).clamp_min(1e-6)
    # One Newton step: its value is nearly zero, its gradient that of τ as an implicit function of the logits.
    shift = shift + (torch.sigmoid(logits - shift).sum(dim=1, keepdim=True) - total) / slope
    return torch.sigmoid(logits - shift)


def _take(rows: Float[Tensor, "B cells D"], index: Tensor) -> Float[Tensor, "B K D"]:
    return rows.gather(1, index.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
