"""C-SWM with Slot Attention in place of the masks ("Other related baselines"), trained by the contrastive loss."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.batches import Batch
from howm.errors import HowmError
from howm.losses import SIGMA, contrastive
from howm.models.align import Matching, matched_to
from howm.models.bind import factored
from howm.models.extract import CellFeatures
from howm.models.mlp import MLP
from howm.models.slots import ExtractorConfig, SlotRounds
from howm.models.transition import GNNTransition
from howm.models.worldmodel import State, WorldModel, WorldSpec, full_precision


@dataclass(frozen=True)
class CSWMSlotsConfig:
    """``matching`` compares slots under their best assignment, in the loss and in evaluation."""

    slots: ExtractorConfig = field(default_factory=ExtractorConfig)
    hidden: int = 512
    embedding: int = 2
    margin: float = 1.0
    sigma: float = SIGMA
    matching: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding"):
            if getattr(self, name) < 1:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give 1 or more")
        for name in ("margin", "sigma"):
            if not 0 < getattr(self, name) < math.inf:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give a number above 0")
        if self.slots.kind != "slot_attention":
            raise HowmError(f"slots.kind={self.slots.kind} cannot be used here; it is slot_attention")


class CSWMSlots(WorldModel):
    """N slots with a mean of their own each, so that they can keep to the order of the N action factors."""

    def __init__(self, spec: WorldSpec, config: CSWMSlotsConfig) -> None:
        super().__init__()
        self.n = self.slots = spec.n
        self.config, self.spec = config, spec
        self.features = CellFeatures(spec, config.slots.features)
        self.position = nn.Parameter(torch.randn(spec.cells, config.slots.features))
        self.queries = nn.Parameter(torch.randn(spec.n, config.slots.slot))
        self.rounds = SlotRounds(config.slots)
        self.encoder = MLP(config.slots.slot, config.hidden, config.embedding)
        self.transition = GNNTransition(config.embedding, 4, config.hidden)

    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> State:
        inputs = torch.relu(self.features(obs)) + self.position
        slots = self.rounds(inputs, self.queries.expand(len(obs), -1, -1))
        return State(full_precision(self.encoder(slots)) * (self.config.sigma / SIGMA))

    def step(self, state: State, action: Int[Tensor, "B"]) -> State:
        change = self.transition(state.slots, factored(action, self.n).to(state.slots.dtype))
        return State(state.slots + full_precision(change))

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        """How the slots share the cells."""
        inputs = torch.relu(self.features(obs)) + self.position
        attention = self.rounds.attend(inputs, self.rounds(inputs, self.queries.expand(len(obs), -1, -1)))
        pixels = self.spec.cell_pixels
        grid = attention.view(*attention.shape[:2], obs.shape[1] // pixels, obs.shape[2] // pixels)
        return grid.repeat_interleave(pixels, 2).repeat_interleave(pixels, 3)

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        everything = torch.cat([batch.obs, batch.next_obs, batch.negative_obs])
        current, following, negative = self.encode(everything).slots.chunk(3)
        predicted = self.step(State(current), batch.action).slots
        following, negative = self.beside(predicted, following), self.beside(current, negative)
        return contrastive(predicted, following, current, negative, self.config.margin, self.config.sigma)

    def beside(self, slots: Float[Tensor, "B S D"], others: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """The slots of other states in the order in which the loss compares them."""
        return others


class MatchedCSWMSlots(Matching, CSWMSlots):
    """Slots are compared under their best assignment."""

    def beside(self, slots: Float[Tensor, "B S D"], others: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return matched_to(slots, others)


def cswm_slots(spec: WorldSpec, config: CSWMSlotsConfig) -> CSWMSlots:
    return MatchedCSWMSlots(spec, config) if config.matching else CSWMSlots(spec, config)
