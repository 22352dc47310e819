"""Library actions to slots: in fixed order, by the scene's ids, all actions to every slot, or by Action Attention."""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from howm.models.distinct import select
from howm.worlds.spec import WorldSpec

NEVER = -1e4  # a score that leaves nothing, without being infinite
_SLOTS_AT_ONCE = 256


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
    and in training. ``objects`` names the objects that scores are of, in each row of the batch; None: all N, in order.
    """

    def __init__(
        self,
        scores: Float[Tensor, "B S N"],
        actions_per_object: int,
        background: bool = False,
        background_score: float | None = None,
        objects: Int[Tensor, "B N"] | None = None,
    ) -> None:
        self.scores, self.background, self.background_score = scores, background, background_score
        self.actions_per_object, self.objects = actions_per_object, objects

    @cached_property
    def actions(self) -> Float[Tensor, "B N S"]:
        return self._choose(self.scores.transpose(1, 2))

    @cached_property
    def claims(self) -> Float[Tensor, "B N S"]:
        claims = self.scores.exp()
        return (pad(claims, (0, 0, 0, 1)) if self.background else claims).transpose(1, 2)

    def bound_actions(self, action: Int[Tensor, " B"]) -> Float[Tensor, "B S A"]:
        """The bound actions, as `bind` of ``actions`` would give them, without making the rows of all other objects."""
        row = self._choose(self.acting(action).unsqueeze(1))
        return _directed(row.squeeze(1), action, self.actions_per_object)

    def identity_nll(self, action: Int[Tensor, " B"], shares: Float[Tensor, "B S"]) -> Float[Tensor, " B"]:
        """-log of how much some slots, given by shares, claim to be the object that acts."""
        return -(shares * self.acting(action)).sum(dim=1)

    def without_rivals(self) -> "Binding":
        """The binding of objects that compete with each other alone."""
        scores = torch.log_softmax(self.scores, dim=2)
        return Binding(scores, self.actions_per_object, self.background, self.background_score, self.objects)

    def acting(self, action: Int[Tensor, " B"]) -> Float[Tensor, "B S"]:
        """The scores of the object that acts, which must be one of ``objects``."""
        column = action // self.actions_per_object
        if self.objects is not None:
            column = (self.objects == column.unsqueeze(1)).to(torch.int8).argmax(dim=1)
        return self.scores[torch.arange(len(action), device=action.device), :, column]

    def _choose(self, scores: Float[Tensor, "B rows choices"]) -> Float[Tensor, "B rows S"]:
        """Each object among the slots; one that no slot claims goes to the background."""
        rows = torch.softmax(scores, dim=2)
        if not self.background:
            return rows
        if self.background_score is None:
            return pad(rows, (0, 1))
        absent = (scores.amax(dim=2, keepdim=True) < self.background_score).to(rows.dtype)
        return torch.cat([rows * (1 - absent), absent], dim=2)


class ActionAttention(nn.Module, ABC):
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

    def __init__(self, spec: WorldSpec, compete: Literal["slots", "objects"], background: bool) -> None:
        super().__init__()
        self.n, self.actions_per_object = spec.n, spec.actions_per_object
        self.compete, self.background = compete, background and compete == "objects"

    @abstractmethod
    def keys_of(self, objects: Int[Tensor, "*b"] | None = None) -> Float[Tensor, "*n D"]:
        """The keys of some objects, or of all."""

    @abstractmethod
    def queries(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        """Slots as what is compared with keys: the product of both is the score."""

    def forward(self, slots: Float[Tensor, "B S D"]) -> Binding:
        return self._binding(self.scores(slots[:, :-1] if self.background else slots))

    def of_scores(self, scores: Float[Tensor, "rows N"], index: Int[Tensor, "B S"]) -> Binding:
        """Of the scores of different slots, and which of them each slot is."""
        return self._binding(select(scores, index[:, :-1] if self.background else index))

    def scores(self, slots: Float[Tensor, "*b D"]) -> Float[Tensor, "*b N"]:
        """How well each slot fits each library object."""
        scores: Tensor = self.queries(slots) @ self.keys_of().t()
        return scores if self.compete == "slots" else torch.log_softmax(scores, dim=-1)

    def among(
        self, slots: Float[Tensor, "B S D"], objects: Int[Tensor, "B R"], rivals: Int[Tensor, " M"] | None = None
    ) -> Binding:
        """The binding of a few objects in each row (-1 for none), which compete with each other and with some rivals.

        What is no rival is taken to be absent: a softmax over a sample of the library, at a cost that it does not set.
        """
        queries = self._of_objects(slots)
        scores = queries @ self.keys_of(objects.clamp_min(0)).transpose(1, 2)
        scores = scores.masked_fill((objects < 0).unsqueeze(1), NEVER)
        total = scores.logsumexp(dim=2, keepdim=True)
        if rivals is not None:
            against = queries @ self.keys_of(rivals).t()
            listed = (objects.unsqueeze(2) == rivals).any(dim=1)  # who is there already is not a rival of itself
            against = against.masked_fill(listed.unsqueeze(1), NEVER)
            total = torch.logaddexp(total, against.logsumexp(dim=2, keepdim=True))
        return self._binding(scores - total, objects)

    def retrieve(self, slots: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B Q query"], Int[Tensor, "B S"]]:
        """Search the whole library for the object that each slot is: what `recall` needs, and who each slot is (-1 for
        the background). Exact, a few slots at a time; what is kept does not grow with N."""
        queries, keys = self._of_objects(slots), self.keys_of().t()
        found = []
        for some in torch.split(queries.flatten(0, 1), _SLOTS_AT_ONCE):
            scores = some @ keys
            found.append((scores.logsumexp(dim=1), scores.argmax(dim=1)))
        total, best = (torch.cat(part).view(queries.shape[:2]) for part in zip(*found, strict=True))
        claimed = pad(best, (0, 1), value=-1) if self.background else best
        return torch.cat([queries, total.unsqueeze(2)], dim=2), claimed

    def recall(self, identity: Float[Tensor, "B Q query"], objects: Int[Tensor, "B R"] | None = None) -> Binding:
        """The binding of some objects, or of all, to slots that were looked up before, as `forward` would give it."""
        chosen = self.keys_of(objects).transpose(-2, -1)
        return self._binding(identity[..., :-1] @ chosen - identity[..., -1:], objects)

    def _of_objects(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B Q query"]:
        return self.queries(slots[:, :-1] if self.background else slots)

    def _binding(self, scores: Float[Tensor, "B S C"], objects: Int[Tensor, "B C"] | None = None) -> Binding:
        if self.compete == "slots":
            return Binding(torch.log_softmax(scores, dim=1), self.actions_per_object)
        background_score = None if self.training else math.log(self.BACKGROUND_SHARE / self.n)
        return Binding(scores, self.actions_per_object, self.background, background_score, objects)


class LearnedKeys(ActionAttention):
    """Action Attention as in the paper: keys and queries are learned."""

    def __init__(
        self, spec: WorldSpec, size: int, query: nn.Module, compete: Literal["slots", "objects"], background: bool
    ) -> None:
        super().__init__(spec, compete, background)
        self.query = query
        self.keys = nn.Parameter(torch.randn(spec.n, size))
        self.scale = math.sqrt(size)

    def keys_of(self, objects: Int[Tensor, "*b"] | None = None) -> Float[Tensor, "*n D"]:
        return self.keys if objects is None else self.keys[objects]

    def queries(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        found: Tensor = self.query(slots)
        return found / self.scale
