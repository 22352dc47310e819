"""How good slots are, by reconstruction and by the true masks of the objects."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from howm.data.episodes import Episodes
from howm.data.transitions import Transitions
from howm.models.cells import unit
from howm.models.extractors.base import Extractor
from howm.models.world_model import device_of, evaluating


def true_masks(
    episodes: Episodes, episode: Int[np.ndarray, " B"], time: Int[np.ndarray, " B"] | int
) -> Bool[Tensor, "B K H W"] | None:
    """The pixels that show each object of some frames, of which enough is visible; None where the data does not
    tell."""
    if episodes.states is None or episodes.pictures is not None:
        return None
    world, _, states = episodes.state()
    masks = world.countable_masks(episodes.ids_at(episode, time), states[episode, time])
    return None if masks is None else torch.from_numpy(masks)


def object_slots(masks: Float[Tensor, "B S H W"], truth: Bool[Tensor, "B K H W"]) -> Int[Tensor, "B K"]:
    """The slot that holds each object: whose mask covers most of the object's pixels; -1 where none can be seen."""
    covered = truth.flatten(2).to(masks.dtype) @ masks.flatten(2).transpose(1, 2)
    return torch.where(truth.flatten(2).any(dim=2), covered.argmax(dim=2), -1)


def one_slot_each(holder: Int[Tensor, "B K"], background: int | None) -> Bool[Tensor, " B"]:
    """Whether the objects of a frame that can be seen have a slot each, none of them the background's, if any."""
    alone = -1 - torch.arange(holder.shape[1], device=holder.device)
    ordered = torch.where(holder < 0, alone, holder).sort(dim=1).values
    apart = (ordered[:, 1:] != ordered[:, :-1]).all(dim=1)
    return apart if background is None else apart & (holder != background).all(dim=1)


def own_slots(holder: Int[Tensor, "B K"], background: int | None) -> Bool[Tensor, " visible"]:
    """Of all objects that can be seen, whether each has a slot that no other has and that is not the background's."""
    visible = holder >= 0
    shared = (holder[:, :, None] == holder[:, None, :]).sum(dim=2) > 1
    return (~shared & (holder != (-1 if background is None else background)))[visible]


@torch.no_grad()
def slot_quality_report(extractor: Extractor, held_out: Transitions, frames: int = 500) -> list[str]:
    """How good trained slots are, in a line, and a second one with advice where they look bad.

    The true share of frames in which every object has a slot of its own stands beside it and decides nothing.
    """
    pictures = held_out.pictures(_some_frames(held_out.frame_count, frames)).to(device_of(extractor))
    with evaluating(extractor):
        drawn = extractor.draw(extractor.slots(pictures))
    truth = unit(pictures)
    error = float((drawn - truth).square().mean() / truth.var(dim=0).mean())
    right = extraction_accuracy(extractor, held_out.episodes)
    said = (
        f"slots: {error:.2%} of the pictures unexplained; "
        f"frames in which every object has a slot of its own: {'unknown' if right is None else f'{right:.2f} %'}"
    )
    if error <= 0.05:
        return [said]
    advice = f"warning: the slots leave {error:.0%} of the pictures unexplained; try more represent.steps"
    side, world = extractor.assumed_cell, held_out.episodes.world
    if side is not None and (world is None or world.cell_pixels is None):  # nothing says that the data has a grid
        advice += (
            f". This extractor assumes that every object lies in one cell of a grid, {side} pixels wide; where it does "
            "not, take another: model.extractor.kind=anchors"
        )
    return [said, advice]


@torch.no_grad()
def extraction_accuracy(extractor: Extractor, episodes: Episodes, frames: int = 2_000) -> float | None:
    """The share, in percent, of frames in which every object has a slot of its own; None without true masks."""
    chosen = _some_frames(len(episodes) * (episodes.steps + 1), frames)
    right = 0
    with evaluating(extractor):
        for part in np.array_split(chosen, max(1, len(chosen) // 500)):
            episode, time = np.divmod(part, episodes.steps + 1)
            pictures = torch.from_numpy(episodes.observe(episode, time)).to(device_of(extractor))
            truth = true_masks(episodes, episode, time)
            if truth is None:
                return None
            slots = extractor.slots(pictures)
            holder = object_slots(extractor.masks(slots), truth.to(pictures.device))
            background = extractor.num_slots - 1 if extractor.has_background else None
            right += int(one_slot_each(holder, background).sum())
    return 100 * right / len(chosen)


def _some_frames(count: int, limit: int) -> Int[np.ndarray, " B"]:
    """All frames where there are few, else as many as the limit, always the same ones."""
    return np.arange(count) if count <= limit else np.random.default_rng(0).integers(count, size=limit)
