"""HOWM: slots, Action Attention and a Σ_K-equivariant transition, trained with the Aligned Loss (Section 5)."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import layer_norm, one_hot

from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch, SlotBatch
from howm.errors import HowmError
from howm.models.align import bind_actors, lifting, matched_slots
from howm.models.binding import ActionAttention, Binding, LearnedKeys, bind, unmatched_share
from howm.models.distinct import DistinctMLP, select, shared_rows
from howm.models.extractors.anchors import AnchorsConfig
from howm.models.extractors.base import Extractor
from howm.models.extractors.registry import build_extractor
from howm.models.gallery import Gallery
from howm.models.howm_config import HOWMConfig
from howm.models.losses import SIGMA, contrastive
from howm.models.mlp import MLP
from howm.models.object_rows import NOBODY, aligned, pack
from howm.models.production import ProductionTransition
from howm.models.structured import StructuredDynamics
from howm.models.transition import CorrectedTransition, GNNTransition
from howm.models.world_model import Logs, SlotState, State, WorldModel, device_of, full_precision, slot_state
from howm.worlds.spec import WorldSpec

CELL = 2.0  # the length of a cell in embeddings that begin with a place, in units of sigma


def _transition(config: HOWMConfig, spec: WorldSpec) -> nn.Module:
    sizes = (config.embedding, spec.actions_per_object, config.hidden)
    if config.transition == "nps":
        return ProductionTransition(*sizes, config.rules)
    kind = CorrectedTransition if config.transition == "corrected" else GNNTransition
    return kind(*sizes, message_warmup=config.message_warmup)


class HOWM(WorldModel):
    """Its cost is that of K+1 slots, whatever the size N of the library.

    In a library larger than ``listed_objects`` binding is retrieval: in training the objects that act in an episode
    compete with each other and the rest of the batch; later each slot is the object, of all, whose key fits best.
    States keep who their slots are instead of N rows, and embeddings list the objects present (`object_rows`).
    """

    spec: WorldSpec
    extractor: Extractor
    searched = False  # whether the library is too large to be listed
    hard = False  # bind each object's actions to one slot, for evaluation

    def __init__(self, spec: WorldSpec, config: HOWMConfig) -> None:
        super().__init__(spec)
        self.config = config
        self.extractor = build_extractor(spec, config.extractor)
        if config.joint and self.extractor.trains_on_pairs:
            raise HowmError("joint=true has no pairs of frames for its extractor; set joint=false or pairs=false")
        slot, hidden = self.extractor.slot_size, config.hidden
        self.structured: StructuredDynamics | None = None
        if config.state == "structured":
            layout = self.extractor.layout
            if layout is None:
                kind = config.extractor.kind
                raise HowmError(f"state=structured needs slots with positions, which {kind} does not have; use anchors")
            self.structured = StructuredDynamics(
                spec, layout, config.structured, hidden, config.attention, config.identity_loss_weight
            )
            self.metric = self.structured.metric
            return

        def from_slots(size: int) -> nn.Module:
            return nn.Linear(slot, size) if config.maps == "linear" else DistinctMLP(slot, hidden, size)

        self.places = config.places and self.extractor.knows_places
        self.embedding = from_slots(config.embedding - 2 * self.places)
        self.searched = config.lift == "claims" and spec.n > config.listed_objects
        if self.searched and config.gallery and self.extractor.knows_looks and not config.joint:
            self.attention: ActionAttention = Gallery(spec, config.attention, self.extractor)
        else:
            query = from_slots(config.attention)
            has_background = self.extractor.has_background
            self.attention = LearnedKeys(spec, config.attention, query, config.compete, has_background)
        self.transition = _transition(config, spec)
        self.appearance_decoder = MLP(slot + config.embedding, hidden, slot)
        if self.searched:
            self.metric = aligned(config.embedding)

    @property
    def frozen_extractor(self) -> Extractor | None:
        return None if self.config.joint else self.extractor

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        alone = torch.is_grad_enabled() or self.structured is not None or self.searched
        shared = None if alone else self.extractor.slot_rows(pictures)
        if shared is None:
            return self.encode_slots(full_precision(self.extractor.slots(pictures)))
        rows, index = full_precision(shared[0]), shared[1]
        binding = self.attention.of_scores(self.attention.scores(rows), index)
        return self._state(rows[index], binding, self._embeddings(rows)[index])

    def encode_frames(self, pictures: Tensor) -> SlotState | None:
        slots = self.extractor.track(pictures)
        return None if slots is None else self.encode_slots(full_precision(slots))

    def encode_slots(self, slots: Float[Tensor, "B S slot"]) -> SlotState:
        """Slots to embeddings and binding."""
        if self.structured is not None:
            return self.structured.encode(slots)
        if self.searched:
            identity, claimed = self.attention.retrieve(slots)
            return SlotState(self._embeddings(slots), source_slots=slots, identity=identity, claimed=claimed)
        return self._state(slots, self.attention(slots), self._embeddings(slots))

    def _state(
        self, slots: Float[Tensor, "B S slot"], binding: Binding, embeddings: Float[Tensor, "B S D"]
    ) -> SlotState:
        lift = lifting(binding, self.config.lift)
        return SlotState(embeddings, self._hardened(binding.actions), lift, slots)

    def _hardened(self, actions: Float[Tensor, "B rows S"]) -> Float[Tensor, "B rows S"]:
        """Each object's actions to one slot alone, where that is asked for."""
        if not self.hard or self.training:
            return actions
        return one_hot(actions.argmax(dim=2), actions.shape[2]).to(actions.dtype)

    def _embeddings(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        learned = full_precision(self.embedding(slots)) * (self.config.sigma / SIGMA)
        if not self.places:
            return learned
        with torch.no_grad():
            places = full_precision(self.extractor.drawn_at(slots)) * (self.config.sigma * CELL)
        return torch.cat([places, learned], dim=-1)

    def step(self, state: State, action: Int[Tensor, " B"]) -> SlotState:
        state = slot_state(state)
        if state.binding is not None:
            return self.step_bound(state, bind(state.binding, action, self.spec.actions_per_object))
        assert state.identity is not None
        acting = action // self.spec.actions_per_object
        row = self._hardened(self.attention.recall(state.identity, acting.unsqueeze(1)).actions)
        return self.step_bound(state, bind(row, action % self.spec.actions_per_object, self.spec.actions_per_object))

    def step_bound(self, state: SlotState, bound: Float[Tensor, "B S A"]) -> SlotState:
        """One step with actions that are bound; a background that an absent object's action went to stays as it is."""
        if self.structured is not None:
            return self.structured.step_bound(state, bound)
        slots = state.slots.shape[1]
        objects = slots - self.extractor.has_background  # which come first
        sent = slots if self.config.background_messages else objects
        change = full_precision(self.transition(state.slots[:, :sent], bound[:, :sent]))
        if objects < slots:
            change = torch.cat([change[:, :objects], torch.zeros_like(state.slots[:, objects:])], dim=1)
        return replace(state, slots=state.slots + change)

    def lifted(self, state: State) -> Float[Tensor, "B N D"]:
        """The state in the full MDP, whose N rows stand in the order of the actions."""
        state = slot_state(state)
        if self.structured is not None:
            return self.structured.lifted(state)
        lift = state.lift
        if state.claimed is not None:
            lift = one_hot(state.claimed + 1, self.spec.n + 1)[..., 1:].transpose(1, 2)
        assert lift is not None
        with torch.autocast(state.slots.device.type, enabled=False):
            return lift.to(state.slots.dtype) @ state.slots

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        state = slot_state(state)
        return self.lifted(state).flatten(1) if state.claimed is None else pack(state.claimed, state.slots)

    def objects(self, state: State) -> Float[Tensor, "B N D"]:
        return self.lifted(state)

    def present(self, state: State) -> Bool[Tensor, "B N"] | None:
        """The objects that some slot claims to be."""
        state = slot_state(state)
        if state.claimed is not None:
            return one_hot(state.claimed + 1, self.spec.n + 1)[..., 1:].any(dim=1)
        return None if state.lift is None or self.config.lift != "claims" else state.lift.sum(dim=2) > 0.5

    def draw(self, state: State) -> Float[Tensor, "B H W 3"]:
        """The picture that a (predicted) state stands for: the objects that were seen, where they are now."""
        state = slot_state(state)
        if self.structured is not None:
            return self.extractor.draw(state.slots)
        assert state.source_slots is not None
        return self.extractor.draw(self._decode_appearance(state.source_slots, state.slots))

    def locate(self, state: State) -> Float[Tensor, "B N 2"] | None:
        return None if self.structured is None else self.structured.locate(slot_state(state))

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        return self.extractor.masks(full_precision(self.extractor.slots(pictures)))

    def binding(self, state: State) -> Float[Tensor, "B N S"] | None:
        state = slot_state(state)
        if state.binding is not None or state.identity is None:
            return state.binding
        return self._hardened(self.attention.recall(state.identity).actions)

    def rebind(self, state: State, binding: Float[Tensor, "B N S"]) -> SlotState:
        if not self.searched:
            return replace(slot_state(state), binding=binding, lift=binding)
        best = binding.max(dim=1)
        claimed = torch.where(best.values > 0.5, best.indices, NOBODY)
        return replace(slot_state(state), binding=binding, claimed=claimed)

    def hard_binding(self, on: bool = True) -> None:
        self.hard = on

    def for_scene_size(self, k: int) -> "HOWM":
        if not self.extractor.any_scene_size:
            return super().for_scene_size(k)  # type: ignore[return-value]
        return self._rebuilt(replace(self.spec, k=k), self.config)

    def inferring_count(self, max_objects: int) -> "HOWM":
        if not isinstance(self.config.extractor, AnchorsConfig):
            return super().inferring_count(max_objects)  # type: ignore[return-value]
        extractor = replace(self.config.extractor, count="infer", max_objects=max_objects)
        return self._rebuilt(self.spec, replace(self.config, extractor=extractor))

    def _rebuilt(self, spec: WorldSpec, config: HOWMConfig) -> "HOWM":
        """The same weights in another setting."""
        with torch.random.fork_rng(devices=[]):
            other = HOWM(spec, config)
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
        if self.training and isinstance(self.attention, Gallery):
            before, after, _ = slots.chunk(3)
            self.attention.observe(before, after, batch.action // self.spec.actions_per_object)
        embeddings, binding, lifts = self._read_batch(slots, batch)
        parts = zip(embeddings.chunk(3), lifts, slots.chunk(3), strict=True)
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
        if self.config.identity_loss_weight and not isinstance(self.attention, Gallery):
            identity = self._identity_loss(batch.action, binding, current, following)
            loss, logs["identity"] = loss + self.config.identity_loss_weight * identity, identity.detach()
        appearance = self._appearance_loss(current, negative)
        loss, logs["appearance"] = loss + appearance, appearance.detach()
        if self.config.joint and pictures is not None:
            reconstruction, more = self.extractor(pictures)
            loss, logs = loss + reconstruction, logs | more
        return loss, logs

    def _read_batch(
        self, slots: Float[Tensor, "B3 S slot"], batch: PictureBatch | SlotBatch
    ) -> tuple[Float[Tensor, "B3 S D"], Binding, tuple[Float[Tensor, "B rows S"], ...]]:
        """All embeddings, the binding of the current frames, and the lifts of current, next and negative frames.

        Gradient reaches the binding through bound actions and the identity loss alone, so lifts need none. The rows of
        a lift are the library objects; in a large library, those that act in the episodes of the frames compared.
        """
        current, others = slots[: len(batch)], slots[len(batch) :]
        if self.searched and batch.actors is not None and batch.negative_actors is not None:
            rivals = None  # only learned keys are trained against other objects
            if not isinstance(self.attention, Gallery):
                rivals = torch.unique(batch.action // self.spec.actions_per_object)
            bound = bind_actors(self.attention, current, others, batch.actors, batch.negative_actors, rivals)
            return self._embeddings(slots), *bound
        shared = shared_rows(slots) if self.training and self.config.maps == "mlp" else None
        if shared is None:
            embeddings, binding = self._embeddings(slots), self.attention(current)
            with torch.no_grad():
                lifts = lifting(self.attention(others), self.config.lift)
        else:
            rows, index = shared
            embeddings = select(self._embeddings(rows), index)
            scores = self.attention.scores(rows)
            binding = self.attention.of_scores(scores, index[: len(batch)])
            lifts = lifting(self.attention.of_scores(scores.detach(), index[len(batch) :]), self.config.lift)
        return embeddings, binding, (lifting(binding, self.config.lift), *lifts.chunk(2))

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
