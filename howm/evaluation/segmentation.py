"""How well masks follow the true objects: foreground ARI and matched IoU, from the environment's ground truth."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer

from howm.data.episodes import Episodes
from howm.models.distance import assignment
from howm.models.world_model import WorldModel, device_of, evaluating
from howm.runs.result import Segmentation


def contingency(
    labels: Integer[np.ndarray, "B pixels"], truth: Bool[np.ndarray, "B K pixels"], slots: int
) -> Integer[np.ndarray, "B K slots"]:
    """How many pixels of each object have each label."""
    chosen = labels[:, :, None] == np.arange(slots)
    return np.asarray(np.einsum("bkp,bps->bks", truth.astype(np.int64), chosen.astype(np.int64)))


def foreground_ari(table: Integer[np.ndarray, "B K slots"]) -> Float[np.ndarray, " B"]:
    """The Rand index of the objects' pixels, adjusted for chance; 1 where labels and objects are the same partition."""

    def pairs(counts: np.ndarray) -> np.ndarray:
        return np.asarray(counts * (counts - 1) / 2)

    together = pairs(table).sum(axis=(1, 2))
    objects, labels = pairs(table.sum(axis=2)).sum(axis=1), pairs(table.sum(axis=1)).sum(axis=1)
    chance = objects * labels / np.maximum(pairs(table.sum(axis=(1, 2))), 1)
    most = (objects + labels) / 2
    same = most == chance  # one object, or one pixel each: there is one partition only
    return np.where(same, 1.0, (together - chance) / np.where(same, 1.0, most - chance))


def matched_iou(
    labels: Integer[np.ndarray, "B pixels"], truth: Bool[np.ndarray, "B K pixels"], slots: int
) -> Float[np.ndarray, " B"]:
    """Intersection over union of each object that can be seen with a label of its own, in the best matching."""
    table = contingency(labels, truth, slots)
    sizes = (labels[:, :, None] == np.arange(slots)).sum(axis=1)
    union = truth.sum(axis=2)[:, :, None] + sizes[:, None, :] - table
    iou = table / np.maximum(union, 1)
    k = truth.shape[1]
    square = np.zeros((len(iou), max(k, slots), max(k, slots)))
    square[:, :k, :slots] = iou
    chosen = assignment(torch.from_numpy(-square)).numpy()
    found = np.take_along_axis(square, chosen[:, :, None], axis=2)[:, :k, 0]
    seen = truth.any(axis=2)
    return np.asarray((found * seen).sum(axis=1) / np.maximum(seen.sum(axis=1), 1))


@torch.no_grad()
def segmentation(model: WorldModel, episodes: Episodes, frames: int = 500) -> Segmentation | None:
    """Of frames drawn from the episodes; None where model or world has no masks. A pixel is its strongest mask's."""
    world, scene_ids, states = episodes.state()
    rng = np.random.default_rng(0)
    episode, time = rng.integers(len(episodes), size=frames), rng.integers(episodes.steps + 1, size=frames)
    aris, ious = [], []
    with evaluating(model):
        for part in np.array_split(np.arange(frames), max(1, frames // 100)):
            obs = torch.from_numpy(episodes.observe(episode[part], time[part])).to(device_of(model))
            masks = model.masks(obs)
            if masks is None:
                break
            labels = masks.flatten(2).argmax(dim=1).cpu().numpy()
            truth = world.masks(scene_ids[episode[part]], states[episode[part], time[part]])
            if truth is None:
                break
            truth = truth.reshape(*truth.shape[:2], -1)
            aris.append(foreground_ari(contingency(labels, truth, masks.shape[1])))
            ious.append(matched_iou(labels, truth, masks.shape[1]))
    if not aris:
        return None
    return Segmentation(100 * float(np.concatenate(aris).mean()), 100 * float(np.concatenate(ious).mean()))
