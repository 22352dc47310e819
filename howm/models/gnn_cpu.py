"""The sum over neighbours of `transition` on the CPU, in blocks that stay in cache."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

# Four such tensors stay in the second-level cache of two cores; half or twice as much is no faster.
_BLOCK_ELEMENTS = 2**19
# Below as many multiplications torch.bmm has no vectorised kernel.
_SMALL_PRODUCT = 400


def neighbours(x: Float[Tensor, "B S H"]) -> Float[Tensor, "B S S-1 H"]:
    """A view of x laid out twice: entry [b, i, k] is slot (i + 1 + k) mod S, so every slot but i."""
    return torch.cat([x[:, 1:], x[:, :-1]], dim=1).unfold(1, x.shape[1] - 1, 1).transpose(2, 3)


class BlockedSum(torch.autograd.Function):
    """`_sum_over_neighbours` in blocks that stay in cache; of all edge tensors only y is kept for backward.

    With h = relu(own_i + other_j) and m, r the mean and inverse deviation of a row: z = r1 W (h - m1) + b,
    y = relu(z), out_i = Σ_j r2 (y - m2).
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, other: Tensor, weight: Tensor, bias: Tensor, eps: float, keep: bool) -> Tensor:
        batch, num_slots, hidden = own.shape
        fan = num_slots - 1
        blocks = list(_blocks(batch, num_slots, hidden))
        largest, edges = blocks[0][2].stop, blocks[-1][2].stop
        out = own.new_empty(batch * num_slots, 1, hidden)
        kept = own.new_empty(edges if keep else largest, hidden)
        mean1, rstd1, mean2, rstd2 = stats = own.new_empty(4, edges, 1)
        work = own.new_empty(largest, hidden)
        # Of a centred row W sees no mean; without it, what backward sends through W is centred as well.
        weight = weight - weight.mean(dim=1, keepdim=True)
        for b, i, e in blocks:
            m1, r1, m2, r2 = mean1[e], rstd1[e], mean2[e], rstd2[e]
            h, y = work[: len(m1)], kept[e] if keep else kept[: len(m1)]
            _relu_of_pairs(own[b], other[b], out=h)
            h.sub_(torch.mean(h, 1, keepdim=True, out=m1))
            _inverse_deviation(h, eps, out=r1)
            torch.addcmul(bias, torch.mm(h, weight.t(), out=y), r1, out=y).relu_()
            torch.sub(y, torch.mean(y, 1, keepdim=True, out=m2), out=h)
            _inverse_deviation(h, eps, out=r2)
            _weighted_sum(r2.view(-1, fan, 1), h.view(-1, fan, hidden), out=out[i])
        ctx.save_for_backward(own, other, weight, bias, kept, stats)
        ctx.eps = eps
        return out.view(own.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, other, weight, bias, kept, (mean1, rstd1, mean2, rstd2) = ctx.saved_tensors
        batch, num_slots, hidden = own.shape
        fan = num_slots - 1
        blocks = list(_blocks(batch, num_slots, hidden))
        work = own.new_empty(3, blocks[0][2].stop, hidden)
        d_own, d_other = own.new_empty(batch * num_slots, 1, hidden), torch.empty_like(other)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        ones = own.new_ones(batch * num_slots, fan, 1)
        names = torch.eye(num_slots, dtype=own.dtype).unsqueeze(0)
        sender = neighbours(names).reshape(-1, num_slots).t().expand(batch, -1, -1)
        scale = rstd1 * rstd2
        pull = scale * rstd2.square() / -hidden
        grad = (grad - grad.mean(dim=-1, keepdim=True)).view(-1, 1, hidden)
        for b, i, e in blocks:
            m1, r1, y, g = mean1[e], rstd1[e], kept[e], grad[i]
            h, t, d = work[:, : len(y)]

            # t = r1 dz = [z > 0] (r1 r2 g + κ (y - m2)) with κ = -r1 r2³ (g·y) / H
            kappa = torch.bmm(y.view(-1, fan, hidden), g.transpose(1, 2)).view(-1, 1).mul_(pull[e])
            torch.mul(y, kappa, out=t).sub_(kappa * mean2[e])
            t.view(-1, fan, hidden).addcmul_(scale[e].view(-1, fan, 1), g)
            _relu_backward(y, t)

            _relu_of_pairs(own[b], other[b], out=h)
            d_weight.addmm_(t.t(), torch.sub(h, m1, out=d))
            d_bias.addmv_(t.t(), r1.reciprocal().squeeze(1))

            # dh = Wᵀt + τ (h - m1) with τ = -r1² (h·Wᵀt) / H; h·Wᵀt = t·(y - b) / r1 and t·y = -ε H κ: τ needs no Wᵀt
            tau = torch.addmv(kappa.squeeze(1), t, bias, beta=ctx.eps, alpha=1 / hidden).unsqueeze(1).mul_(r1)
            _relu_backward(h, d.mul_(tau).addmm_(t, weight))

            torch.bmm(sender[b], d.view(-1, num_slots * fan, hidden), out=d_other[b])
            _weighted_sum(ones[i], d.view(-1, fan, hidden), out=d_own[i])
        return d_own.view(own.shape), d_other, d_weight, d_bias, None, None


def _blocks(batch: int, num_slots: int, hidden: int) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of the batch, each with its slots and its edges."""
    edges = num_slots * (num_slots - 1)
    size = max(1, _BLOCK_ELEMENTS // (edges * hidden))
    for start in range(0, batch, size):
        stop = min(start + size, batch)
        yield slice(start, stop), slice(start * num_slots, stop * num_slots), slice(start * edges, stop * edges)


def _relu_of_pairs(own: Tensor, other: Tensor, out: Tensor) -> None:
    near = neighbours(other)
    torch.add(own.unsqueeze(2), near, out=out.view(near.shape)).relu_()


def _inverse_deviation(centred: Tensor, eps: float, out: Tensor) -> None:
    torch.linalg.vector_norm(centred, dim=1, keepdim=True, out=out)
    out.square_().div_(centred.shape[1]).add_(eps).rsqrt_()


def _relu_backward(result: Tensor, grad: Tensor) -> None:
    """In place; `result` is what relu gave."""
    torch.ops.aten.threshold_backward.grad_input(grad, result, 0, grad_input=grad)


def _weighted_sum(weights: Float[Tensor, "N fan 1"], terms: Float[Tensor, "N fan H"], out: Tensor) -> None:
    """Over fan; may overwrite the terms."""
    if terms.shape[1] * terms.shape[2] < _SMALL_PRODUCT:
        torch.sum(terms.mul_(weights), dim=1, keepdim=True, out=out)
    else:
        torch.bmm(weights.transpose(1, 2), terms, out=out)
