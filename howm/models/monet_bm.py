"""MONet(N)+BM: MONet's slots, matched with each other and never bound."""

from dataclasses import dataclass, field
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from howm.config import require_least, validate
from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch, SlotBatch
from howm.models.align import matched_to
from howm.models.binding import factored
from howm.models.distance import matched
from howm.models.extractors.monet import MONet, MONetConfig
from howm.models.losses import energy
from howm.models.transition import GNNTransition
from howm.models.world_model import Logs, SlotState, State, WorldModel, full_precision, slot_state
from howm.worlds.spec import WorldSpec


@dataclass(frozen=True)
class MONetBMConfig:
    monet: MONetConfig = field(default_factory=MONetConfig)
    hidden: int = 512
    matching: ClassVar[bool] = True  # slots with slots, which limits the references

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "hidden")


class MONetBM(WorldModel):
    """Slot n receives the actions of object n, whatever it holds: slots are matched to slots, never to actions."""

    spec: WorldSpec
    extractor: MONet

    def __init__(self, spec: WorldSpec, config: MONetBMConfig) -> None:
        super().__init__(spec)
        self.extractor = MONet(spec, config.monet)
        self.metric = matched(self.extractor.num_slots)
        self.transition = GNNTransition(config.monet.latent, spec.actions_per_object, config.hidden)

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        return SlotState(full_precision(self.extractor.slots(pictures)))

    def step(self, state: State, action: Int[Tensor, " B"]) -> SlotState:
        slots = slot_state(state).slots
        bound = pad(factored(action, self.spec), (0, 0, slots.shape[1] - self.spec.n, 0))  # a background comes first
        return SlotState(slots + full_precision(self.transition(slots, bound.to(slots.dtype))))

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        return self.extractor.attention_masks(pictures)

    def draw(self, state: State) -> Float[Tensor, "B H W 3"]:
        return self.extractor.draw(slot_state(state).slots)

    def forward(self, batch: PictureBatch | SlotBatch) -> tuple[Tensor, Logs]:
        """The latents are frozen, so nothing can collapse and no negatives are needed: matched prediction error."""
        if isinstance(batch, PictureBatch):
            current, following = (self.encode(pictures).slots for pictures in (batch.obs, batch.next_obs))
        else:
            current, following = batch.slots, batch.next_slots
        predicted = self.step(SlotState(current), batch.action).slots
        positive = energy(predicted, matched_to(predicted, following)).mean()
        return positive, {"positive": positive.detach()}
