"""What a prediction is ranked among: targets, and each query's own near misses."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Integer, Num
from torch import Tensor

from howm.data.rollouts import Rollouts
from howm.evaluation.near_misses import draw_near_misses
from howm.evaluation.ranking import PADDING, keep_extra
from howm.models.distance import Distance
from howm.worlds.world import World

NEAR_MISSES = 20
_AT_ONCE = 128  # episodes whose states are keyed at once: to do so, a world may have to draw them


def chunks(total: int, size: int) -> list[slice]:
    """0 ... total-1 in slices of at most ``size``."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


@dataclass(frozen=True)
class _Pool:
    """Targets (frame k of every episode) and each query's own near misses, labelled by their true state.

    Near misses are frames 0 ... k-1 and then ``ends``, states where other plays from the same start end. ``simulated``
    labels where the true dynamics takes each query. Both are None for imported pictures, whose world cannot be
    simulated.
    """

    k: int
    labels: Integer[np.ndarray, " E"]
    extra_labels: Integer[np.ndarray, "E X"]
    ends: Num[np.ndarray, "E C K F"] | None = None
    simulated: Integer[np.ndarray, " E"] | None = None

    @classmethod
    def make(cls, rollouts: Rollouts, k: int, seed: int = 0) -> "_Pool":
        if rollouts.episodes.states is None:
            own = rollouts.picture_labels(k)
            return cls.labelled(k, own[:, k], own[:, :k])
        world, scene_ids, states = rollouts.episodes.state()
        ends = draw_near_misses(rollouts, k, NEAR_MISSES, seed)
        simulated = states[:, 0]
        for action in rollouts.actions(k).numpy().T:
            simulated = world.step(scene_ids, simulated, action)
        shown = np.concatenate([states[:, : k + 1], ends, simulated[:, None]], axis=1)  # (E, k+1+C+1, K, F)
        keys = [_state_keys(world, scene_ids[rows], shown[rows]) for rows in chunks(len(rollouts), _AT_ONCE)]
        words = max(some.shape[1] for some in keys)  # where scenes differ in size, of the largest
        padded = [np.pad(some, ((0, 0), (0, words - some.shape[1])), constant_values=-1) for some in keys]
        labels = _label_rows(np.concatenate(padded)).reshape(shown.shape[:2])
        extra_labels = np.delete(labels, [k, -1], axis=1)
        near = np.concatenate([states[:, :k], ends], axis=1)
        extra_labels[_too_close(world, scene_ids, near, states[:, k])] = PADDING
        return cls.labelled(k, labels[:, k], extra_labels, ends, labels[:, -1])

    @classmethod
    def labelled(
        cls,
        k: int,
        labels: np.ndarray,
        extra_labels: np.ndarray,
        ends: np.ndarray | None = None,
        simulated: np.ndarray | None = None,
    ) -> "_Pool":
        """A near miss that is among the targets already would count twice as a rival: it is left out."""
        return cls(k, labels, np.where(np.isin(extra_labels, labels), PADDING, extra_labels), ends, simulated)

    def with_queries(self, rows: Integer[np.ndarray, " Q"]) -> "_Pool":
        """The same references, and near misses of some queries alone."""
        asked = np.isin(np.arange(len(self.labels)), rows)
        return replace(self, extra_labels=np.where(asked[:, None], self.extra_labels, PADDING))

    @cached_property
    def kept(self) -> Bool[np.ndarray, "E X"]:
        """Which near misses count: those that are neither a target nor another near miss of the query."""
        return keep_extra(self.extra_labels, self.labels)


def _state_keys(
    world: World, scene_ids: Integer[np.ndarray, "E K"], states: Num[np.ndarray, "E X K F"]
) -> Integer[np.ndarray, "EX words"]:
    """The keys of some states of each scene, scene by scene."""
    return world.state_key(np.repeat(scene_ids, states.shape[1], axis=0), states.reshape(-1, *states.shape[2:]))


def _too_close(
    world: World,
    scene_ids: Integer[np.ndarray, "E K"],
    near: Num[np.ndarray, "E X K F"],
    truth: Num[np.ndarray, "E K F"],
) -> Bool[np.ndarray, "E X"]:
    """Near misses by less than a pixel, which are left out: no picture tells them from the truth."""
    repeated = (np.repeat(array, near.shape[1], axis=0) for array in (scene_ids, truth))
    ids, ends = repeated
    return world.alike(ids, near.reshape(-1, *near.shape[2:]), ends).reshape(near.shape[:2])


def _label_rows(rows: Integer[np.ndarray, "R words"]) -> Integer[np.ndarray, " R"]:
    """Equal rows get equal numbers."""
    packed = np.ascontiguousarray(rows).view(f"V{rows.dtype.itemsize * rows.shape[1]}").ravel()
    return np.unique(packed, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True)
class Compared:
    """Predictions by name, the targets that they are ranked among, and their distances to their own near misses."""

    predicted: dict[str, Float[Tensor, "E F"]]
    targets: Float[Tensor, "E F"]
    near: dict[str, Float[np.ndarray, "E X"]]
    distance: Distance
