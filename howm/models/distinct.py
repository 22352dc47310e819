"""Rows of a batch that are equal, computed once."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.models.mlp import MLP


class DistinctMLP(MLP):
    """An MLP that computes equal rows of slots once while it is trained on the CPU; its values are those of an MLP.

    On a grid, a slot is an object in a cell: a batch of 384 pictures has 2,304 slots, of which few differ.
    """

    def forward(self, x: Tensor) -> Tensor:
        found = shared_rows(x) if self.training and x.dim() > 2 and not x.requires_grad else None
        if found is None:
            return self._all_rows(x)
        rows, index = found
        return select(self._all_rows(rows), index)

    def _all_rows(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x)
        return out


def select(rows: Float[Tensor, "rows D"], index: Int[Tensor, "*b"]) -> Float[Tensor, "*b D"]:
    """rows[index], whose gradient is summed faster."""
    return rows.index_select(0, index.flatten()).view(*index.shape, -1)


def shared_rows(x: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "rows D"], Int[Tensor, "*b"]] | None:
    """Different rows, and which of them stands where; None where that would not save anything."""
    usual = x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()
    flat = x.reshape(-1, x.shape[-1])
    found = distinct_rows(flat) if usual else None
    if found is None:
        return None
    first, index = found
    return flat[first], index.view(x.shape[:-1])


def distinct_rows(x: Float[Tensor, "rows D"]) -> tuple[Int[Tensor, " distinct"], Int[Tensor, " rows"]] | None:
    """The first row of each kind, and the kind of each row; None where more than half of them differ."""
    bits = x.contiguous().view(torch.int32).long()
    # Wraps around at 2**64, as a hash may. That different rows do not share one is checked below.
    factors = _FACTOR ** torch.arange(1, x.shape[1] + 1)
    order = (bits * factors).sum(dim=1).sort(stable=True)
    begins = torch.ones(len(x), dtype=torch.bool)
    torch.ne(order.values[1:], order.values[:-1], out=begins[1:])
    if 2 * int(begins.sum()) > len(x):
        return None
    first = order.indices[begins]
    index = torch.empty_like(order.indices).index_copy_(0, order.indices, begins.cumsum(0) - 1)
    return (first, index) if torch.equal(x[first].index_select(0, index), x) else None


_FACTOR = 0x9E3779B97F4A7C15 - 2**64  # odd: 2**64 over the golden ratio
