"""Transitions between slot states: message passing (C-SWM), and one MLP over all slots at once (C-WM)."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from howm.models.mlp import MLP

# The work tensors of a block stay in the second-level cache; larger blocks and smaller ones are both slower.
_BLOCK_ELEMENTS = 2**18
# torch.bmm computes products of fewer multiplications one element at a time.
_SMALL_PRODUCT = 400

_Layers = tuple[nn.Linear, nn.LayerNorm, nn.Linear, nn.LayerNorm, nn.Linear]


class GNNTransition(nn.Module):
    """Σ-equivariant message passing: Δ_i = node(s_i, a_i, Σ_{j≠i} edge(s_i, s_j)); the next state is s + Δ."""

    def __init__(self, slot_size: int, action_size: int, hidden: int) -> None:
        super().__init__()
        self.edge = MLP(2 * slot_size, hidden, hidden)
        self.node = MLP(slot_size + action_size + hidden, hidden, slot_size)

    def forward(self, slots: Float[Tensor, "B S D"], actions: Float[Tensor, "B S A"]) -> Float[Tensor, "B S D"]:
        batch, num_slots, _ = slots.shape
        pair, norm1, middle, norm2, last = _layers(self.edge)
        first, *rest = self.node

        # W [s_i, s_j] = W_own s_i + W_other s_j: a product for every slot, none for every edge.
        w_own, w_other = pair.weight.chunk(2, dim=1)
        own, other = F.linear(slots, w_own, pair.bias), F.linear(slots, w_other)
        total = _sum_of_normalised(own, other, *_folded(norm1, middle), norm1.eps)

        # The last edge layer is linear: it acts on the sum over the neighbours instead of on every edge.
        weight, bias = _folded(norm2, last)
        bias = (num_slots - 1) * bias
        inputs = torch.cat([slots, actions], dim=-1)
        if batch * num_slots > len(weight):
            # Two linear layers in a row: with more nodes than hidden units, multiplying the weights is cheaper.
            w_inputs, w_total = first.weight.split([inputs.shape[-1], len(bias)], dim=1)
            weight, bias = torch.cat([w_inputs, w_total @ weight], dim=1), first.bias + w_total @ bias
            out = F.linear(torch.cat([inputs, total], dim=-1), weight, bias)
        else:
            out = first(torch.cat([inputs, F.linear(total, weight, bias)], dim=-1))
        for layer in rest:
            out = layer(out)
        return out


class MLPTransition(nn.Module):
    """Δ from one MLP over all slots and all actions, in their order: no equivariance."""

    def __init__(self, num_slots: int, slot_size: int, action_total: int, hidden: int) -> None:
        super().__init__()
        self.mlp = MLP(num_slots * slot_size + action_total, hidden, num_slots * slot_size)

    def forward(self, slots: Float[Tensor, "B S D"], actions: Float[Tensor, "B S A"]) -> Float[Tensor, "B S D"]:
        delta: Tensor = self.mlp(torch.cat([slots.flatten(1), actions.flatten(1)], dim=1))
        return delta.view_as(slots)


def _layers(mlp: MLP) -> _Layers:
    linear1, _, norm1, linear2, _, norm2, linear3 = mlp
    return cast(_Layers, (linear1, norm1, linear2, norm2, linear3))


def _folded(norm: nn.LayerNorm, linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """W, b with linear(norm(x)) = W x̂ + b, where x̂ is x normalised but not scaled and shifted."""
    return linear.weight * norm.weight, linear.bias + linear.weight @ norm.bias


def _neighbours(x: Float[Tensor, "B S H"]) -> Float[Tensor, "B S S-1 H"]:
    """A view of x laid out twice: entry [b, i, k] is slot (i + 1 + k) mod S, so every slot but i."""
    num_slots = x.shape[1]
    return torch.cat([x[:, 1:], x[:, :-1]], dim=1).unfold(1, num_slots - 1, 1).transpose(2, 3)


def _sum_of_normalised(own: Tensor, other: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Σ_{j≠i} N(relu(W N(relu(own_i + other_j)) + b)) for every slot i, N a LayerNorm without affine map."""
    blocked = own.device.type == "cpu" and own.dtype in (torch.float32, torch.float64) and own.shape[1] > 1
    if blocked and not torch.compiler.is_compiling():
        centred = weight - weight.mean(dim=1, keepdim=True)
        out: Tensor = _BlockedSum.apply(own, other, centred, bias, eps, torch.is_grad_enabled())  # type: ignore[no-untyped-call]
        return out
    hidden = own.shape[-1:]
    pairs = F.layer_norm(F.relu(own.unsqueeze(2) + _neighbours(other)), hidden, eps=eps)
    return F.layer_norm(F.relu(F.linear(pairs, weight, bias)), hidden, eps=eps).sum(dim=2)


