"""Library actions to slots: in fixed order, by the scene's ids, or all actions to every slot."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot


def factored(action: Int[Tensor, "B"], n: int) -> Float[Tensor, "B N 4"]:
    """One action factor per library object: all zero but for the object that acts."""
    return one_hot(action, 4 * n).to(torch.get_default_dtype()).view(-1, n, 4)


def scene_binding(object_ids: Int[Tensor, "B K"], n: int) -> Float[Tensor, "B N K"]:
    """Slot j receives the actions of the scene's j-th smallest object id, whatever that slot holds (Σ_K-CSWM)."""
    return one_hot(object_ids.sort(dim=1).values, n).to(torch.get_default_dtype()).transpose(1, 2)


def bind(binding: Float[Tensor, "B N S"], action: Int[Tensor, "B"]) -> Float[Tensor, "B S 4"]:
    """The bound action Mᵀa: the acting object's row of the binding times its direction, which costs O(S), not O(NS)."""
    rows = binding[torch.arange(len(action), device=action.device), action // 4]
    return rows[:, :, None] * one_hot(action % 4, 4)[:, None, :].to(rows.dtype)


def copied(action: Int[Tensor, "B"], n: int, slots: int) -> Float[Tensor, "B S actions"]:
    """All 4N action factors to every slot (Σ_K-CSWM(CA))."""
    return factored(action, n).flatten(1)[:, None, :].expand(-1, slots, -1)
