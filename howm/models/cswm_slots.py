"""C-SWM with Slot Attention in place of the masks ("Other related baselines"), trained by the contrastive loss."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.config import require_least, require_positive, validate
from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch
from howm.errors import HowmError
from howm.models.align import matched_to
from howm.models.binding import factored
from howm.models.cells import CellFeatures, cell_masks_to_pixels
from howm.models.distance import EUCLIDEAN, matched
from howm.models.extractors.cells import ExtractorConfig
from howm.models.extractors.iterations import SlotAttentionIterations
from howm.models.losses import SIGMA, contrastive
from howm.models.mlp import MLP
from howm.models.transition import GNNTransition
from howm.models.world_model import Logs, SlotState, State, WorldModel, full_precision, slot_state
from howm.worlds.spec import WorldSpec


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
        validate(self)
        require_least(self, 1, "hidden", "embedding")
        require_positive(self, "margin", "sigma")
        if self.slots.kind != "slot_attention":
            raise HowmError(f"slots.kind must be slot_attention here, got {self.slots.kind}")


class CSWMSlots(WorldModel):
    """N slots with a mean of their own each, so that they can keep to the order of the N action factors."""

    spec: WorldSpec

    def __init__(self, spec: WorldSpec, config: CSWMSlotsConfig) -> None:
        super().__init__(spec)
        self.config = config
        self.metric = matched(spec.n) if config.matching else EUCLIDEAN
        self.features = CellFeatures(spec, config.slots.features)
        self.position = nn.Parameter(torch.randn(spec.cells, config.slots.features))
        self.queries = nn.Parameter(torch.randn(spec.n, config.slots.slot))
        self.rounds = SlotAttentionIterations(config.slots)
        self.encoder = MLP(config.slots.slot, config.hidden, config.embedding)
        self.transition = GNNTransition(config.embedding, spec.actions_per_object, config.hidden)

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        slots = self.rounds(self._inputs(pictures), self.queries.expand(len(pictures), -1, -1))
        return SlotState(full_precision(self.encoder(slots)) * (self.config.sigma / SIGMA))

    def _inputs(self, pictures: Tensor) -> Float[Tensor, "B cells features"]:
        return torch.relu(self.features(pictures)) + self.position

    def step(self, state: State, action: Int[Tensor, " B"]) -> SlotState:
        slots = slot_state(state).slots
        change = self.transition(slots, factored(action, self.spec).to(slots.dtype))
        return SlotState(slots + full_precision(change))

    def objects(self, state: State) -> Float[Tensor, "B N D"] | None:
        """The slots, unless they are matched in evaluation and so in no order."""
        return None if self.config.matching else slot_state(state).slots

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        """How the slots share the cells."""
        inputs = self._inputs(pictures)
        attention = self.rounds.attend(inputs, self.rounds(inputs, self.queries.expand(len(pictures), -1, -1)))
        return cell_masks_to_pixels(attention, self.spec)

    def forward(self, batch: PictureBatch) -> tuple[Tensor, Logs]:
        current, following, negative = self.encode(*batch.together()).slots.chunk(3)
        predicted = self.step(SlotState(current), batch.action).slots
        if self.config.matching:
            following, negative = matched_to(predicted, following), matched_to(current, negative)
        return contrastive(predicted, following, current, negative, self.config.margin, self.config.sigma)
