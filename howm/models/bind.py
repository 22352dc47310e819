"""Library actions to slots: in fixed order, by the scene's ids, all actions to every slot, or by Action Attention."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot


def factored(action: Int[Tensor, "B"], n: int) -> Float[Tensor, "B N 4"]:
    """One action factor per library object: all zero but for the object that acts."""
    return one_hot(action, 4 * n).to(torch.get_default_dtype()).view(-1, n, 4)


def scene_binding(object_ids: Int[Tensor, "B K"], n: int) -> Float[Tensor, "B N K"]:
    """Slot j receives the actions of the scene's j-th smallest object id, whatever that slot holds (Σ_K-CSWM)."""
    return one_hot(object_ids.sort(dim=1).values, n).to(torch.get_default_dtype()).transpose(1, 2)


def bind(binding: Float[Tensor, "B N S"], action: Int[Tensor, "B"]) -> Float[Tensor, "B S 4"]:
    """The bound action Mᵀa: the acting object's row of the binding times its direction, which costs O(S), not O(NS)."""
    rows = binding[torch.arange(len(action), device=action.device), action // 4]
    return rows[:, :, None] * one_hot(action % 4, 4)[:, None, :].to(rows.dtype)


def copied(action: Int[Tensor, "B"], n: int, slots: int) -> Float[Tensor, "B S actions"]:
    """All 4N action factors to every slot (Σ_K-CSWM(CA))."""
    return factored(action, n).flatten(1)[:, None, :].expand(-1, slots, -1)


@dataclass(frozen=True)
class Binding:
    """Which slot is which library object, read in two ways.

    ``actions`` is the paper's M: each object's row says to which slots its actions go, and sums to one. ``claims``
    says whom each slot takes itself for; where objects compete its column sums to one, and is zero for the background.
    """

    actions: Float[Tensor, "B N S"]
    claims: Float[Tensor, "B N S"]


class ActionAttention(nn.Module):
    """M = softmax(k(Id) q(s)ᵀ / √D): library identities are keys, slots are queries, actions are the values.

    With ``compete="slots"`` the softmax is over the slots alone, as in the paper: each object chooses a slot. Nothing
    then says that one slot is one object: objects that never share a scene in training need not be told apart, and
    all that is absent has to choose some slot. With ``compete="objects"`` each slot first chooses whom it is, by a
    softmax over the objects, and each object then chooses among the slots by what they claim to be.

    ``background``: the last slot is the background's. It then claims to be everybody a little, so that objects whom no
    slot claims go there. In training it is not offered: only present objects act, and an action that got lost in the
    background would never be missed by a loss that reads the acting object there as well.
    """

    FAINT = 0.1  # what the background claims of everybody, together

    def __init__(
        self,
        n: int,
        size: int,
        query: nn.Module,
        compete: Literal["slots", "objects"],
        background: bool,
    ) -> None:
        super().__init__()
        self.compete, self.background = compete, background and compete == "objects"
        self.query = query
        self.keys = nn.Parameter(torch.randn(n, size))

    def forward(self, slots: Float[Tensor, "B S D"]) -> Binding:
        n, size = self.keys.shape
        logits: Tensor = self.query(slots) @ self.keys.t() / math.sqrt(size)
        if self.compete == "slots":
            rows = torch.softmax(logits.transpose(1, 2), dim=2)
            return Binding(rows, rows)
        log_claims = torch.log_softmax(logits, dim=2).transpose(1, 2)
        if not self.background:
            return Binding(torch.softmax(log_claims, dim=2), log_claims.exp())
        log_claims = log_claims[:, :, :-1]
        rows = torch.softmax(log_claims, dim=2)
        nobody = torch.zeros_like(rows[:, :, :1])
        if not self.training:
            absent = (log_claims.amax(dim=2, keepdim=True) < math.log(self.FAINT / n)).to(rows.dtype)
            rows, nobody = rows * (1 - absent), absent
        zero = torch.zeros_like(nobody)
        return Binding(torch.cat([rows, nobody], dim=2), torch.cat([log_claims.exp(), zero], dim=2))
