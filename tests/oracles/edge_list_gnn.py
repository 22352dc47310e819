"""The transition as C-SWM writes it, over an explicit list of edges: slow, obvious, the reference."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from howm.models.mlp import MLP


class EdgeListGNN(nn.Module):
    """Same parameters, under the same names, as `howm.models.transition.GNNTransition`."""

    def __init__(self, slot_size: int, action_size: int, hidden: int) -> None:
        super().__init__()
        self.edge = MLP(2 * slot_size, hidden, hidden)
        self.node = MLP(slot_size + action_size + hidden, hidden, slot_size)

    def forward(self, slots: Tensor, actions: Tensor) -> Tensor:
        batch, num_slots, slot_size = slots.shape
        apart = ~torch.eye(num_slots, dtype=torch.bool, device=slots.device)
        receiver, sender = apart.nonzero(as_tuple=True)
        first = num_slots * torch.arange(batch, device=slots.device).unsqueeze(1)
        receiver, sender = (first + receiver).flatten(), (first + sender).flatten()

        nodes = slots.reshape(batch * num_slots, slot_size)
        edges = by_layer(self.edge, torch.cat([nodes[receiver], nodes[sender]], dim=1))
        agg = edges.new_zeros(batch * num_slots, edges.shape[1]).index_add(0, receiver, edges)
        delta = by_layer(self.node, torch.cat([nodes, actions.flatten(0, 1), agg], dim=1))
        out: Tensor = delta.view(batch, num_slots, slot_size)
        return out


class EdgeListCorrected(nn.Module):
    """`howm.models.transition.CorrectedTransition` in the same way."""

    def __init__(self, slot_size: int, action_size: int, hidden: int) -> None:
        super().__init__()
        self.alone = MLP(slot_size + action_size, hidden, slot_size)
        self.correct = EdgeListGNN(slot_size, action_size + slot_size, hidden)

    def forward(self, slots: Tensor, actions: Tensor) -> Tensor:
        move = by_layer(self.alone, torch.cat([slots, actions], dim=2))
        correction: Tensor = self.correct(slots + move, torch.cat([actions, move], dim=2))
        return move + correction


def by_layer(mlp: MLP, x: Tensor) -> Tensor:
    """As `torch.nn.Sequential` computes it."""
    for layer in mlp:
        x = layer(x)
    return x
