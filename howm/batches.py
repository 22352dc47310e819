"""What a model is given: batches of transitions with controlled negatives, and k-step paths for evaluation.

Pictures, actions and nothing else are what a model may see. Object ids are privileged and travel apart.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from howm.dataset import Episodes
from howm.errors import HowmError
from howm.grid import random_walk


@dataclass(frozen=True)
class FrameIndex:
    """Transitions named by frame: frame ``episode * (steps + 1) + time`` of the episodes they come from."""

    obs: Int[np.ndarray, "B"]
    action: Int[np.ndarray, "B"]
    next_obs: Int[np.ndarray, "B"]
    negative_obs: Int[np.ndarray, "B"]

    def __len__(self) -> int:
        return len(self.obs)


@dataclass(frozen=True)
class Privileged:
    """What only the method Σ_K-CSWM may read: the ids of the scene's objects, ascending, (B, K)."""

    object_ids: Tensor
    negative_object_ids: Tensor


@dataclass(frozen=True)
class Batch:
    """Pictures are (B, height, width, 3), uint8 or float in 0-1; actions are library actions 0 ... 4N-1, (B,).

    Where a model's representation is frozen, what it made of the pictures stands in their place.
    """

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    negative_obs: Tensor
    privileged: Privileged | None = None

    def __len__(self) -> int:
        return len(self.action)

    def to(self, device: torch.device | str) -> "Batch":
        privileged = self.privileged and Privileged(
            self.privileged.object_ids.to(device), self.privileged.negative_object_ids.to(device)
        )
        pictures = (self.obs.to(device), self.action.to(device), self.next_obs.to(device), self.negative_obs.to(device))
        return Batch(*pictures, privileged)