class _BlockedSum(torch.autograd.Function):
    """`_sum_of_normalised` block by block, in cache; of all edge tensors only y is kept for backward.

    With h = relu(own_i + other_j) and m, r the mean and inverse deviation of a row: z = r1 W h + b, which needs
    rows of W that sum to zero (W N(h) does not change if they are made to); y = relu(z); out_i = Σ_j r2 (y - m2).
    """

    @staticmethod
    def forward(
        ctx: Any, own: Tensor, other: Tensor, weight: Tensor, bias: Tensor, eps: float, training: bool
    ) -> Tensor:
        batch, num_slots, hidden = own.shape
        fan = num_slots - 1
        blocks = list(_blocks(batch, num_slots, hidden))
        edges, largest = batch * num_slots * fan, max(e.stop - e.start for _, _, e in blocks)
        out = own.new_empty(batch * num_slots, 1, hidden)
        kept = own.new_empty(edges if training else largest, hidden)
        mean1, rstd1, mean2, rstd2 = stats = own.new_empty(4, edges, 1)
        work = own.new_empty(largest, hidden)
        for b, i, e in blocks:
            near = _neighbours(other[b])
            m1, r1, m2, r2 = mean1[e], rstd1[e], mean2[e], rstd2[e]
            h, y = work[: len(m1)], kept[e] if training else kept[: len(m1)]
            torch.add(own[b].unsqueeze(2), near, out=h.view(near.shape)).relu_()
            h.sub_(torch.mean(h, 1, keepdim=True, out=m1))
            _rstd(h, eps, out=r1)
            torch.addcmul(bias, torch.mm(h, weight.t(), out=y), r1, out=y).relu_()
            torch.sub(y, torch.mean(y, 1, keepdim=True, out=m2), out=h)
            _rstd(h, eps, out=r2)
            _weighted_sum(r2.view(-1, fan, 1), h.view(-1, fan, hidden), out=out[i])
        ctx.save_for_backward(own, other, weight, bias, kept, stats)
        ctx.eps = eps
        return out.view(own.shape)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, other, weight, bias, kept, stats = ctx.saved_tensors
        batch, num_slots, hidden = own.shape
        fan = num_slots - 1
        blocks = list(_blocks(batch, num_slots, hidden))
        work = own.new_empty(3, max(e.stop - e.start for _, _, e in blocks), hidden)
        d_own, d_other = own.new_empty(batch * num_slots, 1, hidden), torch.empty_like(own)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        names = torch.eye(num_slots, dtype=own.dtype, device=own.device)
        sender = _neighbours(names.unsqueeze(0)).reshape(-1, num_slots).t().expand(batch, -1, -1)
        mean1, rstd1, mean2, rstd2 = stats
        scale = rstd1 * rstd2
        pull = scale * rstd2.square() / -hidden
        ones = own.new_ones(batch * num_slots, fan, 1)
        grad = (grad - grad.mean(dim=-1, keepdim=True)).view(-1, 1, hidden)
        for b, i, e in blocks:
            m1, r1, y, g = mean1[e], rstd1[e], kept[e], grad[i]
            h, t, d = work[:, : len(y)]
            t3, y3, d3 = (x.view(-1, fan, hidden) for x in (t, y, d))

            # t = r1 dz = [z > 0] (r1 r2 g + κ (y - m2)) with κ = -r1 r2³ (g·y) / H
            kappa = _row_products(y3, g, out=t3).view(-1, 1).mul_(pull[e])
            torch.mul(y, kappa, out=t).sub_(kappa * mean2[e])
            _where_positive(y, t3.addcmul_(scale[e].view(-1, fan, 1), g).view_as(t))

            near = _neighbours(other[b])
            torch.add(own[b].unsqueeze(2), near, out=h.view(near.shape)).relu_()
            d_weight.addmm_(t.t(), h)
            d_bias.addmv_(t.t(), r1.reciprocal().squeeze(1))

            # dh = Wᵀt - r1² (h·Wᵀt) / H (h - m1); h·Wᵀt = t·(y - b) / r1, and t·y = -ε H κ: no product of rows
            tau = torch.addmv(kappa.squeeze(1), t, bias, beta=ctx.eps, alpha=1 / hidden).unsqueeze(1).mul_(r1)
            _where_positive(h, torch.mul(h, tau, out=d).sub_(tau * m1).addmm_(t, weight))
            _weighted_sum(ones[i], d3, out=d_own[i])
            torch.bmm(sender[b], d.view(len(own[b]), -1, hidden), out=d_other[b])
        return d_own.view(own.shape), d_other, d_weight, d_bias, None, None


def _blocks(batch: int, num_slots: int, hidden: int) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of the batch, with the slots and the edges that belong to them."""
    edges = num_slots * (num_slots - 1)
    size = max(1, _BLOCK_ELEMENTS // (edges * hidden))
    for start in range(0, batch, size):
        stop = min(start + size, batch)
        yield slice(start, stop), slice(start * num_slots, stop * num_slots), slice(start * edges, stop * edges)


def _rstd(centred: Tensor, eps: float, out: Tensor) -> None:
    torch.linalg.vector_norm(centred, dim=1, keepdim=True, out=out)
    out.square_().div_(centred.shape[1]).add_(eps).rsqrt_()


def _where_positive(x: Tensor, grad: Tensor) -> None:
    """Backward of relu at its result x, in place."""
    torch.ops.aten.threshold_backward.grad_input(grad, x, 0, grad_input=grad)


def _weighted_sum(weight: Tensor, terms: Float[Tensor, "N fan H"], out: Float[Tensor, "N 1 H"]) -> None:
    if terms[0].numel() < _SMALL_PRODUCT:
        torch.sum(terms.mul_(weight), dim=1, keepdim=True, out=out)
    else:
        torch.bmm(weight.transpose(1, 2), terms, out=out)


def _row_products(rows: Tensor, other: Tensor, out: Tensor) -> Tensor:
    if rows[0].numel() < _SMALL_PRODUCT:
        return torch.mul(rows, other, out=out).sum(dim=2)
    return torch.bmm(rows, other.transpose(1, 2))
