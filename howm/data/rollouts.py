"""k-step paths for evaluation."""

from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Integer, Num
from torch import Tensor

from howm.data.episodes import Episodes
from howm.data.privileged import Privileged
from howm.worlds.sizes import sized
from howm.worlds.world import World


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
    def scene_index(self) -> Integer[np.ndarray, " E"]:
        return self.episodes.scene_index

    def actions(self, steps: int) -> Tensor:
        """The first ``steps`` actions of every episode, (E, steps)."""
        return torch.from_numpy(self.episodes.actions[:, :steps].astype(np.int64))

    def observe(self, time: int, rows: slice) -> Tensor:
        """Frame ``time`` of some episodes."""
        return torch.from_numpy(self.episodes.observe(np.arange(len(self))[rows], time))

    def privileged(self, time: int, rows: slice) -> Privileged | None:
        """Who is in frame ``time`` of some episodes, and where; None where that is not known."""
        scene_ids, states, world = self.episodes.scene_ids, self.episodes.states, self.episodes.world
        if scene_ids is None or states is None or world is None:
            return None if scene_ids is None else Privileged(torch.tensor(scene_ids[rows]))
        ids = self.episodes.ids_at(np.arange(len(self))[rows], time)
        return privileged_of(sized(world, scene_ids), ids, states[rows, time])

    def picture_labels(self, steps: int) -> Integer[np.ndarray, "E {steps}+1"]:
        """Equal numbers for equal pictures, of frames 0 ... steps: the true states of data that has no states."""
        digests = [
            int.from_bytes(blake2b(picture.numpy().tobytes(), digest_size=8).digest())
            for t in range(steps + 1)
            for picture in self.observe(t, slice(None))
        ]
        labels = np.unique(np.array(digests, dtype=np.uint64), return_inverse=True)[1]
        return labels.reshape(steps + 1, len(self)).T

    def near_misses(self, steps: int, count: int, rng: np.random.Generator) -> Num[np.ndarray, "E {count} K F"]:
        """Where ``count`` other plays of ``steps`` actions end that start as each episode does, by the same rule."""
        world, scene_ids, states = self.episodes.state()
        return world.near_misses(scene_ids, states[:, 0], steps, count, self.episodes.moving, rng)


def privileged_of(world: World, scene_ids: Integer[np.ndarray, "B K"], states: Num[np.ndarray, "B K F"]) -> Privileged:
    """The truth about some states, with masks where the world has them; they are drawn when they are asked for."""

    def find_masks() -> Tensor:
        masks = world.countable_masks(scene_ids, states)
        assert masks is not None
        return torch.from_numpy(masks)

    known = world.masks(scene_ids[:1], states[:1]) is not None
    return Privileged(torch.from_numpy(scene_ids.astype(np.int64)), find_masks if known else None)
