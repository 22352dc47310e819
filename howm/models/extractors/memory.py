"""Slots over time: what was seen stays, also behind another object. No action and no label is used."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from howm.models.extractors.layout import SlotLayout


def code_distances(
    layout: SlotLayout, slots: Float[Tensor, "B S D"], others: Float[Tensor, "B R D"]
) -> Float[Tensor, "B S R"]:
    """How unlike the codes of slots are; slots without an object are like none."""
    code, _, _, presence = layout.split(slots)
    other_code, _, _, other_presence = layout.split(others)
    absent = (presence < 0.5).unsqueeze(2) | (other_presence < 0.5).unsqueeze(1)
    return torch.cdist(code, other_code).masked_fill(absent, 1e6)


def match(
    layout: SlotLayout, slots: Float[Tensor, "B S D"], others: Float[Tensor, "B R D"]
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """The slot of another frame that holds the same object, and whether that is sure: both are each other's nearest in
    code, and near."""
    apart = code_distances(layout, slots, others)
    there, back = apart.argmin(dim=2), apart.argmin(dim=1)
    mutual = back.gather(1, there) == torch.arange(there.shape[1], device=there.device)
    return there, mutual & (apart.amin(dim=2) < layout.same_code)


def carry(layout: SlotLayout, before: Float[Tensor, "B S D"], now: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
    """What ``now`` shows, and in the slots that it leaves empty the objects of ``before`` that are not found again,
    where they were; those that were seen last come first."""
    _, sure = match(layout, before, now)
    present, shown = (layout.split(slots)[3] > 0.5 for slots in (before, now))
    like_none = code_distances(layout, before, now).amin(dim=2) >= layout.same_code / 2
    hidden = present & ~sure & like_none
    rank = (~shown).long().cumsum(dim=1) - 1  # of an empty slot among the empty ones
    fills = ~shown & (rank < hidden.sum(dim=1, keepdim=True))
    first = (~hidden).long().argsort(dim=1, stable=True).gather(1, rank.clamp_min(0))
    return torch.where(fills.unsqueeze(2), before.gather(1, first.unsqueeze(2).expand_as(now)), now)
