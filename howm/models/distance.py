"""Distances between embeddings: Euclidean, and under the best matching of slots."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.errors import HowmError

Distance: TypeAlias = Callable[[Float[Tensor, "*b P F"], Float[Tensor, "*b T F"]], Float[Tensor, "*b P T"]]
"""All distances of P queries to T references. Each must depend on its own pair alone, to the last bit, or
equal embeddings would not tie; a method's own distance (matching of slots, say) has this form too."""


def euclidean(queries: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"]) -> Float[Tensor, "*b P T"]:
    """L2 distances (ordered as their squares are) from plain differences, every pair summed in one order."""
    # |a|²+|b|²−2ab would be faster, but it cancels near the target, just where ranks are decided, and its
    # rounding depends on where in the matrix a pair stands: equal embeddings would then not tie.
    return torch.cdist(queries, references, compute_mode="donot_use_mm_for_euclid_dist")


@dataclass(frozen=True)
class Metric:
    """How embeddings, given in float64 on the CPU, are compared.

    ``max_references`` is how many references a prediction can be ranked among, where the cost of a distance limits it.
    """

    pairwise: Distance
    max_references: int | None = None


EUCLIDEAN = Metric(euclidean)


def guarded(metric: Metric) -> Distance:
    """The distances of a metric; ours by plain differences, others only while each depends on its pair alone."""
    return euclidean if metric.pairwise is euclidean else _PairDistance(metric.pairwise)


class _PairDistance:
    """A distance that gets copies in an order it cannot know; some pairs are measured again, elsewhere."""

    def __init__(self, pairwise: Distance) -> None:
        self.pairwise, self.dice = pairwise, torch.Generator()
        self.dice.seed()  # the order changes no distance that is one

    def __call__(
        self, queries: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"]
    ) -> Float[Tensor, "*b P T"]:
        if queries.dim() > 2:
            batch = self._order(len(queries))
            table = torch.empty(*queries.shape[:-1], references.shape[-2], dtype=torch.float64)
            table[batch] = self._table(queries[batch], references[batch])
            self._measure_again(queries[:, 0], references, table[:, 0])
            return table
        table = self._table(queries, references)
        self._measure_again(queries, references.unsqueeze(0).expand(len(queries), -1, -1), table)
        return table

    def _order(self, size: int) -> Int[Tensor, " {size}"]:
        return torch.randperm(size, generator=self.dice)

    def _table(self, queries: Tensor, references: Tensor) -> Tensor:
        rows, columns = self._order(queries.shape[-2]), self._order(references.shape[-2])
        shape = (*queries.shape[:-1], references.shape[-2])
        found = self.pairwise(queries[..., rows, :], references[..., columns, :])
        if not isinstance(found, Tensor) or tuple(found.shape) != shape:
            raise HowmError(f"distance must give a tensor of shape {shape}, got {getattr(found, 'shape', type(found))}")
        table = torch.empty(shape, dtype=torch.float64)
        table[..., rows.unsqueeze(1), columns] = found.detach().double()
        return table

    def _measure_again(
        self, queries: Float[Tensor, "P F"], references: Float[Tensor, "P T F"], table: Float[Tensor, "P T"]
    ) -> None:
        """Nearest, farthest and random references of some queries, in a table of another size."""
        if not table.numel():
            return
        row = self._order(len(table))[:8]
        some = table[row]
        random = torch.randint(table.shape[1], (len(row), 2 + int(torch.randint(3, (), generator=self.dice))),
                               generator=self.dice)  # fmt: skip
        column = torch.cat([some.argmin(dim=1, keepdim=True), some.argmax(dim=1, keepdim=True), random], dim=1)
        again = self._table(queries[row], references[row.unsqueeze(1), column].flatten(0, 1))
        again = again.view(len(row), *column.shape)[range(len(row)), range(len(row))]
        before = some.gather(1, column)
        if not bool(((before == again) | (before.isnan() & again.isnan())).all()):
            raise HowmError(
                "distance does not depend on its pair alone, to the last bit: measured again beside others, the same "
                "pair is at another distance; see howm.check_model"
            )


def assignment(costs: Float[Tensor, "B S S"]) -> Int[Tensor, "B S"]:
    """For each row its column in the assignment of least total cost."""
    from scipy.optimize import linear_sum_assignment

    finite = torch.nan_to_num(costs, nan=1e30, posinf=1e30)  # a loss that diverged is for the trainer to refuse
    found = [linear_sum_assignment(matrix)[1] for matrix in finite.cpu().numpy()]
    return torch.from_numpy(np.stack(found)).to(costs.device)


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
        raise HowmError(f"matching slots with {total} references takes hours; give `episodes=500`")
    ours = predictions.detach().reshape(-1, queries, slots, 1, size // slots)
    theirs = references.detach().reshape(-1, total, 1, slots, size // slots)
    found = np.empty((len(ours), queries, total))
    for b, (some, others) in enumerate(zip(ours, theirs, strict=True)):
        for q, one in enumerate(some):
            costs = (one - others).square().sum(dim=-1).numpy()
            found[b, q] = [_least(cost) for cost in costs]
    return torch.from_numpy(np.sqrt(found)).view(*batch, queries, total)


def matched(slots: int) -> Metric:
    """The metric of states that are compared under the best matching of their slots."""
    return Metric(partial(matched_distance, slots=slots), MATCHED_REFERENCES)
