"""Library actions to slots: in fixed order, by the scene's ids, all actions to every slot, or by Action Attention."""

import math
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from howm.worlds.spec import WorldSpec


def factored(action: Int[Tensor, " B"], spec: WorldSpec) -> Float[Tensor, "B N A"]:
    """One action factor per library object: all zero but for the object that acts."""
    return one_hot(action, spec.actions).to(torch.get_default_dtype()).view(-1, spec.n, spec.actions_per_object)


def scene_binding(object_ids: Integer[Tensor, "B K"], n: int) -> Float[Tensor, "B N K"]:
    """Slot j receives the actions of the scene's j-th smallest object id, whatever that slot holds (Σ_K-CSWM)."""
    ids = object_ids.long()
    ids = torch.where(ids < 0, n, ids).sort(dim=1).values  # -1 fills up small scenes
    return one_hot(ids, n + 1)[..., :n].to(torch.get_default_dtype()).transpose(1, 2)


def bind(binding: Float[Tensor, "B N S"], action: Int[Tensor, " B"], actions_per_object: int) -> Float[Tensor, "B S A"]:
    """The bound action Mᵀa: the acting object's row of the binding times its action, which costs O(S), not O(NS)."""
    row = binding[torch.arange(len(action), device=action.device), action // actions_per_object]
    return _directed(row, action, actions_per_object)


def _directed(rows: Float[Tensor, "B S"], action: Int[Tensor, " B"], actions_per_object: int) -> Float[Tensor, "B S A"]:
    return rows[:, :, None] * one_hot(action % actions_per_object, actions_per_object)[:, None, :].to(rows.dtype)


def broadcast_actions(action: Int[Tensor, " B"], spec: WorldSpec, slots: int) -> Float[Tensor, "B S actions"]:
    """All action factors to every slot (Σ_K-CSWM(CA))."""
    return factored(action, spec).flatten(1)[:, None, :].expand(-1, slots, -1)


def unmatched_share(
    slots: Float[Tensor, "B S D"], following: Float[Tensor, "B S D"], still: float = 0.1
) -> Float[Tensor, "B S"]:
    """Which slots are not found again in the next frame: shares that sum to at most one, to nearly none if all are.

    ``still`` is the squared distance, per entry of a slot, that counts as no change.
    """
    apart = torch.cdist(slots, following).square().amin(dim=2)
    return apart / (apart.sum(dim=1, keepdim=True) + still * slots.shape[2])


class Binding:
    """Which slot is which library object, read in two ways, from one score for each slot and object.

    ``actions`` is the paper's M: each object's row says to which slots its actions go, and sums to one. ``claims``
    says which object each slot takes itself for; where objects compete its column sums to one, and is zero for the
    background. ``background_score`` is the score of the background, which is not an object; None where there is none,
    and in training.
    """

    def __init__(
        self,
        scores: Float[Tensor, "B S N"],
        actions_per_object: int,
        background: bool = False,
        background_score: float | None = None,
    ) -> None:
        self.scores, self.background, self.background_score = scores, background, background_score
        self.actions_per_object = actions_per_object

    @cached_property
    def actions(self) -> Float[Tensor, "B N S"]:
        return self._choose(self.scores.transpose(1, 2))

    @cached_property
    def claims(self) -> Float[Tensor, "B N S"]:
        claims = self.scores.exp()
        return (pad(claims, (0, 0, 0, 1)) if self.background else claims).transpose(1, 2)

    def bound_actions(self, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        """The bound actions, as `bind` of ``actions`` would give them, without making the rows of all other objects."""
        acting = action // self.actions_per_object
        row = self._choose(self.scores[torch.arange(len(action), device=action.device), None, :, acting])
        return _directed(row.squeeze(1), action, self.actions_per_object)

    def identity_nll(self, action: Int[Tensor, " B"], shares: Float[Tensor, "B S"]) -> Float[Tensor, " B"]:
        """-log of how much some slots, given by shares, claim to be the object that acts."""
        acting = action // self.actions_per_object
        scores = self.scores[torch.arange(len(action), device=action.device), :, acting]
        return -(shares * scores).sum(dim=1)

    def _choose(self, scores: Float[Tensor, "B rows choices"]) -> Float[Tensor, "B rows S"]:
        """Each object among the slots; one that no slot claims goes to the background."""
        rows = torch.softmax(scores, dim=2)
        if not self.background:
            return rows
        if self.background_score is None:
            return pad(rows, (0, 1))
        absent = (scores.amax(dim=2, keepdim=True) < self.background_score).to(rows.dtype)
        return torch.cat([rows * (1 - absent), absent], dim=2)


class ActionAttention(nn.Module):
    """M = softmax(k(Id) q(s)ᵀ / √D): library identities are keys, slots are queries, actions are the values.

    With ``compete="slots"`` the softmax is over the slots alone, as in the paper: each object chooses a slot. Nothing
    then says that one slot is one object: objects that never share a scene in training need not be told apart, and
    all that is absent has to choose some slot. With ``compete="objects"`` each slot first chooses which object it is,
    by a softmax over the objects, and each object then chooses among the slots by what they claim to be.

    ``background``: the last slot is the background's. It then claims to be every object a little, so that objects that
    no slot claims go there. In training it is not offered: only present objects act, and an action that got lost in the
    background would never be missed by a loss that reads the acting object there as well.
    """

    BACKGROUND_SHARE = 0.1  # what the background claims of all objects, together

    def __init__(
        self, spec: WorldSpec, size: int, query: nn.Module, compete: Literal["slots", "objects"], background: bool
    ) -> None:
        super().__init__()
        self.actions_per_object = spec.actions_per_object
        self.compete, self.background = compete, background and compete == "objects"
        self.query = query
        self.keys = nn.Parameter(torch.randn(spec.n, size))

    def forward(self, slots: Float[Tensor, "B S D"]) -> Binding:
        n, size = self.keys.shape
        scores: Tensor = self.query(slots[:, :-1] if self.background else slots) @ (self.keys.t() / math.sqrt(size))
        if self.compete == "slots":
            return Binding(torch.log_softmax(scores, dim=1), self.actions_per_object)
        background_score = None if self.training else math.log(self.BACKGROUND_SHARE / n)
        return Binding(torch.log_softmax(scores, dim=2), self.actions_per_object, self.background, background_score)
