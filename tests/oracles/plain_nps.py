"""A Neural Production System slot by slot, in evaluation: slow, obvious, the reference."""

import torch
from torch import Tensor
from torch.nn.functional import relu

from howm.models.production import ProductionTransition


def plain_production(system: ProductionTransition, slots: Tensor, actions: Tensor) -> Tensor:
    changes = torch.zeros_like(slots)
    for b in range(len(slots)):
        for i, (slot, action) in enumerate(zip(slots[b], actions[b], strict=True)):
            own = torch.cat([slot, action])
            rule = max(
                range(len(system.rule_embeddings)),
                key=lambda r, own=own: float(system.condition(own) @ system.rule_embeddings[r]),
            )
            others = [j for j in range(slots.shape[1]) if j != i]
            context = torch.zeros_like(slot)
            if others:
                query = system.query(own)
                context = slots[b, max(others, key=lambda j, b=b, q=query: float(q @ system.key(slots[b, j])))]
            hidden = torch.cat([own, context])
            for layer, (weight, bias) in enumerate(zip(system.weights, system.biases, strict=True)):
                hidden = hidden @ weight[rule] + bias[rule, 0]
                if layer < len(system.weights) - 1:
                    hidden = relu(hidden)
            changes[b, i] = hidden
    return changes
