"""The sum over neighbours of `transition` on the CPU, in blocks that stay in cache."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from howm.models.mlp_cpu import inverse_deviation, relu_backward
from howm.models.product_cpu import product, product_plus

# Four such tensors stay in the second-level cache of two cores; half or twice as much is no faster.
_BLOCK_ELEMENTS = 2**19
_Rows = Integer[Tensor, "N fan"]


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
        blocks = list(_blocks(batch, num_slots, hidden))
        received, _ = _edges_of_slots(blocks[0][0].stop, num_slots)
        out = own.new_empty(batch * num_slots, hidden)
        mean1, rstd1, mean2, rstd2 = stats = own.new_empty(4, blocks[-1][2].stop, 1)
        work = own.new_empty(blocks[0][2].stop, hidden)
        kept = []
        for b, i, e in blocks:
            m1, r1, m2, r2 = mean1[e], rstd1[e], mean2[e], rstd2[e]
            h = work[: len(m1)]
            _relu_of_pairs(own[b], other[b], out=h)
            h.sub_(torch.mean(h, 1, keepdim=True, out=m1))
            h.mul_(inverse_deviation(h, eps, out=r1))
            y = product(h, weight, bias, relu=True)
            torch.sub(y, torch.mean(y, 1, keepdim=True, out=m2), out=h)
            inverse_deviation(h, eps, out=r2)
            out[i] = _sum_of_rows(h, received, r2)
            if keep:
                kept.append(y)
        ctx.save_for_backward(own, other, weight, bias, stats, *kept)
        ctx.eps = eps
        return out.view(own.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, other, weight, bias, (mean1, rstd1, mean2, rstd2), *kept = ctx.saved_tensors
        batch, num_slots, hidden = own.shape
        fan = num_slots - 1
        blocks = list(_blocks(batch, num_slots, hidden))
        received, sent = _edges_of_slots(blocks[0][0].stop, num_slots)
        work = own.new_empty(3, blocks[0][2].stop, hidden)
        d_own, d_other = own.new_empty(2, batch * num_slots, hidden)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        # Of a centred row W sees no mean; without it, what backward sends through W is centred as well.
        weight = weight - weight.mean(dim=1, keepdim=True)
        scale = rstd1 * rstd2
        pull = scale * rstd2.square() / -hidden
        grad = (grad - grad.mean(dim=-1, keepdim=True)).view(-1, 1, hidden)
        for (b, i, e), y in zip(blocks, kept, strict=True):
            m1, r1, g = mean1[e], rstd1[e], grad[i]
            h, t, d = work[:, : len(y)]

            # t = r1 dz = [z > 0] (r1 r2 g + κ (y - m2)) with κ = -r1 r2³ (g·y) / H
            kappa = torch.bmm(y.view(-1, fan, hidden), g.transpose(1, 2)).view(-1, 1).mul_(pull[e])
            torch.mul(y, kappa, out=t).sub_(kappa * mean2[e])
            t.view(-1, fan, hidden).addcmul_(scale[e].view(-1, fan, 1), g)
            relu_backward(y, t)

            _relu_of_pairs(own[b], other[b], out=h)
            d_weight = product_plus(t.t(), torch.sub(h, m1, out=d).t(), d_weight)
            d_bias.addmv_(t.t(), r1.reciprocal().squeeze(1))

            # dh = Wᵀt + τ (h - m1) with τ = -r1² (h·Wᵀt) / H; h·Wᵀt = t·(y - b) / r1 and t·y = -ε H κ: τ needs no Wᵀt
            tau = torch.addmv(kappa.squeeze(1), t, bias, beta=ctx.eps, alpha=1 / hidden).unsqueeze(1).mul_(r1)
            d = product_plus(t, weight.t(), d.mul_(tau))
            relu_backward(h, d)
            d_own[i], d_other[i] = _sum_of_rows(d, received), _sum_of_rows(d, sent)
        return d_own.view(own.shape), d_other.view(own.shape), d_weight, d_bias, None, None


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


@lru_cache(maxsize=8)
def _edges_of_slots(batch: int, num_slots: int) -> tuple[_Rows, _Rows]:
    """The rows of the edges that each slot receives, and of those that it sends."""
    received = torch.arange(batch * num_slots * (num_slots - 1)).view(-1, num_slots - 1)
    # Slot j is entry k = j - i - 1 (mod S) of the neighbours of slot i.
    slots = torch.arange(num_slots)
    receiver = (slots.unsqueeze(1) + slots[1:]) % num_slots
    rows = receiver * (num_slots - 1) + (slots.unsqueeze(1) - receiver - 1) % num_slots
    return received, (received[::num_slots, :1, None] + rows).flatten(0, 1)


def _sum_of_rows(
    terms: Float[Tensor, "E H"], rows: _Rows, weights: Float[Tensor, "E 1"] | None = None
) -> Float[Tensor, "slots H"]:
    """Σ_k weight · terms[rows[n, k]] for every slot n of the block, whose weights are in the order of the rows."""
    rows = rows[: len(terms) // rows.shape[1]]
    of_rows = None if weights is None else weights.view(rows.shape)
    return embedding_bag(rows, terms, mode="sum", per_sample_weights=of_rows)
