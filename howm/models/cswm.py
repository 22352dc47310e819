"""The C-SWM family: Σ_N-CSWM, Σ_K-CSWM, Σ_K-CSWM(CA) and the unstructured C-WM(N)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.config import require_least, require_positive, validate
from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch
from howm.models.binding import bind, broadcast_actions, factored, scene_binding
from howm.models.cells import cell_masks_to_pixels
from howm.models.losses import SIGMA, contrastive
from howm.models.masks import FlatEncoder, MaskCNN, SharedEncoder
from howm.models.transition import GNNTransition, MLPTransition
from howm.models.world_model import Logs, SlotState, State, WorldModel, full_precision, slot_state
from howm.worlds.spec import WorldSpec


@dataclass(frozen=True)
class CSWMConfig:
    """Sizes of the paper's tables. ``sigma`` is the unit of length of embeddings, which are scaled by it.

    Messages are summed over all other slots, or, with ``message_scale=present``, averaged and multiplied by the K - 1
    neighbours that are present. They fade in after ``message_warmup`` training steps, over as many.
    """

    hidden: int = 512
    embedding: int = 2
    features: int = 32
    margin: float = 1.0
    sigma: float = SIGMA
    message_scale: Literal["sum", "present"] = "sum"
    message_warmup: int = 0

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "hidden", "embedding", "features")
        require_least(self, 0, "message_warmup")
        require_positive(self, "margin", "sigma")


class CSWM(WorldModel):
    """Masks, encoder and transition trained together by the contrastive loss; subclasses say how actions are bound."""

    spec: WorldSpec

    def __init__(
        self, spec: WorldSpec, config: CSWMConfig, slots: int, encoder: nn.Module, transition: nn.Module
    ) -> None:
        super().__init__(spec)
        self.slots, self.margin, self.sigma = slots, config.margin, config.sigma
        self.mask_cnn = MaskCNN(spec, slots, config.features)
        self.encoder, self.transition = encoder, transition

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        return SlotState(full_precision(self.encoder(self.mask_cnn(pictures))) * (self.sigma / SIGMA))

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        return cell_masks_to_pixels(self.mask_cnn(pictures), self.spec)

    def bound(self, state: SlotState, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        """The part of the action that each slot receives."""
        raise NotImplementedError

    def step(self, state: State, action: Int[Tensor, " B"]) -> SlotState:
        state = slot_state(state)
        change = self.transition(state.slots, self.bound(state, action).to(state.slots.dtype))
        return SlotState(state.slots + full_precision(change), state.binding)

    def forward(self, batch: PictureBatch) -> tuple[Tensor, Logs]:
        encoded = self.encode(*batch.together())
        current, following, negative = encoded.slots.view(3, len(batch), self.slots, -1)
        binding = None if encoded.binding is None else encoded.binding[: len(batch)]
        predicted = self.step(SlotState(current, binding), batch.action).slots
        return contrastive(predicted, following, current, negative, self.margin, self.sigma)


class SharedCSWM(CSWM):
    """The encoder and the GNN treat all slots alike."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig, slots: int, action_size: int) -> None:
        encoder = SharedEncoder(spec, config.hidden, config.embedding)
        scale = (spec.k - 1) / (slots - 1) if config.message_scale == "present" and slots > spec.k else 1.0
        transition = GNNTransition(config.embedding, action_size, config.hidden, scale, config.message_warmup)
        super().__init__(spec, config, slots, encoder, transition)


class CSWMN(SharedCSWM):
    """Σ_N-CSWM: N masks in the order of the N action factors; exact compositional generalization."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        super().__init__(spec, config, slots=spec.n, action_size=spec.actions_per_object)

    def bound(self, state: SlotState, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        return factored(action, self.spec)

    def objects(self, state: State) -> Float[Tensor, "B N D"]:
        return slot_state(state).slots


class CSWMK(SharedCSWM):
    """Σ_K-CSWM: K masks; the scene's j-th smallest id names the actions of slot j. The one reader of object ids."""

    privileged: ClassVar[bool] = True

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        super().__init__(spec, config, slots=spec.k, action_size=spec.actions_per_object)

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        assert privileged is not None
        return SlotState(super().encode(pictures, privileged).slots, scene_binding(privileged.object_ids, self.spec.n))

    def bound(self, state: SlotState, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        assert state.binding is not None
        return bind(state.binding, action, self.spec.actions_per_object)


class CSWMKCopy(SharedCSWM):
    """Σ_K-CSWM(CA): K masks, all action factors copied to every slot."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        super().__init__(spec, config, slots=spec.k, action_size=spec.actions)

    def bound(self, state: SlotState, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        return broadcast_actions(action, self.spec, self.slots)


class CWMN(CSWM):
    """C-WM(N): the masks stay, flat MLPs replace the shared encoder and the GNN; no equivariance."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        encoder = FlatEncoder(spec, spec.n, config.hidden, config.embedding)
        transition = MLPTransition(spec.n, config.embedding, spec.actions, config.hidden)
        super().__init__(spec, config, spec.n, encoder, transition)

    def bound(self, state: SlotState, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        return factored(action, self.spec)
