"""Binding and dynamics on slots that say what and where: the codes name the objects, and only positions change."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot, smooth_l1_loss

from howm.config import require_least, require_positive, validate
from howm.models.binding import Binding, LearnedKeys, bind
from howm.models.distance import EUCLIDEAN, Metric
from howm.models.extractors.layout import PIXELS_PER_UNIT, SlotLayout
from howm.models.extractors.memory import match
from howm.models.mlp import MLP
from howm.models.relations import RelationTransition
from howm.models.world_model import Logs, SlotState, full_precision
from howm.worlds.spec import WorldSpec

STILL = 0.5  # units (1.25 pixels) by which what is found elsewhere has moved
ABSENT = 4.0  # units by which an object that is missing counts as displaced
HIDDEN = 1.0  # the same, where objects can hide each other
_AT_ONCE = 2**20  # distances


@dataclass(frozen=True)
class StructuredConfig:
    """``rounds`` of messages: news passes along chains of as many objects, as pushing needs."""

    rounds: int = 1
    look: int = 4  # numbers of a linear map of the code that the transition sees
    cutoff: float = 7.2  # units (18 pixels) beyond which objects do not matter to each other; 0: they do anywhere
    linear_from: float = 3.0  # units (7.5 pixels) from which errors of positions count linearly

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "rounds", "look")
        require_least(self, 0, "cutoff")
        require_positive(self, "linear_from")


def seen_distance(queries: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"]) -> Float[Tensor, "*b P T"]:
    """L2 distances of the positions of objects that both states have; each that one of them lacks counts as `HIDDEN`.

    An object that is hidden in a picture may lie anywhere: it says little against two states being the same.
    """
    objects = references.shape[-1] // 3
    theirs = references.view(*references.shape[:-1], objects, 3).unsqueeze(-4)
    rows = max(1, _AT_ONCE // max(1, references[..., 0].numel()))
    found = queries.new_zeros(*queries.shape[:-1], references.shape[-2])
    for start in range(0, queries.shape[-2], rows):
        some = queries[..., start : start + rows, :]
        ours = some.reshape(*some.shape[:-1], objects, 3).unsqueeze(-3)
        total = found[..., start : start + rows, :]
        for n in range(objects):
            gap = (ours[..., n, :2] - theirs[..., n, :2]).square()
            here, there = ours[..., n, 2] > 0, theirs[..., n, 2] > 0
            total += torch.where(here & there, gap[..., 0] + gap[..., 1], HIDDEN**2 * (here ^ there))
    return found.sqrt()


def hardened(bound: Float[Tensor, "B S A"]) -> Float[Tensor, "B S A"]:
    """An action that goes to one slot by more than a half goes to that slot alone, as in evaluation; the gradient is
    that of the soft binding. Else a transition learns to live with actions that are shared among slots."""
    hard = (bound > 0.5).to(bound.dtype)
    sure = hard.sum(dim=(1, 2), keepdim=True) > 0
    return torch.where(sure, hard + bound - bound.detach(), bound)


def acting_shares(moved: Float[Tensor, "B K"], scores: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """Which slot acted, by how far each moved, squared, and by how much each claims to be the object that acted.

    Where one slot moves, it is that one. Where an action moves others as well, those that never act in its place are
    told apart from it by and by (expectation maximisation); without claims, each would be taken for all that move it.
    """
    expected = torch.softmax((moved + 1e-9).log() + scores, dim=1)
    total = moved.sum(dim=1, keepdim=True)
    return expected * total / (total + STILL**2)


class StructuredDynamics(nn.Module):
    """All of HOWM but the extractor, on slots of a `SlotLayout` whose last one is the background's.

    The slots of a state are the extractor's but for their positions, which are predicted; its ``lift`` is what they
    claim to be.
    """

    def __init__(
        self,
        spec: WorldSpec,
        layout: SlotLayout,
        config: StructuredConfig,
        hidden: int = 128,
        attention: int = 32,
        identity_loss_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.spec, self.layout, self.config = spec, layout, config
        self.identity_loss_weight = identity_loss_weight
        self.metric = Metric(seen_distance) if spec.overlap else EUCLIDEAN
        query = MLP(layout.code, hidden, attention)
        self.attention = LearnedKeys(spec, attention, query, "objects", background=True)
        extent = max(spec.height, spec.width) / 2 / PIXELS_PER_UNIT
        self.transition = RelationTransition(
            layout.code,
            spec.actions_per_object,
            hidden,
            config.rounds,
            config.look,
            extent=extent,
            cutoff=config.cutoff,
        )

    def binding(self, slots: Float[Tensor, "B S D"]) -> Binding:
        """Who is who, by the codes alone; an empty slot is none of the objects."""
        code, _, _, presence = self.layout.split(slots)
        found: Binding = self.attention(code)
        empty = (presence[:, :-1] < 0.5).unsqueeze(2)
        found.scores = found.scores.masked_fill(empty, -50.0)
        return found

    def encode(self, slots: Float[Tensor, "B S D"]) -> SlotState:
        """In evaluation each slot claims to be one object at most, no two the same, and each object's actions go to one
        slot."""
        binding = self.binding(slots)
        actions, claims = binding.actions, binding.claims
        if not self.training:
            actions = one_hot(actions.argmax(dim=2), actions.shape[2]).to(actions.dtype)
            surest = one_hot(claims.argmax(dim=1), self.spec.n).transpose(1, 2).to(claims.dtype)
            best = one_hot((claims * surest).argmax(dim=2), claims.shape[2]).to(claims.dtype)
            claims = surest * best * (claims.sum(dim=1, keepdim=True) > 0.5)
        return SlotState(slots, actions, claims, slots)

    def step(self, state: SlotState, action: Int[Tensor, " B"]) -> SlotState:
        assert state.binding is not None
        return self.step_bound(state, bind(state.binding, action, self.spec.actions_per_object))

    def step_bound(self, state: SlotState, bound: Float[Tensor, "B S A"]) -> SlotState:
        code, position, _, presence = self.layout.split(state.slots[:, :-1])
        change = self.transition(code, position, bound[:, :-1], presence > 0.5)
        slots = state.slots.clone()
        slots[:, :-1, self.layout.position] += full_precision(change)
        return replace(state, slots=slots)

    def lifted(self, state: SlotState) -> Float[Tensor, "B N 3"]:
        """The position of every library object, and whether it is there."""
        assert state.lift is not None
        _, position, _, presence = self.layout.split(state.slots)
        rows = torch.cat([position, ABSENT * presence.unsqueeze(2)], dim=2)
        with torch.autocast(rows.device.type, enabled=False):
            return state.lift.to(rows.dtype) @ rows

    def locate(self, state: SlotState) -> Float[Tensor, "B N 2"]:
        """In pixels, and NaN of objects that no slot claims to be."""
        rows = self.lifted(state)
        centre = torch.tensor([self.spec.height, self.spec.width], device=rows.device) / 2
        return torch.where(rows[..., 2:] > 0.5 * ABSENT, rows[..., :2] * PIXELS_PER_UNIT + centre, torch.nan)

    def forward(
        self, slots: Float[Tensor, "B S D"], following: Float[Tensor, "B S D"], action: Int[Tensor, " B"]
    ) -> tuple[Tensor, Logs]:
        """The error of predicted positions, and of names: of two frames, the slot that moved is the object that acted.

        Slots are matched between frames by their codes; where that is in doubt, because one frame lost an object, a
        slot is left out.
        """
        binding = self.binding(slots)
        target, sure = self.follow(slots, following)
        position = slots[:, :-1, self.layout.position]
        predicted = self.step_bound(SlotState(slots), hardened(binding.bound_actions(action)))
        gap = predicted.slots[:, :-1, self.layout.position] - target
        beta = self.config.linear_from
        error = 2 * beta * smooth_l1_loss(gap, torch.zeros_like(gap), beta=beta, reduction="none")  # squares up to beta
        dynamics = (error.sum(dim=2) * sure).sum(dim=1).mean()
        moved = (target - position).square().sum(dim=2) * sure
        identity = binding.identity_nll(action, acting_shares(moved, binding.acting(action).detach())).mean()
        loss = dynamics + self.identity_loss_weight * identity
        logs = {"dynamics": dynamics.detach(), "identity": identity.detach(), "matched": sure.float().mean().detach()}
        return loss, logs

    def follow(
        self, slots: Float[Tensor, "B S D"], following: Float[Tensor, "B S D"]
    ) -> tuple[Float[Tensor, "B K 2"], Bool[Tensor, "B K"]]:
        """Where each object is in the next frame, and whether that is sure: both are each other's nearest in code."""
        there, sure = match(self.layout, slots[:, :-1], following[:, :-1])
        next_position = following[:, :-1, self.layout.position]
        return next_position.gather(1, there.unsqueeze(2).expand(-1, -1, 2)), sure
