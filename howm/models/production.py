"""Neural Production Systems (Goyal et al., 2021) as a transition: sparse rules instead of messages from everyone."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax, one_hot, relu


class ProductionTransition(nn.Module):
    """Every slot picks one rule and one other slot, and the rule says how it changes: Δ_i = rule_r(s_i, a_i, s_j).

    This is the parallel form of the paper, Σ-equivariant like a GNN. Both picks are attention with one winner: sampled
    by Gumbel-softmax with straight-through gradients in training, and the best one in evaluation.
    """

    def __init__(self, slot_size: int, action_size: int, hidden: int, rules: int, key_size: int = 32) -> None:
        super().__init__()
        self.rule_embeddings = nn.Parameter(torch.randn(rules, key_size))
        self.condition = nn.Linear(slot_size + action_size, key_size)
        self.query = nn.Linear(slot_size + action_size, key_size)
        self.key = nn.Linear(slot_size, key_size)
        sizes = (2 * slot_size + action_size, hidden, hidden, slot_size)
        bounds = [1 / math.sqrt(size) for size in sizes[:-1]]
        self.weights = nn.ParameterList(
            torch.empty(rules, before, after).uniform_(-bound, bound)
            for before, after, bound in zip(sizes, sizes[1:], bounds, strict=False)
        )
        self.biases = nn.ParameterList(
            torch.empty(rules, 1, size).uniform_(-bound, bound) for size, bound in zip(sizes[1:], bounds, strict=True)
        )

    def forward(self, slots: Float[Tensor, "B S D"], actions: Float[Tensor, "B S A"]) -> Float[Tensor, "B S D"]:
        batch, num_slots, size = slots.shape
        inputs = torch.cat([slots, actions], dim=-1)
        scale = self.rule_embeddings.shape[1] ** -0.5
        rule = self._pick(self.condition(inputs) @ self.rule_embeddings.T * scale)
        context = torch.zeros_like(slots)
        if num_slots > 1:
            fit = self.query(inputs) @ self.key(slots).transpose(1, 2) * scale
            itself = torch.eye(num_slots, dtype=torch.bool, device=slots.device)
            context = self._pick(fit.masked_fill(itself, -torch.inf)) @ slots
        hidden = torch.cat([inputs, context], dim=-1).flatten(0, 1)
        hidden = hidden.expand(len(self.rule_embeddings), -1, -1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = relu(torch.baddbmm(bias, hidden, weight))
        changes = torch.baddbmm(self.biases[-1], hidden, self.weights[-1])  # of every slot by every rule
        return torch.einsum("bsr,rbsd->bsd", rule, changes.view(-1, batch, num_slots, size))

    def _pick(self, scores: Float[Tensor, "B S choices"]) -> Float[Tensor, "B S choices"]:
        """One choice for every slot, as a one-hot row."""
        if self.training:
            return gumbel_softmax(scores.float(), hard=True).to(scores.dtype)
        return one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
