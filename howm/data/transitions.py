"""Batches of transitions with controlled negatives.

Pictures, actions and nothing else are what a model may see. Object ids are privileged and travel apart.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from howm.data.episodes import Episodes
from howm.data.privileged import Privileged
from howm.errors import HowmError


@dataclass(frozen=True)
class FrameIndex:
    """Transitions named by frame: frame ``episode * (steps + 1) + time`` of the episodes they come from."""

    obs: Int[np.ndarray, " B"]
    action: Int[np.ndarray, " B"]
    next_obs: Int[np.ndarray, " B"]
    negative_obs: Int[np.ndarray, " B"]

    def __len__(self) -> int:
        return len(self.obs)

    def __getitem__(self, rows: slice) -> "FrameIndex":
        return FrameIndex(self.obs[rows], self.action[rows], self.next_obs[rows], self.negative_obs[rows])


@dataclass(frozen=True)
class PictureBatch:
    """Transitions as pictures (B, height, width, 3), uint8 or float in 0-1, and library actions (B,).

    ``privileged`` is of the scenes of ``obs`` and ``next_obs``, and ``negative_privileged`` of those of the negatives;
    models that do not declare ``privileged`` are not given them. ``actors`` are the objects (B, R) that act at some
    time in the episodes of ``obs``, filled up with -1, and ``negative_actors`` those of the negatives' episodes.
    """

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    negative_obs: Tensor
    privileged: Privileged | None = None
    negative_privileged: Privileged | None = None
    actors: Tensor | None = None
    negative_actors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.action)

    def together(self) -> tuple[Tensor, Privileged | None]:
        """All 3B pictures, current, next and negative ones, and what is privileged of them."""
        pictures = torch.cat([self.obs, self.next_obs, self.negative_obs])
        if self.privileged is None or self.negative_privileged is None:
            return pictures, None
        ids, negative_ids = self.privileged.object_ids, self.negative_privileged.object_ids
        return pictures, Privileged(torch.cat([ids, ids, negative_ids]))

    def without_privileged(self) -> "PictureBatch":
        return replace(self, privileged=None, negative_privileged=None)

    def to(self, device: torch.device | str) -> "PictureBatch":
        return PictureBatch(
            self.obs.to(device),
            self.action.to(device),
            self.next_obs.to(device),
            self.negative_obs.to(device),
            self.privileged and self.privileged.to(device),
            self.negative_privileged and self.negative_privileged.to(device),
            _moved(self.actors, device),
            _moved(self.negative_actors, device),
        )


@dataclass(frozen=True)
class SlotBatch:
    """Transitions as the slots (B, S, D) that a frozen extractor made of their pictures, and library actions (B,).

    ``actors`` are those of a `PictureBatch`.
    """

    slots: Tensor
    action: Tensor
    next_slots: Tensor
    negative_slots: Tensor
    actors: Tensor | None = None
    negative_actors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.action)

    def together(self) -> Tensor:
        """The slots of all 3B frames: current, next and negative ones."""
        return torch.cat([self.slots, self.next_slots, self.negative_slots])

    def to(self, device: torch.device | str) -> "SlotBatch":
        frames = (self.slots, self.action, self.next_slots, self.negative_slots)
        actors = (_moved(part, device) for part in (self.actors, self.negative_actors))
        return SlotBatch(*(part.to(device) for part in frames), *actors)


def _moved(tensor: Tensor | None, device: torch.device | str) -> Tensor | None:
    return None if tensor is None else tensor.to(device)


class Transitions:
    """All transitions of some episodes, each with a negative frame drawn anew every time.

    With probability ``same_scene`` (the paper's ε) the negative is another frame of the same scene, else a frame of
    another scene; it is never the frame itself. Where an object is replaced after an action, there is no transition.
    """

    def __init__(self, episodes: Episodes, same_scene: float = 0.5) -> None:
        if not 0 <= same_scene <= 1:
            raise HowmError(f"same_scene must be in [0, 1], got {same_scene}")
        self.episodes, self.same_scene = episodes, same_scene
        self._frames = episodes.steps + 1
        scenes = episodes.frame_scenes.ravel()
        self._order = np.argsort(scenes, kind="stable")  # frames, scene by scene
        self._rank = np.argsort(self._order)
        self._first = np.searchsorted(scenes[self._order], scenes)  # where a frame's scene begins
        self._extent = np.bincount(scenes)[scenes]  # how many frames it has
        self._kept = np.flatnonzero(~episodes.changes)  # what changes from outside cannot be learned

    def __len__(self) -> int:
        return len(self._kept)

    @cached_property
    def still(self) -> Int[np.ndarray, " still"]:
        """The transitions 0 ... len-1 whose two pictures are the same; all frames are looked at once, when asked."""
        episodes, times = self.episodes, np.arange(self._frames)
        same = np.empty((len(episodes), episodes.steps), dtype=bool)
        for e in range(len(episodes)):
            pictures = episodes.observe(np.full(self._frames, e), times).reshape(self._frames, -1)
            same[e] = (pictures[1:] == pictures[:-1]).all(axis=1)
        return np.flatnonzero(same.ravel()[self._kept])

    def index(self, transition: Int[np.ndarray, " B"], rng: np.random.Generator) -> FrameIndex:
        """Name the frames of some transitions 0 ... len-1, and draw their negatives."""
        episode, time = np.divmod(self._kept[transition], self.episodes.steps)
        obs = episode * self._frames + time
        return FrameIndex(obs, self.episodes.actions[episode, time], obs + 1, self._negatives(obs, rng))

    def _negatives(self, frame: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Positions run over all frames scene by scene; the draw skips the frame itself, or its whole scene."""
        first, extent, total = self._first[frame], self._extent[frame], len(self._order)
        same = (rng.random(len(frame)) < self.same_scene) | (extent == total)
        skipped = np.where(same, self._rank[frame], first)
        skip = np.where(same, 1, extent)
        begin = np.where(same, first, 0)
        draw = begin + (rng.random(len(frame)) * (np.where(same, extent, total) - skip)).astype(np.int64)
        return np.asarray(self._order[draw + np.where(draw >= skipped, skip, 0)])

    def load(self, index: FrameIndex) -> PictureBatch:
        """A batch with its pictures."""
        return PictureBatch(
            self.pictures(index.obs),
            torch.from_numpy(index.action),
            self.pictures(index.next_obs),
            self.pictures(index.negative_obs),
            self._privileged(index.obs),
            self._privileged(index.negative_obs),
            self._actors(index.obs),
            self._actors(index.negative_obs),
        )

    def load_slots(self, index: FrameIndex, slots: Callable[[Int[np.ndarray, " B"]], Tensor]) -> SlotBatch:
        """A batch with the slots that the given function has of frames."""
        action = torch.from_numpy(index.action)
        frames = slots(index.obs), action, slots(index.next_obs), slots(index.negative_obs)
        return SlotBatch(*frames, self._actors(index.obs), self._actors(index.negative_obs))

    def _actors(self, frames: Int[np.ndarray, " B"]) -> Tensor:
        return torch.from_numpy(self.actors[frames // self._frames])

    @cached_property
    def actors(self) -> Int[np.ndarray, "E R"]:
        """The objects that act in each episode, ascending and filled up with -1: no others are seen to do anything."""
        world = self.episodes.world
        objects = np.sort(self.episodes.actions.astype(np.int64) // (4 if world is None else world.actions_per_object))
        again = np.zeros(objects.shape, dtype=bool)
        again[:, 1:] = objects[:, 1:] == objects[:, :-1]
        width = int((~again).sum(axis=1).max())
        order = np.argsort(again, axis=1, kind="stable")[:, :width]
        return np.take_along_axis(np.where(again, -1, objects), order, axis=1)

    def _privileged(self, frames: Int[np.ndarray, " B"]) -> Privileged | None:
        if self.episodes.scene_ids is None:
            return None
        return Privileged(torch.from_numpy(self.episodes.ids_at(*np.divmod(frames, self._frames))))

    @property
    def frame_count(self) -> int:
        return len(self.episodes) * self._frames

    def pictures(self, frames: Int[np.ndarray, " B"]) -> Tensor:
        return torch.from_numpy(self.episodes.observe(*np.divmod(frames, self._frames)))

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[FrameIndex]:
        """One pass over all transitions in random order; the last batch may be smaller."""
        order = rng.permutation(len(self))
        for start in range(0, len(order), size):
            yield self.index(order[start : start + size], rng)


def hold_out(episodes: Episodes, share: float, rng: np.random.Generator) -> tuple[Episodes, Episodes]:
    """Training episodes to learn from, and others of the same scenes to choose the best checkpoint by.

    Every scene keeps an episode to learn from: without one, it would not be a training scene.
    """
    if not 0 < share < 1:
        raise HowmError(f"hold_out, the share of training episodes, must be in (0, 1), got {share}")
    count = max(1, round(share * len(episodes)))
    if count >= len(episodes):
        raise HowmError(
            f"holding out {share:.0%} of {len(episodes)} training episodes leaves none to learn from; make more"
        )
    scenes = episodes.scene_index
    left = np.bincount(scenes)
    held = np.zeros(len(episodes), dtype=bool)
    for episode in rng.permutation(len(episodes)):
        scene = scenes[episode]
        if count and left[scene] > 1:
            held[episode] = True
            left[scene] -= 1
            count -= 1
    if not held.any():
        raise HowmError(
            f"each of the {len(left)} training scenes has one episode only, which cannot be held out and learned from; "
            "make more episodes, or fewer scenes"
        )
    return episodes.select(np.flatnonzero(~held)), episodes.select(np.flatnonzero(held))
