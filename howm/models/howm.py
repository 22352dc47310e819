"""HOWM: slots, Action Attention and a Σ_K-equivariant transition, trained with the Aligned Loss (Section 5)."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import layer_norm, one_hot

from howm.config import PARSER, require_least, require_positive, validate
from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch, SlotBatch
from howm.errors import HowmError
from howm.models.align import Lift, lifting, matched_slots
from howm.models.binding import ActionAttention, Binding, bind, unmatched_share
from howm.models.extractors.base import Extractor
from howm.models.extractors.cells import ExtractorConfig
from howm.models.extractors.registry import build_extractor, parse_extractor
from howm.models.losses import SIGMA, contrastive
from howm.models.mlp import MLP
from howm.models.structured import StructuredConfig, StructuredDynamics
from howm.models.transition import GNNTransition
from howm.models.world_model import Logs, SlotState, State, WorldModel, device_of, full_precision, slot_state
from howm.worlds.spec import WorldSpec


@dataclass(frozen=True)
class HOWMConfig:
    """The defaults are the paper's, where it gives any.

    ``sigma`` is the unit of length of the embedding: the energy is measured in it, and embeddings are scaled by it. Of
    embeddings that are small beside its weights the transition sees little: with the paper's 0.5 it does not learn
    for thousands of steps that objects stand in each other's way.

    ``state=structured`` keeps what an object is and predicts where it lies; it needs an extractor whose slots say both
    (anchors). ``embedding``, ``maps``, ``margin`` and ``sigma`` are of ``state=embedding`` alone.
    """

    extractor: Any = field(default_factory=ExtractorConfig, metadata={PARSER: parse_extractor})
    hidden: int = 512
    embedding: int = 4
    attention: int = 16
    maps: Literal["linear", "mlp"] = "linear"  # from slots to embeddings and to queries
    compete: Literal["slots", "objects"] = "slots"
    lift: Lift = "pseudo_inverse"
    identity_loss_weight: float = 0.0  # of the loss by which a slot that changed must claim to be the object that acted
    margin: float = 1.0
    sigma: float = SIGMA
    message_warmup: int = 0  # training steps without messages, which then fade in over as many
    joint: bool = False  # train extractor and transition together, by the sum of their losses
    state: Literal["embedding", "structured"] = "embedding"
    structured: StructuredConfig = field(default_factory=StructuredConfig)

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "hidden", "embedding", "attention")
        require_positive(self, "margin", "sigma")
        require_least(self, 0, "identity_loss_weight", "message_warmup")
        if self.identity_loss_weight and self.compete == "slots":
            raise HowmError(
                f"identity_loss_weight={self.identity_loss_weight} needs compete=objects; set it, or the weight to 0"
            )
        if self.lift == "claims" and self.compete == "slots":
            raise HowmError("lift=claims needs compete=objects; set it, or choose another lift")
        if self.state == "structured" and (self.lift != "claims" or self.joint):
            raise HowmError("state=structured needs lift=claims and joint=false; set them, or state=embedding")


class HOWM(WorldModel):
    """Its cost is that of K+1 slots, whatever the size N of the library."""

    spec: WorldSpec
    extractor: Extractor
    hard = False  # bind each object's actions to one slot, for evaluation

    def __init__(self, spec: WorldSpec, config: HOWMConfig) -> None:
        super().__init__(spec)
        self.config = config
        self.extractor = build_extractor(spec, config.extractor)
        slot, hidden = self.extractor.slot_size, config.hidden
        self.structured: StructuredDynamics | None = None
        if config.state == "structured":
            layout = self.extractor.layout
            if layout is None:
                kind = config.extractor.kind
                raise HowmError(f"state=structured needs slots with positions, which {kind} has not; use anchors")
            self.structured = StructuredDynamics(
                spec, layout, config.structured, hidden, config.attention, config.identity_loss_weight
            )
            return

        def from_slots(size: int) -> nn.Module:
            return nn.Linear(slot, size) if config.maps == "linear" else MLP(slot, hidden, size)

        self.embedding = from_slots(config.embedding)
        self.attention = ActionAttention(
            spec, config.attention, from_slots(config.attention), config.compete, self.extractor.has_background
        )
        self.transition = GNNTransition(
            config.embedding, spec.actions_per_object, hidden, message_warmup=config.message_warmup
        )
        self.appearance_decoder = MLP(slot + config.embedding, hidden, slot)

    @property
    def frozen_extractor(self) -> Extractor | None:
        return None if self.config.joint else self.extractor

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        return self.encode_slots(full_precision(self.extractor.slots(pictures)))

    def encode_slots(self, slots: Float[Tensor, "B S slot"]) -> SlotState:
        """Slots to embeddings and binding."""
        if self.structured is not None:
            return self.structured.encode(slots)
        binding = self.attention(slots)
        embeddings = self._embeddings(slots)
        lift = lifting(binding, self.config.lift)
        actions = binding.actions
        if self.hard and not self.training:
            actions = one_hot(actions.argmax(dim=2), actions.shape[2]).to(actions.dtype)
        return SlotState(embeddings, actions, lift, slots)

    def _embeddings(self, slots: Float[Tensor, "B S slot"]) -> Float[Tensor, "B S D"]:
        return full_precision(self.embedding(slots)) * (self.config.sigma / SIGMA)

    def step(self, state: State, action: Int[Tensor, " B"]) -> SlotState:
        state = slot_state(state)
        assert state.binding is not None
        return self.step_bound(state, bind(state.binding, action, self.spec.actions_per_object))

    def step_bound(self, state: SlotState, bound: Float[Tensor, "B S A"]) -> SlotState:
        """One step with actions that are bound; a background that an absent object's action went to stays as it is."""
        if self.structured is not None:
            return self.structured.step_bound(state, bound)
        change = full_precision(self.transition(state.slots, bound))
        if self.extractor.has_background:
            change = torch.cat([change[:, :-1], torch.zeros_like(change[:, -1:])], dim=1)
        return replace(state, slots=state.slots + change)

    def lifted(self, state: State) -> Float[Tensor, "B N D"]:
        """The state in the full MDP, whose N rows stand in the order of the actions."""
        state = slot_state(state)
        if self.structured is not None:
            return self.structured.lifted(state)
        assert state.lift is not None
        with torch.autocast(state.slots.device.type, enabled=False):
            return state.lift.to(state.slots.dtype) @ state.slots

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        return self.lifted(state).flatten(1)

    def objects(self, state: State) -> Float[Tensor, "B N D"]:
        return self.lifted(state)

    def present(self, state: State) -> Bool[Tensor, "B N"] | None:
        """The objects that some slot claims to be."""
        lift = slot_state(state).lift
        return None if lift is None or self.config.lift != "claims" else lift.sum(dim=2) > 0.5

    def draw(self, state: State) -> Float[Tensor, "B H W 3"]:
        """The picture that a (predicted) state stands for: the objects that were seen, where they are now."""
        state = slot_state(state)
        if self.structured is not None:
            return self.extractor.draw(state.slots)
        assert state.source_slots is not None
        return self.extractor.draw(self._decode_appearance(state.source_slots, state.slots))

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        return self.extractor.masks(full_precision(self.extractor.slots(pictures)))

    def binding(self, state: State) -> Float[Tensor, "B N S"] | None:
        return slot_state(state).binding

    def rebind(self, state: State, binding: Float[Tensor, "B N S"]) -> SlotState:
        return replace(slot_state(state), binding=binding, lift=binding)

    def hard_binding(self, on: bool = True) -> None:
        self.hard = on

    def for_scene_size(self, k: int) -> "HOWM":
        if not self.extractor.any_scene_size:
            return super().for_scene_size(k)  # type: ignore[return-value]
        with torch.random.fork_rng(devices=[]):
            other = HOWM(replace(self.spec, k=k), self.config)
        other.load_state_dict(self.state_dict())
        other.hard, other.training_scenes = self.hard, self.training_scenes
        other.reward_function = self.reward_function
        return other.to(device_of(self)).train(self.training)

    def _decode_appearance(self, source_slots: Float[Tensor, "B S slot"], embeddings: Float[Tensor, "B S D"]) -> Tensor:
        """The slot of an object that was seen elsewhere, from its embedding here."""
        recalled = self.appearance_decoder(torch.cat([source_slots, embeddings / self.config.sigma], dim=2))
        return layer_norm(recalled, recalled.shape[-1:]) if self.extractor.layout is None else recalled

    def forward(self, batch: PictureBatch | SlotBatch) -> tuple[Tensor, Logs]:
        pictures = None
        if isinstance(batch, SlotBatch):
            slots = batch.together()
        else:
            pictures, _ = batch.together()
            slots = full_precision(self.extractor.slots(pictures))
        if self.structured is not None:
            loss, logs = self.structured(*slots.chunk(3)[:2], batch.action)
            return loss, logs
        binding = self.attention(slots[: len(batch)])
        with torch.no_grad():  # gradient reaches the binding through bound actions alone, so others need none
            others = lifting(self.attention(slots[len(batch) :]), self.config.lift)
        lifts = (lifting(binding, self.config.lift), *others.chunk(2))
        parts = zip(self._embeddings(slots).chunk(3), lifts, slots.chunk(3), strict=True)
        current, following, negative = (SlotState(z, None, lift, seen) for z, lift, seen in parts)
        predicted = self.step_bound(current, binding.bound_actions(batch.action))
        # Divided by K, the objects that a scene has: dividing by the N rows would shrink the margin as N grows.
        loss, logs = contrastive(
            self.lifted(predicted),
            self.lifted(following),
            self.lifted(current),
            self.lifted(negative),
            self.config.margin,
            self.config.sigma,
            objects=self.spec.k,
        )
        if self.config.identity_loss_weight:
            identity = self._identity_loss(batch.action, binding, current, following)
            loss, logs["identity"] = loss + self.config.identity_loss_weight * identity, identity.detach()
        appearance = self._appearance_loss(current, negative)
        loss, logs["appearance"] = loss + appearance, appearance.detach()
        if self.config.joint and pictures is not None:
            reconstruction, more = self.extractor(pictures)
            loss, logs = loss + reconstruction, logs | more
        return loss, logs

    def _identity_loss(
        self, action: Int[Tensor, " B"], binding: Binding, current: SlotState, following: SlotState
    ) -> Tensor:
        """One object acts, and what it does is seen: the slot that is not found again in the next frame is that object.

        The bound action alone teaches a slot only that it is none of the others *of its scene*; this, which one it is.
        """
        assert current.source_slots is not None
        assert following.source_slots is not None
        now, then = current.source_slots.detach(), following.source_slots.detach()
        if self.extractor.has_background:  # which changes wherever an object uncovers it
            now, then = now[:, :-1], then[:, :-1]
        return binding.identity_nll(action, unmatched_share(now, then)).mean()

    def _appearance_loss(self, seen: SlotState, elsewhere: SlotState) -> Tensor:
        """How well `draw` knows an object again; trained beside, on objects of which two frames show the same one."""
        assert seen.source_slots is not None
        assert elsewhere.source_slots is not None
        assert seen.lift is not None
        assert elsewhere.lift is not None
        index, weight = matched_slots(seen.lift, elsewhere.lift)

        def aligned(x: Tensor) -> Tensor:
            return x.detach().gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

        recalled = self._decode_appearance(seen.source_slots.detach(), aligned(elsewhere.slots))
        error = (recalled - aligned(elsewhere.source_slots)).square().mean(dim=2)
        return (error * weight.clamp(0, 1)).mean()
