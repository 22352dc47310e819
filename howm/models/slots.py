"""Pictures to K+1 slots, trained by pixel reconstruction alone: three extractors behind one interface.

Slots are normalised (mean 0, variance 1 over their entries), so that whatever is
built on them need not know which extractor made them. On all of these a picture is a row of cells, as in `extract`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from howm.errors import HowmError
from howm.models.extract import CellFeatures, join_cells, split_cells, unit
from howm.models.worldmodel import WorldSpec

Kind = Literal["slot_attention", "balanced", "proposals"]


@dataclass(frozen=True)
class ExtractorConfig:
    """``iterations`` is of the two kinds of attention alone, ``decoder`` of Slot Attention: the others draw sprites."""

    kind: Kind = "slot_attention"
    decoder: Literal["broadcast", "sprites"] = "broadcast"
    slot: int = 16
    features: int = 64
    hidden: int = 128
    iterations: int = 3

    def __post_init__(self) -> None:
        for name in ("features", "hidden", "iterations"):
            if getattr(self, name) < 1:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give 1 or more")
        if self.slot < 3:
            raise HowmError(f"slot={self.slot} is too small for a normalised slot; give 3 or more")


class Extractor(nn.Module, ABC):
    """``forward`` gives the reconstruction loss; ``slots`` is what a world model builds on."""

    has_background = True  # whether the last slot is the background's, never an object's

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__()
        self.k, self.spec = spec.k, spec
        self.features = CellFeatures(spec, config.features)

    @abstractmethod
    def slots(self, obs: Tensor) -> Float[Tensor, "B S D"]:
        """K+1 slots in no order that means anything; where ``has_background``, objects are in the first K."""

    @abstractmethod
    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S cells pixels"]:
        """How much of each pixel belongs to each slot; over the slots that sums to one."""

    @abstractmethod
    def draw_cells(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B cells values"]:
        """The cells of the picture that the slots stand for."""

    def draw(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B H W 3"]:
        """The picture that the slots stand for, in 0-1."""
        return join_cells(self.draw_cells(slots).clamp(0, 1), self.spec.height, self.spec.width, self.spec.cell_pixels)

    def forward(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        slots = self.slots(obs)
        error = (self.draw_cells(slots) - unit(split_cells(obs, self.spec.cell_pixels))).square().mean()
        logs = {"reconstruction": error.detach()}
        return error, logs if self.training else logs | {"sharpness": self.sharpness(slots)}

    def sharpness(self, slots: Float[Tensor, "B S D"]) -> Tensor:
        """How much of its best cell each object slot owns, on average: 1 where every slot owns a cell."""
        with torch.no_grad():
            return self.masks(slots)[:, :-1].mean(dim=-1).amax(dim=-1).mean()


class WhatAndWhere(nn.Module):
    """A slot decoded into *what*, one sprite, and *where*, a distribution over the cells.

    So no slot can draw two different objects. What no slot covers shows the background.
    """

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__()
        values = 3 * spec.cell_pixels**2
        self.what = nn.Sequential(nn.Linear(config.slot, config.hidden), nn.ReLU(), nn.Linear(config.hidden, values))
        self.where = nn.Sequential(
            nn.Linear(config.slot, config.hidden), nn.ReLU(), nn.Linear(config.hidden, spec.cells)
        )
        self.background = nn.Parameter(torch.zeros(spec.cells, values))

    def forward(self, slots: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b values"], Float[Tensor, "*b cells"]]:
        return self.what(slots), torch.softmax(self.where(slots), dim=-1)

    def compose(
        self, sprites: Float[Tensor, "B K values"], where: Float[Tensor, "B K cells"]
    ) -> Float[Tensor, "B cells values"]:
        return where.transpose(1, 2) @ sprites + (1 - where.sum(dim=1)).unsqueeze(-1) * self.background


class _SpriteExtractor(Extractor):
    """Extractors that decode what and where."""

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        self.position = nn.Parameter(torch.randn(spec.cells, config.features))
        self.sprite_decoder = WhatAndWhere(spec, config)

    def located(self, obs: Tensor) -> Float[Tensor, "B cells features"]:
        """What is in each cell, and where that cell is."""
        return torch.relu(self.features(obs)) + self.position

    def draw_cells(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B cells values"]:
        return self.sprite_decoder.compose(*self.sprite_decoder(slots[:, :-1]))

    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S cells pixels"]:
        _, where = self.sprite_decoder(slots[:, :-1])
        where = where / where.sum(dim=1, keepdim=True).clamp_min(1)
        masks = torch.cat([where, 1 - where.sum(dim=1, keepdim=True)], dim=1)
        return masks.unsqueeze(-1).expand(-1, -1, -1, self.spec.cell_pixels**2)


class Proposals(_SpriteExtractor):
    """Every cell proposes a slot with a presence; presences sum to K, and the K largest become the slots.

    Presence multiplies what a proposal draws and is conserved, so reconstruction alone drives it onto the objects.
    The picture is drawn twice: by all proposals, weighted by presence, which finds the objects, and by the K chosen
    ones at full presence, which is how slots are used later (alone it would not learn at all).
    """

    nobody: Tensor

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        if spec.k > spec.cells:
            raise HowmError(f"k={spec.k} objects cannot lie in {spec.cells} cells; give more, or use slot_attention")
        self.propose = nn.Sequential(
            nn.LayerNorm(config.features),
            nn.Linear(config.features, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.slot + 1),
        )
        self.register_buffer("nobody", torch.zeros(config.slot))

    def proposals(self, obs: Tensor) -> tuple[Float[Tensor, "rows D"], Float[Tensor, "rows"], Int[Tensor, "B cells"]]:
        """Different slots and logits, and which of them each cell proposes.

        Black cells are alike but for their place: all pictures share what those propose.
        """
        lit, features = self.features.rows(obs)
        cells = lit.shape[1]
        rows = torch.relu(features) + self.position.expand(*lit.shape, -1)[lit]
        black = torch.relu(self.features.linear.bias) + self.position
        proposed = self.propose(torch.cat([rows, black]))
        number = lit.flatten().cumsum(0).view_as(lit) - 1
        index = torch.where(lit, number, len(rows) + torch.arange(cells, device=lit.device))
        return _normalised(proposed[:, :-1]), proposed[:, -1], index

    def slots(self, obs: Tensor) -> Float[Tensor, "B S D"]:
        slots, logits, index = self.proposals(obs)
        chosen = logits[index].topk(self.k, dim=1).indices
        return torch.cat([slots[index.gather(1, chosen)], self.nobody.expand(len(obs), 1, -1)], dim=1)

    def forward(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        slots, logits, index = self.proposals(obs)
        presence = conserved(logits[index], self.k)
        sprites, where = (rows[index] for rows in self.sprite_decoder(slots))
        best = presence.topk(self.k, dim=1)
        picture = unit(split_cells(obs, self.spec.cell_pixels))
        soft = (self.sprite_decoder.compose(sprites, where * presence.unsqueeze(-1)) - picture).square().mean()
        drawn = self.sprite_decoder.compose(_take(sprites, best.indices), _take(where, best.indices))
        hard = (drawn - picture).square().mean()
        return soft + hard, {"reconstruction": hard.detach(), "sharpness": best.values.mean().detach()}


def conserved(logits: Float[Tensor, "B cells"], total: int) -> Float[Tensor, "B cells"]:
    """sigmoid(logits - τ) with τ such that each row sums to ``total``."""
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


class SlotRounds(nn.Module):
    """The iterations of Slot Attention: slots compete for cells, a GRU and an MLP update them."""

    def __init__(self, config: ExtractorConfig) -> None:
        super().__init__()
        size = config.slot
        self.iterations = config.iterations
        self.norm_inputs, self.norm_slots = nn.LayerNorm(config.features), nn.LayerNorm(size)
        self.keys = nn.Linear(config.features, size, bias=False)
        self.values = nn.Linear(config.features, size, bias=False)
        self.queries = nn.Linear(size, size, bias=False)
        self.update = nn.GRUCell(size, size)
        self.mlp = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, config.hidden), nn.ReLU(), nn.Linear(config.hidden, size)
        )

    def forward(
        self, inputs: Float[Tensor, "B cells features"], slots: Float[Tensor, "B S D"], mass: Tensor | None = None
    ) -> Float[Tensor, "B S D"]:
        """With ``mass`` the attention is balanced: slot s receives the mass of mass[s] cells."""
        inputs = self.norm_inputs(inputs)
        keys, values = self.keys(inputs), self.values(inputs)
        for _ in range(self.iterations):
            attention = self._attention(keys, slots, mass)
            weights = attention / attention.sum(dim=2, keepdim=True)
            updated = self.update((weights @ values).flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = updated + self.mlp(updated)
        return slots

    def attend(self, inputs: Float[Tensor, "B cells features"], slots: Float[Tensor, "B S D"]) -> Tensor:
        """How the cells are shared among given slots, (B, S, cells)."""
        return self._attention(self.keys(self.norm_inputs(inputs)), slots, None)

    def _attention(self, keys: Tensor, slots: Tensor, mass: Tensor | None) -> Tensor:
        logits = self.queries(self.norm_slots(slots)) @ keys.transpose(1, 2) / math.sqrt(slots.shape[-1])
        return torch.softmax(logits, dim=1) + 1e-8 if mass is None else sinkhorn(logits, mass)


def sinkhorn(logits: Float[Tensor, "B S cells"], mass: Float[Tensor, "S"], rounds: int = 5) -> Tensor:
    """exp(logits) scaled so that each cell gives away one unit and slot s receives mass[s] of them.

    The last scaling is of the cells, so what cells give is exact and what slots receive nearly so.
    """
    target = mass.log().unsqueeze(-1)
    for _ in range(rounds):
        logits = logits - logits.logsumexp(dim=2, keepdim=True) + target
        logits = logits.log_softmax(dim=1)
    return logits.exp()


class BalancedAttention(_SpriteExtractor):
    """Slot Attention with learned queries and balanced masses: one cell to each object slot, the rest to the last."""

    mass: Tensor

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        if spec.k >= spec.cells:
            raise HowmError(f"k={spec.k} objects leave no cell to the background of {spec.cells} cells; use proposals")
        self.attention = SlotRounds(config)
        self.queries = nn.Parameter(torch.randn(spec.k + 1, config.slot))
        self.register_buffer("mass", torch.tensor([1.0] * spec.k + [float(spec.cells - spec.k)]))

    def slots(self, obs: Tensor) -> Float[Tensor, "B S D"]:
        begin = self.queries.expand(len(obs), -1, -1)
        return _normalised(self.attention(self.located(obs), begin, self.mass))


class SlotAttention(Extractor):
    """The paper's: Gaussian slots with learned mean and spread, softmax over slots; each cell is told where it lies.

    The decoder broadcasts each slot to all cells, where it paints with an alpha of its own for every pixel, or draws
    one sprite for each slot: then no slot can hold a region in the place of an object.

    The noise of the slots is drawn anew for every picture in training. Otherwise it is fixed, or the same picture
    would not have the same slots. Any of the K+1 slots may hold an object.
    """

    has_background = False
    noise: Tensor
    borders: Tensor

    def __init__(self, spec: WorldSpec, config: ExtractorConfig) -> None:
        super().__init__(spec, config)
        self.attention = SlotRounds(config)
        self.mean, self.log_spread = nn.Parameter(torch.zeros(config.slot)), nn.Parameter(torch.zeros(config.slot))
        nn.init.xavier_uniform_(self.mean.data.unsqueeze(0))
        self.register_buffer("noise", torch.randn(spec.k + 1, config.slot))
        self.register_buffer("borders", _borders(spec))
        self.position = nn.Linear(4, config.features)
        self.mix = nn.Sequential(
            nn.LayerNorm(config.features),
            nn.Linear(config.features, config.features),
            nn.ReLU(),
            nn.Linear(config.features, config.features),
        )
        self.sprite_decoder: WhatAndWhere | None = None
        if config.decoder == "sprites":
            self.sprite_decoder = WhatAndWhere(spec, config)
            return
        self.place = nn.Parameter(torch.randn(spec.cells, config.slot))
        self.decoder = nn.Sequential(
            nn.Linear(config.slot, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, 4 * spec.cell_pixels**2),
        )

    def slots(self, obs: Tensor) -> Float[Tensor, "B S D"]:
        size = (len(obs), *self.noise.shape)
        noise = torch.randn(size, device=obs.device) if self.training else self.noise.expand(size)
        begin = self.mean + self.log_spread.exp() * noise
        located = self.mix(torch.relu(self.features(obs)) + self.position(self.borders))
        return _normalised(self.attention(located, begin))

    def decode(
        self, slots: Float[Tensor, "B S D"]
    ) -> tuple[Float[Tensor, "B S cells pixels 3"], Float[Tensor, "B S cells pixels"]]:
        """Colours and masks: each slot is broadcast to all cells, told where it is, and paints them."""
        painted = self.decoder(slots.unsqueeze(2) + self.place).unflatten(-1, (-1, 4))
        return painted[..., :3], torch.softmax(painted[..., 3], dim=1)

    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S cells pixels"]:
        if self.sprite_decoder is None:
            return self.decode(slots)[1]
        _, where = self.sprite_decoder(slots)
        masks: Tensor = (where + 1e-8) / (where + 1e-8).sum(dim=1, keepdim=True)
        return masks.unsqueeze(-1).expand(-1, -1, -1, self.spec.cell_pixels**2)

    def draw_cells(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B cells values"]:
        if self.sprite_decoder is not None:
            sprites, where = self.sprite_decoder(slots)
            return self.sprite_decoder.compose(sprites, where)
        colours, masks = self.decode(slots)
        return (masks.unsqueeze(-1) * colours).sum(dim=1).flatten(2)

    def sharpness(self, slots: Float[Tensor, "B S D"]) -> Tensor:
        """How much of a pixel its first owner has, on average."""
        with torch.no_grad():
            return self.masks(slots).amax(dim=1).mean()


def _borders(spec: WorldSpec) -> Float[Tensor, "cells 4"]:
    """How far each cell is from the four borders, as a share of the picture."""
    rows, columns = spec.height // spec.cell_pixels, spec.width // spec.cell_pixels
    down, right = torch.meshgrid(torch.linspace(0, 1, rows), torch.linspace(0, 1, columns), indexing="ij")
    return torch.stack([down, right, 1 - down, 1 - right], dim=-1).flatten(0, 1)


def _normalised(slots: Tensor) -> Tensor:
    return layer_norm(slots, slots.shape[-1:])


def _take(rows: Float[Tensor, "B cells D"], index: Tensor) -> Float[Tensor, "B K D"]:
    return rows.gather(1, index.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


_KINDS: dict[str, type[Extractor]] = {
    "slot_attention": SlotAttention,
    "balanced": BalancedAttention,
    "proposals": Proposals,
}


def build_extractor(spec: WorldSpec, config: ExtractorConfig) -> Extractor:
    return _KINDS[config.kind](spec, config)
