"""Aligning slots: lifting them to the full MDP, one row for each library object, or matching them with each other."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.errors import HowmError
from howm.models.bind import Binding
from howm.models.worldmodel import WorldModel

Lift = Literal["attention", "pseudo_inverse", "claims"]

RIDGE = 0.1  # ε of the pseudo-inverse: MᵀM is nearly singular while M is nearly uniform, and always where N = K


def lifting(binding: Binding, lift: Lift) -> Float[Tensor, "B N S"]:
    """The matrix L of s↑ = L s̄. No gradient passes to the binding (the paper's NG).

    ``attention`` is M: an object reads the slots that its actions go to. ``pseudo_inverse`` is M (MᵀM + εI)⁻¹.
    ``claims``: each slot writes itself into the rows of whom it claims to be; rows of absent objects are zero, and no
    slot can drop out of the loss.
    """
    if lift == "claims":
        return binding.claims.detach()
    m = binding.actions.detach()
    if lift == "attention":
        return m
    gram = m.transpose(1, 2) @ m + RIDGE * torch.eye(m.shape[2], dtype=m.dtype, device=m.device)
    lifted: Tensor = torch.linalg.solve(gram, m, left=False)
    return lifted


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


def assignment(costs: Float[Tensor, "B S S"]) -> Int[Tensor, "B S"]:
    """For each row its column in the assignment of least total cost."""
    from scipy.optimize import linear_sum_assignment

    finite = torch.nan_to_num(costs, nan=1e30, posinf=1e30)  # a loss that diverged is for the trainer to refuse
    found = [linear_sum_assignment(matrix)[1] for matrix in finite.cpu().numpy()]
    return torch.from_numpy(np.stack(found)).to(costs.device)


def matched_to(slots: Float[Tensor, "B S D"], others: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
    """``others`` in the order in which they fit ``slots`` best."""
    order = assignment(torch.cdist(slots.detach(), others.detach()).square())
    return others.gather(1, order.unsqueeze(-1).expand_as(others))


MATCHED_REFERENCES = 2_000  # at ten slots, ranking as many predictions among them takes about a minute


def _least(costs: Float[np.ndarray, "S S"]) -> float:
    from scipy.optimize import linear_sum_assignment

    return float(costs[linear_sum_assignment(costs)].sum()) if np.isfinite(costs).all() else np.inf


def matched_distance(
    predictions: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"], slots: int
) -> Float[Tensor, "*b P T"]:
    """L2 distances under the best matching of slots, for every pair alike.

    To match only a prediction with its truth, and compare it with all others in the order they came in, would flatter.
    """
    *batch, queries, size = predictions.shape
    total = references.shape[-2]
    if total > MATCHED_REFERENCES:
        raise HowmError(f"matching slots with {total} references takes hours; give --episodes 500")
    ours = predictions.detach().reshape(-1, queries, slots, 1, size // slots)
    theirs = references.detach().reshape(-1, total, 1, slots, size // slots)
    found = np.empty((len(ours), queries, total))
    for b, (some, others) in enumerate(zip(ours, theirs, strict=True)):
        for q, one in enumerate(some):
            costs = (one - others).square().sum(dim=-1).numpy()
            found[b, q] = [_least(cost) for cost in costs]
    return torch.from_numpy(np.sqrt(found)).view(*batch, queries, total)


class Matching(WorldModel):
    """A model whose states are compared under the best matching of their ``slots`` slots."""

    slots: int

    @property
    def most_references(self) -> int:
        return MATCHED_REFERENCES

    def distance(
        self, predictions: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"]
    ) -> Float[Tensor, "*b P T"]:
        return matched_distance(predictions, references, self.slots)
