"""Near misses drawn for each query from its own content, whatever other queries stand beside it.

Each query has a stream of random numbers, named by its scene, its start, its actions and the seed of the evaluation.
So permuting, leaving out or batching episodes changes no near misses of the others. A world plays many rows at once and
asks one generator for numbers; `RowStreams` answers every row from its own stream.
"""

from typing import Any

import numpy as np
from jaxtyping import Num, UInt64

from howm.data.rollouts import Rollouts

_STREAM = 200  # of random numbers, apart from those of data and training
_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # SplitMix64's step; its output function is _mix
_SAMPLE = 4  # queries that are drawn a second time, to see whether the world keeps rows apart

Keys = UInt64[np.ndarray, "*shape"]


def draw_near_misses(rollouts: Rollouts, steps: int, count: int, seed: int) -> Num[np.ndarray, "E {count} K F"]:
    """Where ``count`` other plays of ``steps`` actions end that start as each episode does, by the same rule."""
    sizes = (rollouts.episodes.state()[1] >= 0).sum(axis=1)
    groups = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
    if len(groups) == 1:
        return _of_one_size(rollouts, steps, count, seed)
    ends = [_of_one_size(Rollouts(rollouts.episodes.select(rows)), steps, count, seed) for rows in groups]
    return np.asarray(np.concatenate(ends)[np.argsort(np.concatenate(groups))])


def _of_one_size(rollouts: Rollouts, steps: int, count: int, seed: int) -> Num[np.ndarray, "E {count} K F"]:
    keys = query_keys(rollouts, steps, seed)
    another_size = _SAMPLE + (len(keys) == _SAMPLE)
    sample = np.linspace(len(keys) - 1, 0, another_size).astype(int)
    some = Rollouts(rollouts.episodes.select(sample))
    try:
        found = rollouts.near_misses(steps, count, RowStreams(keys, count))
        if np.array_equal(found[sample], some.near_misses(steps, count, RowStreams(keys[sample], count))):
            return found
    except NotByRowsError:
        pass
    # A world that draws in another way than row by row: right as well, but many times slower.
    ends = [
        Rollouts(rollouts.episodes.select(np.array([row]))).near_misses(steps, count, np.random.default_rng(int(key)))
        for row, key in enumerate(keys)
    ]
    return np.concatenate(ends)


def query_keys(rollouts: Rollouts, steps: int, seed: int) -> UInt64[np.ndarray, " E"]:
    """A number for each query: a hash of its scene, its start, its first actions, their number and the seed."""
    _, scene_ids, states = rollouts.episodes.state()
    start = states[:, 0].reshape(len(states), -1)
    if start.dtype.kind == "f":
        start = (start.astype(np.float64) + 0.0).view(np.int64)  # the same bits for 0 and -0
    parts = np.concatenate([scene_ids, start, rollouts.episodes.actions[:, :steps]], axis=1, dtype=np.int64)
    keys = np.zeros(len(parts), dtype=np.uint64)
    for number in (seed, _STREAM, steps):
        keys = _mix((keys + _GAMMA) ^ np.uint64(number))
    for column in np.ascontiguousarray(parts.T).view(np.uint64):
        keys = _mix((keys + _GAMMA) ^ column)
    return keys


def _mix(numbers: Keys) -> Keys:
    """SplitMix64's output function: a permutation of the 64-bit numbers that looks random."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers


class NotByRowsError(Exception):
    """A world asked for numbers that cannot be told row by row."""


class RowStreams(np.random.Generator):
    """A generator whose draws have one row a play (or a query) first, each from that row's own stream.

    It draws uniform floats and integers; anything else, or another first axis, is a NotByRowsError.
    """

    def __init__(self, keys: UInt64[np.ndarray, " E"], plays: int) -> None:
        super().__init__(np.random.PCG64(0))  # which is never asked
        by_play = _mix(keys[:, None] ^ _mix(np.arange(1, plays + 1, dtype=np.uint64) * _GAMMA))
        self._keys = {len(keys): keys, keys.size * plays: by_play.ravel()}
        self._drawn = 0

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size or ())
        if not shape or shape[0] not in self._keys or dtype != np.float64 or out is not None:
            raise NotByRowsError
        columns = int(np.prod(shape[1:]))
        first, self._drawn = self._drawn, self._drawn + columns
        offsets = np.arange(first + 1, self._drawn + 1, dtype=np.uint64) * _GAMMA
        numbers = _mix(self._keys[shape[0]][:, None] + offsets)
        return ((numbers >> np.uint64(11)) * 2.0**-53).reshape(shape)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        low, high = (0, low) if high is None else (low, high)
        return (low + np.floor(self.random(size) * (high - low + endpoint))).astype(dtype)


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotByRowsError


for _name in {name for name in dir(np.random.Generator) if not name.startswith("_")} - {"random", "integers"}:
    setattr(RowStreams, _name, _refuse)
