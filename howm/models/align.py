"""Aligning slots: lifting them to the full MDP, one row for each library object, or matching them with each other."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.models.binding import ActionAttention, Binding
from howm.models.distance import assignment
from howm.models.object_rows import union

Lift = Literal["attention", "pseudo_inverse", "claims"]

RIDGE = 0.1  # ε of the pseudo-inverse: MᵀM is nearly singular while M is nearly uniform, and always where N = K


def lifting(binding: Binding, lift: Lift) -> Float[Tensor, "B N S"]:
    """The matrix L of s↑ = L s̄. No gradient passes to the binding (the paper's NG).

    ``attention`` is M: an object reads the slots that its actions go to. ``pseudo_inverse`` is M (MᵀM + εI)⁻¹.
    ``claims``: each slot writes itself into the rows of the objects it claims to be; rows of absent objects are zero,
    and no slot can drop out of the loss.
    """
    if lift == "claims":
        return binding.claims.detach()
    m = binding.actions.detach()
    if lift == "attention":
        return m
    gram = m.transpose(1, 2) @ m + RIDGE * torch.eye(m.shape[2], dtype=m.dtype, device=m.device)
    lifted: Tensor = torch.linalg.solve(gram, m, left=False)
    return lifted


def bind_actors(
    attention: ActionAttention,
    current: Float[Tensor, "B S slot"],
    others: Float[Tensor, "B2 S slot"],
    actors: Int[Tensor, "B R"],
    negative_actors: Int[Tensor, "B Q"],
    rivals: Int[Tensor, " M"] | None,
) -> tuple[Binding, tuple[Float[Tensor, "B rows S"], ...]]:
    """The binding of the actors of current frames, against rivals, and what all frames claim, without a row for others.

    ``others`` are the next and the negative frames. Rows stand for the actors of a frame and of its negative together.
    """
    binding = attention.among(current, actors, rivals)
    with torch.no_grad():
        now = binding.claims if rivals is None else binding.without_rivals().claims
        then, negative = attention.among(others, torch.cat([actors, negative_actors])).claims.chunk(2)
        own, theirs = union(actors, negative_actors)
        return binding, (own @ now, own @ then, theirs @ negative)


def matched_slots(claims: Float[Tensor, "B N S"], other: Float[Tensor, "B N S"]) -> tuple[Tensor, Float[Tensor, "B S"]]:
    """For each slot, the slot of another frame that claims to be the same object, and how much so."""
    agreement = claims.transpose(1, 2) @ other
    best = agreement.max(dim=2)
    return best.indices, best.values


def transport(lift: Float[Tensor, "B N S"], other: Float[Tensor, "B N S"]) -> Float[Tensor, "B S S"]:
    """How the slots of one frame are spread over those of another: rows that sum to one, or to nothing."""
    agreement = lift.transpose(1, 2) @ other
    total: Tensor = agreement.sum(dim=2, keepdim=True)
    return agreement / total.clamp_min(1e-9)


def matched_to(slots: Float[Tensor, "B S D"], others: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
    """``others`` in the order in which they fit ``slots`` best."""
    order = assignment(torch.cdist(slots.detach(), others.detach()).square())
    return others.gather(1, order.unsqueeze(-1).expand_as(others))
