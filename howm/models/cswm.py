"""The C-SWM family: Σ_N-CSWM, Σ_K-CSWM, Σ_K-CSWM(CA) and the unstructured C-WM(N)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.batches import Batch
from howm.errors import HowmError
from howm.losses import SIGMA, contrastive
from howm.models.bind import bind, copied, factored, scene_binding
from howm.models.extract import FlatEncoder, MaskCNN, SharedEncoder
from howm.models.transition import GNNTransition, MLPTransition
from howm.models.worldmodel import State, WorldModel, WorldSpec, full_precision


@dataclass(frozen=True)
class CSWMConfig:
    """Sizes of the paper's tables. ``sigma`` is the unit of length of embeddings, which are scaled by it."""

    hidden: int = 512
    embedding: int = 2
    features: int = 32
    margin: float = 1.0
    sigma: float = SIGMA

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding", "features"):
            if getattr(self, name) < 1:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give 1 or more")
        if not 0 < self.margin < math.inf:
            raise HowmError(f"margin={self.margin} is no distance to keep; give a number above 0")
        if not 0 < self.sigma < math.inf:
            raise HowmError(f"sigma={self.sigma} is no length; give a number above 0")


class CSWM(WorldModel):
    """Masks, encoder and transition trained together by the contrastive loss; subclasses say how actions are bound."""

    def __init__(
        self, spec: WorldSpec, config: CSWMConfig, slots: int, encoder: nn.Module, transition: nn.Module
    ) -> None:
        super().__init__()
        self.n, self.slots, self.margin, self.sigma = spec.n, slots, config.margin, config.sigma
        self.extractor = MaskCNN(spec, slots, config.features)
        self.encoder, self.transition = encoder, transition

    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> State:
        return State(full_precision(self.encoder(self.extractor(obs))) * (self.sigma / SIGMA))

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        pixels = self.extractor.features.cell_pixels
        masks: Tensor = self.extractor(obs)
        grid = masks.view(*masks.shape[:2], obs.shape[1] // pixels, obs.shape[2] // pixels)
        return grid.repeat_interleave(pixels, 2).repeat_interleave(pixels, 3)

    def bound(self, state: State, action: Int[Tensor, "B"]) -> Float[Tensor, "B S A"]:
        """What each slot is told of the action."""
        raise NotImplementedError

    def step(self, state: State, action: Int[Tensor, "B"]) -> State:
        change = self.transition(state.slots, self.bound(state, action).to(state.slots.dtype))
        return State(state.slots + full_precision(change), state.binding)

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        size = len(batch)
        ids = negative_ids = None
        if batch.privileged is not None:
            ids, negative_ids = batch.privileged.object_ids, batch.privileged.negative_object_ids
        everything = torch.cat([batch.obs, batch.next_obs, batch.negative_obs])
        all_ids = torch.cat([ids, ids, negative_ids]) if ids is not None and negative_ids is not None else None
        encoded = self.encode(everything, all_ids)
        current, following, negative = encoded.slots.view(3, size, self.slots, -1)
        binding = None if encoded.binding is None else encoded.binding[:size]
        predicted = self.step(State(current, binding), batch.action).slots
        return contrastive(predicted, following, current, negative, self.margin, self.sigma)


class SharedCSWM(CSWM):
    """The encoder and the GNN treat all slots alike."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig, slots: int, action_size: int) -> None:
        encoder = SharedEncoder(spec, config.hidden, config.embedding)
        super().__init__(spec, config, slots, encoder, GNNTransition(config.embedding, action_size, config.hidden))


class CSWMN(SharedCSWM):
    """Σ_N-CSWM: N masks in the order of the N action factors; exact compositional generalization."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        super().__init__(spec, config, slots=spec.n, action_size=4)

    def bound(self, state: State, action: Int[Tensor, "B"]) -> Float[Tensor, "B S A"]:
        return factored(action, self.n)


class CSWMK(SharedCSWM):
    """Σ_K-CSWM: K masks; the scene's j-th smallest id names the actions of slot j. The one reader of object ids."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        super().__init__(spec, config, slots=spec.k, action_size=4)

    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> State:
        if object_ids is None:
            raise HowmError("cswm-k needs the object ids of the scene; this data or call gives none")
        return State(super().encode(obs).slots, scene_binding(object_ids, self.n))

    def bound(self, state: State, action: Int[Tensor, "B"]) -> Float[Tensor, "B S A"]:
        assert state.binding is not None
        return bind(state.binding, action)


class CSWMKCopy(SharedCSWM):
    """Σ_K-CSWM(CA): K masks, all 4N action factors copied to every slot."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        super().__init__(spec, config, slots=spec.k, action_size=4 * spec.n)

    def bound(self, state: State, action: Int[Tensor, "B"]) -> Float[Tensor, "B S A"]:
        return copied(action, self.n, self.slots)


class CWMN(CSWM):
    """C-WM(N): the masks stay, flat MLPs replace the shared encoder and the GNN; no equivariance."""

    def __init__(self, spec: WorldSpec, config: CSWMConfig) -> None:
        encoder = FlatEncoder(spec, spec.n, config.hidden, config.embedding)
        transition = MLPTransition(spec.n, config.embedding, 4 * spec.n, config.hidden)
        super().__init__(spec, config, spec.n, encoder, transition)

    def bound(self, state: State, action: Int[Tensor, "B"]) -> Float[Tensor, "B S A"]:
        return factored(action, self.n)
