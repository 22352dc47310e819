"""Transitions between slot states: message passing (C-SWM), moves that it corrects, one MLP over all slots (C-WM)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, relu

from howm.models.gnn_cpu import BlockedSum, neighbours
from howm.models.mlp import MLP, folded


class GNNTransition(nn.Module):
    """Σ-equivariant message passing: Δ_i = node(s_i, a_i, Σ_{j≠i} edge(s_i, s_j)); the next state is s + Δ.

    Edges begin as functions of the difference s_j - s_i, with kinks at many distances. From the usual random weights
    it takes thousands of steps longer until messages are used, that is, until objects stand in each other's way.

    ``message_scale`` multiplies the sum; the last edge layer can absorb it. The first ``message_warmup`` training steps
    have no messages, over as many steps more they fade in: while slots do not yet hold one object each, the sum over
    all others is noise that hides what an object's own action does.
    """

    trained: Tensor

    def __init__(
        self, slot_size: int, action_size: int, hidden: int, message_scale: float = 1.0, message_warmup: int = 0
    ) -> None:
        super().__init__()
        self.message_scale, self.message_warmup = message_scale, message_warmup
        if message_warmup:
            # Training steps so far. They are saved with the weights, so that a run resumes exactly.
            self.register_buffer("trained", torch.zeros((), dtype=torch.int64))
        self.edge = MLP(2 * slot_size, hidden, hidden)
        self.node = MLP(slot_size + action_size + hidden, hidden, slot_size)
        pair = self.edge.layers[0]
        with torch.no_grad():
            own, other = pair.weight.chunk(2, dim=1)
            own.mul_(0.1).sub_(other)
            pair.bias.uniform_(-1, 1)

    def forward(self, slots: Float[Tensor, "B S D"], actions: Float[Tensor, "B S A"]) -> Float[Tensor, "B S D"]:
        batch, num_slots, _ = slots.shape
        scale = self._scale()
        if _skippable() and scale == 0:
            silence = slots.new_zeros(batch, num_slots, self.edge.layers[-1].out_features)
            silent: Tensor = self.node(torch.cat([slots, actions, silence], dim=-1))
            return silent
        pair, norm1, middle, norm2, last = self.edge.layers

        # W [s_i, s_j] = W_own s_i + W_other s_j: a product for every slot, none for every edge.
        w_own, w_other = pair.weight.chunk(2, dim=1)
        own, other = linear(slots, w_own, pair.bias), linear(slots, w_other)
        total = _sum_over_neighbours(own, other, *folded(norm1, middle), norm1.eps)

        # The last edge layer is linear: it acts on the sum over the neighbours instead of on every edge.
        weight, bias = folded(norm2, last)
        weight, bias = scale * weight, scale * (num_slots - 1) * bias
        first = self.node.layers[0]
        inputs = torch.cat([slots, actions], dim=-1)
        if batch * num_slots <= len(weight):
            inputs = torch.cat([inputs, linear(total, weight, bias)], dim=-1)
            return self.node.with_first(inputs, first.weight, first.bias)
        # Two linear layers in a row: with more nodes than hidden units, multiplying the weights is cheaper.
        w_inputs, w_total = first.weight.split_with_sizes([inputs.shape[-1], len(weight)], dim=1)
        weight, bias = torch.cat([w_inputs, w_total @ weight], dim=1), first.bias + w_total @ bias
        return self.node.with_first(torch.cat([inputs, total], dim=-1), weight, bias)

    def _scale(self) -> Tensor | float:
        """The factor of the messages now; a training step is counted.

        A model is evaluated with the messages that it was last trained with: others would be noise to it.
        """
        if not self.message_warmup:
            return self.message_scale
        scale = self.message_scale * (self.trained / self.message_warmup - 1).clamp(0, 1)
        if self.training:
            self.trained += 1
        return scale


class CorrectedTransition(nn.Module):
    """All objects first move as if each were alone; a GNN that sees where they would end corrects what is in the way.

    Δ = m + GNN(s + m, [a, m]) with m_i = alone(s_i, a_i). Whether two objects meet is then a question of one distance,
    the same for all directions, which a GNN on the present state has to learn for each of them.
    """

    def __init__(self, slot_size: int, action_size: int, hidden: int, message_warmup: int = 0) -> None:
        super().__init__()
        self.alone = MLP(slot_size + action_size, hidden, slot_size)
        self.correct = GNNTransition(slot_size, action_size + slot_size, hidden, message_warmup=message_warmup)

    def forward(self, slots: Float[Tensor, "B S D"], actions: Float[Tensor, "B S A"]) -> Float[Tensor, "B S D"]:
        move: Tensor = self.alone(torch.cat([slots, actions], dim=-1))
        correction: Tensor = self.correct(slots + move, torch.cat([actions, move], dim=-1))
        return move + correction


class MLPTransition(nn.Module):
    """Δ from one MLP over all slots and all actions in their order: no equivariance."""

    def __init__(self, num_slots: int, slot_size: int, action_total: int, hidden: int) -> None:
        super().__init__()
        self.mlp = MLP(num_slots * slot_size + action_total, hidden, num_slots * slot_size)

    def forward(self, slots: Float[Tensor, "B S D"], actions: Float[Tensor, "B S A"]) -> Float[Tensor, "B S D"]:
        delta: Tensor = self.mlp(torch.cat([slots.flatten(1), actions.flatten(1)], dim=1))
        return delta.view(slots.shape)


def _skippable() -> bool:
    """Whether weights may take no part in a step: DistributedDataParallel would wait for their gradients for ever."""
    parallel = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not parallel and not torch.compiler.is_compiling()


def _sum_over_neighbours(
    own: Float[Tensor, "B S H"],
    other: Float[Tensor, "B S H"],
    weight: Float[Tensor, "H H"],
    bias: Float[Tensor, "H"],
    eps: float,
) -> Float[Tensor, "B S H"]:
    """Σ_{j≠i} N(relu(W N(relu(own_i + other_j)) + b)) for every slot i."""
    blocked = own.device.type == "cpu" and own.dtype in (torch.float32, torch.float64)
    if blocked and own.numel() > 0 and own.shape[1] > 1 and not torch.compiler.is_compiling():
        inputs = (own, other, weight, bias)
        out: Tensor = BlockedSum.apply(*inputs, eps, any(x.requires_grad for x in inputs))  # type: ignore[no-untyped-call]
        return out
    hidden = own.shape[-1:]
    first = layer_norm(relu(own.unsqueeze(2) + neighbours(other)), hidden, eps=eps)
    return layer_norm(relu(linear(first, weight, bias)), hidden, eps=eps).sum(dim=2)
