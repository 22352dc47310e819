"""A search in layers, for many starts at once: every state at the depth at which it is first reached."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Integer, Num

from howm.planning.state_set import StateSet, state_hash
from howm.worlds.world import Scenes, States, World

AT_ONCE = 4_096  # states whose successors are made together

# Which of some successors to look at: given the search that each belongs to, the successors, and the rows of the layer
# that they come from.
Keep = Callable[[Integer[np.ndarray, " R"], States, Integer[np.ndarray, " R"]], Bool[np.ndarray, " R"]]


@dataclass(frozen=True)
class _Link:
    """How the states of a layer were reached: from which row of the layer before, by which action."""

    parent: Integer[np.ndarray, " R"]
    action: Integer[np.ndarray, " R"]


class Layers:
    """The states at one depth after the other; ``of`` says for each which of the searches it belongs to."""

    def __init__(self, world: World, scenes: Scenes, start: States) -> None:
        self.world, self.scenes, self.depth = world, scenes, 0
        self.of, self.state = np.arange(len(scenes)), start
        self.seen = np.ones(len(scenes), dtype=np.int64)  # states that each search has reached
        self._offered = world.offered_actions(scenes)
        self._all = StateSet()
        self._all.add(state_hash(self.of, start))
        self._links: list[_Link] = []

    def __len__(self) -> int:
        return len(self.of)

    def advance(self, keep: Keep | None = None) -> None:
        """To the states that are one action further and were not reached before."""
        parts = [self._expand(begin, keep) for begin in range(0, len(self), AT_ONCE)]
        of, state, parent, action = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        self.of, self.state, self.depth = of, state, self.depth + 1
        self.seen += self.counts()
        self._links.append(_Link(parent.astype(np.int32), action.astype(np.int32)))

    def _expand(self, begin: int, keep: Keep | None) -> tuple[np.ndarray, ...]:
        of, state = self.of[begin : begin + AT_ONCE], self.state[begin : begin + AT_ONCE]
        after = self.world.successors(self.scenes[of], state)
        row, number = np.nonzero((after != state[:, None]).any(axis=(2, 3)))
        found = after[row, number]
        if keep is not None:
            kept = keep(of[row], found, begin + row)
            row, number, found = row[kept], number[kept], found[kept]
        new = self._all.add(state_hash(of[row], found))
        row, number = row[new], number[new]
        return of[row], found[new], begin + row, self._offered[of[row], number]

    def select(self, rows: np.ndarray) -> None:
        """Go on from these states of the layer alone."""
        self.of, self.state = self.of[rows], self.state[rows]
        if self._links:
            last = self._links[-1]
            self._links[-1] = _Link(last.parent[rows], last.action[rows])

    def counts(self) -> Integer[np.ndarray, " searches"]:
        """How many states of the layer each search has."""
        return np.bincount(self.of, minlength=len(self.scenes))

    def nearest(self, left: Num[np.ndarray, " R"], width: Integer[np.ndarray, " searches"]) -> np.ndarray:
        """Rows of the ``width`` states of each search with the least left to do; equal ones are drawn."""
        drawn = np.random.default_rng(self.depth).random(len(self))
        order = np.lexsort([drawn, left, self.of])
        count = self.counts()
        rank = np.arange(len(order)) - (np.cumsum(count) - count)[self.of[order]]
        return np.asarray(order[rank < width[self.of[order]]])

    def actions_to(self, row: int) -> list[int]:
        """The actions that lead to a state of the layer."""
        actions = []
        for link in reversed(self._links):
            actions.append(int(link.action[row]))
            row = int(link.parent[row])
        return actions[::-1]
