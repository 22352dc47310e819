"""HOWM: slots, Action Attention and a Σ_K-equivariant transition, trained with the Aligned Loss (Section 5)."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import layer_norm, one_hot

from howm.batches import Batch
from howm.errors import HowmError
from howm.losses import SIGMA, contrastive
from howm.models.align import Lift, lifting, matched_slots
from howm.models.bind import ActionAttention, Binding, bind, changed
from howm.models.extract import join_cells
from howm.models.mlp import MLP
from howm.models.slots import ExtractorConfig, build_extractor
from howm.models.transition import GNNTransition
from howm.models.worldmodel import State, WorldModel, WorldSpec, full_precision


@dataclass(frozen=True)
class HOWMConfig:
    """The defaults are the paper's, where it gives any.

    ``sigma`` is the unit of length of the embedding: the energy is measured in it, and embeddings are scaled by it. Of
    embeddings that are small beside its weights the transition sees little: with the paper's 0.5 it does not learn
    for thousands of steps that objects stand in each other's way.
    """

    extractor: ExtractorConfig = field(default_factory=ExtractorConfig)
    hidden: int = 512
    embedding: int = 4
    attention: int = 16
    maps: Literal["linear", "mlp"] = "linear"  # from slots to embeddings and to queries
    compete: Literal["slots", "objects"] = "slots"
    lift: Lift = "pseudo_inverse"
    witness: float = 0.0  # weight of the loss by which a slot that changed has to claim to be the object that acted
    margin: float = 1.0
    sigma: float = SIGMA
    joint: bool = False  # train extractor and transition together, by the sum of their losses

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding", "attention"):
            if getattr(self, name) < 1:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give 1 or more")
        for name in ("margin", "sigma"):
            if not 0 < getattr(self, name) < math.inf:
                raise HowmError(f"{name}={getattr(self, name)} is no length; give a number above 0")
        if not 0 <= self.witness < math.inf:
            raise HowmError(f"witness={self.witness} is no weight; give 0 or more")
        if self.witness and self.compete == "slots":
            raise HowmError(f"witness={self.witness} needs slots that claim to be somebody; set compete=objects")
        if self.lift == "claims" and self.compete == "slots":
            raise HowmError("lift=claims needs slots that claim to be somebody; set compete=objects")

    @property
    def any_k(self) -> bool:
        """Whether no weight depends on the number of objects in a scene."""
        return self.extractor.kind == "proposals"


@dataclass(frozen=True)
class SlotState(State):
    """Embeddings of K+1 slots, and what stays as it was in the picture: the lift, and the slots themselves."""

    lift: Float[Tensor, "B N S"] | None = None
    seen: Float[Tensor, "B S slot"] | None = None


class HOWM(WorldModel):
    """Its cost is that of K+1 slots, whatever the size N of the library."""

    hard = False  # bind each object's actions to one slot, for evaluation

    def __init__(self, spec: WorldSpec, config: HOWMConfig) -> None:
        super().__init__()
        self.n, self.k, self.config = spec.n, spec.k, config
        slot, hidden = config.extractor.slot, config.hidden

        def from_slots(size: int) -> nn.Module:
            return nn.Linear(slot, size) if config.maps == "linear" else MLP(slot, hidden, size)

        self.extractor = build_extractor(spec, config.extractor)
        self.embedding = from_slots(config.embedding)
        self.attention = ActionAttention(
            spec.n, config.attention, from_slots(config.attention), config.compete, self.extractor.has_background
        )
        self.transition = GNNTransition(config.embedding, 4, hidden)
        self.recall = MLP(slot + config.embedding, hidden, slot)

    @property
    def representation(self) -> nn.Module | None:
        return None if self.config.joint else self.extractor

    def represent(self, obs: Tensor) -> Float[Tensor, "B S slot"]:
        """The slots of pictures; slots that were computed before pass through."""
        return obs if obs.dim() == 3 else full_precision(self.extractor.slots(obs))

    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> SlotState:
        return self.read(self.represent(obs))

    def read(self, slots: Float[Tensor, "B S slot"]) -> SlotState:
        """Slots to embeddings and binding."""
        binding = self.attention(slots)
        embeddings = self._embeddings(slots)
        lift = lifting(binding, self.config.lift)
        actions = binding.actions
        if self.hard and not self.training:
            actions = one_hot(actions.argmax(dim=2), actions.shape[2]).to(actions.dtype)
        return SlotState(embeddings, actions, lift, slots)

    def _embeddings(self, slots: Float[Tensor, "B S slot"]) -> Float[Tensor, "B S D"]:
        return full_precision(self.embedding(slots)) * (self.config.sigma / SIGMA)

    def step(self, state: State, action: Int[Tensor, "B"]) -> State:
        assert state.binding is not None
        return self.advance(state, bind(state.binding, action))

    def advance(self, state: State, told: Float[Tensor, "B S 4"]) -> SlotState:
        """One step with actions that are bound; a background that an absent object's action went to stays as it is."""
        assert isinstance(state, SlotState)
        change = full_precision(self.transition(state.slots, told))
        if self.extractor.has_background:
            change = torch.cat([change[:, :-1], torch.zeros_like(change[:, -1:])], dim=1)
        return replace(state, slots=state.slots + change)

    def lifted(self, state: State) -> Float[Tensor, "B N D"]:
        """The state in the full MDP, whose N rows stand in the order of the actions."""
        assert isinstance(state, SlotState)
        assert state.lift is not None
        with torch.autocast(state.slots.device.type, enabled=False):
            return state.lift.to(state.slots.dtype) @ state.slots

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        return self.lifted(state).flatten(1)

    def draw(self, state: State) -> Float[Tensor, "B H W 3"]:
        """The picture that a (predicted) state stands for: the objects that were seen, where they are now."""
        assert isinstance(state, SlotState)
        assert state.seen is not None
        return self.extractor.draw(self._recalled(state.seen, state.slots))

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        spec = self.extractor.spec
        masks = self.extractor.masks(self.represent(obs))
        flat = masks.flatten(0, 1)
        return join_cells(flat, spec.height, spec.width, spec.cell_pixels).view(
            *masks.shape[:2], spec.height, spec.width
        )

    def _recalled(self, seen: Float[Tensor, "B S slot"], embeddings: Float[Tensor, "B S D"]) -> Tensor:
        """The slot of an object that was seen elsewhere, from its embedding here."""
        recalled = self.recall(torch.cat([seen, embeddings / self.config.sigma], dim=2))
        return layer_norm(recalled, recalled.shape[-1:])

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        everything = torch.cat([batch.obs, batch.next_obs, batch.negative_obs])
        slots = self.represent(everything)
        binding = self.attention(slots[: len(batch)])
        with torch.no_grad():  # gradient reaches the binding through bound actions alone, so others need none
            others = lifting(self.attention(slots[len(batch) :]), self.config.lift)
        lifts = (lifting(binding, self.config.lift), *others.chunk(2))
        parts = zip(self._embeddings(slots).chunk(3), lifts, slots.chunk(3), strict=True)
        current, following, negative = (SlotState(z, None, lift, seen) for z, lift, seen in parts)
        predicted = self.advance(current, binding.told(batch.action))
        # Divided by K, the objects that a scene has: dividing by the N rows would shrink the margin as N grows.
        loss, logs = contrastive(
            self.lifted(predicted),
            self.lifted(following),
            self.lifted(current),
            self.lifted(negative),
            self.config.margin,
            self.config.sigma,
            objects=self.k,
        )
        if self.config.witness:
            witness = self._witness_loss(batch.action, binding, current, following)
            loss, logs["witness"] = loss + self.config.witness * witness, witness.detach()
        recall = self._recall_loss(current, negative)
        loss, logs["recall"] = loss + recall, recall.detach()
        if self.config.joint:
            reconstruction, more = self.extractor(everything)
            loss, logs = loss + reconstruction, logs | more
        return loss, logs

    def _witness_loss(
        self, action: Int[Tensor, "B"], binding: Binding, current: SlotState, following: SlotState
    ) -> Tensor:
        """One object acts, and what it does is seen: the slot that is not found again in the next frame is that object.

        The bound action alone teaches a slot only to be nobody else *of its scene*; this, to be somebody.
        """
        assert current.seen is not None
        assert following.seen is not None
        now, then = current.seen.detach(), following.seen.detach()
        if self.extractor.has_background:  # which changes wherever an object uncovers it
            now, then = now[:, :-1], then[:, :-1]
        return binding.misnamed(action, changed(now, then)).mean()

    def _recall_loss(self, seen: SlotState, elsewhere: SlotState) -> Tensor:
        """How well `draw` knows an object again; trained beside, on objects of which two frames show the same one."""
        assert seen.seen is not None
        assert elsewhere.seen is not None
        assert seen.lift is not None
        assert elsewhere.lift is not None
        index, weight = matched_slots(seen.lift, elsewhere.lift)

        def aligned(x: Tensor) -> Tensor:
            return x.detach().gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

        recalled = self._recalled(seen.seen.detach(), aligned(elsewhere.slots))
        error = (recalled - aligned(elsewhere.seen)).square().mean(dim=2)
        return (error * weight.clamp(0, 1)).mean()
