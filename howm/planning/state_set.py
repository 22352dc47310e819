"""A set of states that takes many at once: what a search has seen."""

import numpy as np
from jaxtyping import Bool, Integer, Num, UInt64

_ODD = np.random.default_rng(20220717).integers(2**62, size=512, dtype=np.uint64) * 2 + 1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ROUNDED = 2.0**20  # floats count as equal to a millionth


def state_hash(group: Integer[np.ndarray, " R"], values: Num[np.ndarray, "R *words"]) -> UInt64[np.ndarray, " R"]:
    """64 bits for a group and the numbers of a state in it; that two of ten million agree by chance is a 1 in 10,000
    event."""
    words = values.reshape(len(values), int(np.prod(values.shape[1:])))
    if words.dtype.kind == "f":
        words = np.rint(words * _ROUNDED)
    odd = np.resize(_ODD, words.shape[1] + 1)
    mixed = words.astype(np.int64).view(np.uint64) @ odd[1:] + group.astype(np.int64).view(np.uint64) * odd[0]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(32)
    return np.asarray(np.maximum(mixed, np.uint64(1)))  # 0 marks a free place


class StateSet:
    """Hashes in a table with open addressing, at most half full."""

    def __init__(self, room: int = 2**12) -> None:
        self._table = np.zeros(2 * room, dtype=np.uint64)
        self._owner = np.empty(2 * room, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, hashes: UInt64[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """Take these in; says which were not there before, of equal ones one alone."""
        while 2 * (self._count + len(hashes)) > len(self._table):
            held = self._table[self._table > 0]
            self._table = np.zeros(2 * len(self._table), dtype=np.uint64)
            self._owner = np.empty(len(self._table), dtype=np.int64)
            self._insert(held)
        new = self._insert(hashes)
        self._count += int(new.sum())
        return new

    def _insert(self, hashes: UInt64[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        mask = np.uint64(len(self._table) - 1)
        new = np.zeros(len(hashes), dtype=bool)
        rows, place = np.arange(len(hashes)), (hashes & mask).astype(np.intp)
        while len(rows):
            own = hashes[rows]
            free = np.flatnonzero(self._table[place] == 0)
            self._table[place[free]] = own[free]
            self._owner[place[free]] = rows[free]
            held = self._table[place]
            won = free[(held[free] == own[free]) & (self._owner[place[free]] == rows[free])]
            new[rows[won]] = True
            on = held != own  # the place is another's: try the next one
            rows, place = rows[on], (place[on] + 1) & int(mask)
        return new