class Transitions:
    """All transitions of some episodes, each with a negative frame drawn anew every time.

    With probability ``same_scene`` (the paper's ε) the negative is another frame of the same scene, else a frame of
    another scene; it is never the frame itself.
    """

    def __init__(self, episodes: Episodes, same_scene: float = 0.5) -> None:
        if not 0 <= same_scene <= 1:
            raise HowmError(f"same_scene={same_scene} is no probability; give a number from 0 to 1")
        self.episodes, self.same_scene = episodes, same_scene
        self._frames = episodes.steps + 1
        self._order = np.argsort(episodes.scene_index, kind="stable")  # episodes, scene by scene
        self._rank = np.argsort(self._order)
        scenes = episodes.scene_index
        self._first = np.searchsorted(scenes[self._order], scenes) * self._frames  # where an episode's scene begins
        self._extent = np.bincount(scenes)[scenes] * self._frames  # how many frames it has

    def __len__(self) -> int:
        return len(self.episodes) * self.episodes.steps

    def index(self, transition: Int[np.ndarray, "B"], rng: np.random.Generator) -> FrameIndex:
        """Name the frames of some transitions 0 ... len-1, and draw their negatives."""
        episode, time = np.divmod(transition, self.episodes.steps)
        obs = episode * self._frames + time
        return FrameIndex(obs, self.episodes.actions[episode, time], obs + 1, self._negatives(episode, time, rng))

    def _negatives(self, episode: np.ndarray, time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Positions run over all frames scene by scene; the draw skips the frame itself, or its whole scene."""
        first, extent, total = self._first[episode], self._extent[episode], len(self.episodes) * self._frames
        same = (rng.random(len(episode)) < self.same_scene) | (extent == total)
        skipped = np.where(same, self._rank[episode] * self._frames + time, first)
        skip = np.where(same, 1, extent)
        begin = np.where(same, first, 0)
        draw = begin + (rng.random(len(episode)) * (np.where(same, extent, total) - skip)).astype(np.int64)
        position = draw + np.where(draw >= skipped, skip, 0)
        rank, negative_time = np.divmod(position, self._frames)
        return np.asarray(self._order[rank] * self._frames + negative_time)

    def load(self, index: FrameIndex, frames: Callable[[Int[np.ndarray, "B"]], Tensor] | None = None) -> Batch:
        """A batch with its frames: rendered pictures, or what the given function has of them."""
        frames = frames or self.pictures
        privileged = None
        if self.episodes.scene_ids is not None:
            ids = self.episodes.scene_ids
            privileged = Privileged(
                torch.from_numpy(ids[index.obs // self._frames]),
                torch.from_numpy(ids[index.negative_obs // self._frames]),
            )
        return Batch(
            frames(index.obs),
            torch.from_numpy(index.action),
            frames(index.next_obs),
            frames(index.negative_obs),
            privileged,
        )

    @property
    def frame_count(self) -> int:
        return len(self.episodes) * self._frames

    def pictures(self, frames: Int[np.ndarray, "B"]) -> Tensor:
        return torch.from_numpy(self.episodes.observe(*np.divmod(frames, self._frames)))

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[FrameIndex]:
        """One pass over all transitions in random order; the last batch may be smaller."""
        order = rng.permutation(len(self))
        for start in range(0, len(order), size):
            yield self.index(order[start : start + size], rng)


class RepresentedFrames:
    """What a frozen representation makes of frames: computed once, unless that is too much to keep."""

    KEEP_BYTES = 2**30
    AT_ONCE = 256

    def __init__(self, transitions: Transitions, represent: Callable[[Tensor], Tensor]) -> None:
        self.transitions, self.represent = transitions, represent
        self.kept: Tensor | None = None
        one, count = self(np.arange(1)), transitions.frame_count
        if count * one.nbytes <= self.KEEP_BYTES:
            kept = one.new_empty(count, *one.shape[1:])
            for start in range(0, count, self.AT_ONCE):
                stop = min(start + self.AT_ONCE, count)
                kept[start:stop] = self(np.arange(start, stop))
            self.kept = kept

    def __call__(self, frames: Int[np.ndarray, "B"]) -> Tensor:
        if self.kept is None:
            return self.represent(self.transitions.pictures(frames))
        return self.kept[torch.from_numpy(frames)]


def hold_out(episodes: Episodes, share: float, rng: np.random.Generator) -> tuple[Episodes, Episodes]:
    """Training episodes to learn from, and others of the same scenes to choose the best checkpoint by.

    Every scene keeps an episode to learn from: without it, it would be no training scene.
    """
    if not 0 < share < 1:
        raise HowmError(f"the held-out share of training episodes is {share}; give a number between 0 and 1")
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


class Rollouts:
    """k-step paths for evaluation: every episode gives one query, from its first frame."""

    def __init__(self, episodes: Episodes) -> None:
        self.episodes = episodes

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def steps(self) -> int:
        """The longest path that can be evaluated."""
        return self.episodes.steps

    @property
    def scene_index(self) -> Int[np.ndarray, "E"]:
        return self.episodes.scene_index

    def actions(self, steps: int) -> Tensor:
        """The first ``steps`` actions of every episode, (E, steps)."""
        return torch.from_numpy(self.episodes.actions[:, :steps].astype(np.int64))

    def observe(self, time: int, rows: slice) -> Tensor:
        """Frame ``time`` of some episodes."""
        return torch.from_numpy(self.episodes.observe(np.arange(len(self))[rows], time))

    def object_ids(self, rows: slice) -> Tensor | None:
        """Privileged: the ids of the scenes' objects, where they are known."""
        return None if self.episodes.scene_ids is None else torch.from_numpy(self.episodes.scene_ids[rows])

    def picture_labels(self, steps: int) -> Int[np.ndarray, "E steps+1"]:
        """Equal numbers for equal pictures, of frames 0 ... steps: the true states of data that has no states."""
        digests = [
            int.from_bytes(blake2b(picture.numpy().tobytes(), digest_size=8).digest())
            for t in range(steps + 1)
            for picture in self.observe(t, slice(None))
        ]
        labels = np.unique(np.array(digests, dtype=np.uint64), return_inverse=True)[1]
        return labels.reshape(steps + 1, len(self)).T

    def counterfactuals(self, steps: int, count: int, rng: np.random.Generator) -> Int[np.ndarray, "E count K"]:
        """Where ``count`` other walks of ``steps`` actions end that start as each episode does, by the same rule."""
        renderer, scene_ids, cells = self.episodes.state()
        start = np.repeat(cells[:, 0], count, axis=0)
        headings = np.repeat(renderer.library.headings[scene_ids], count, axis=0)
        ends = random_walk(renderer.grid, headings, start, steps, self.episodes.moving, rng)[0][:, -1]
        return ends.reshape(len(self), count, -1)
