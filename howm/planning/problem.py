"""What planners are given, and what they find."""

from dataclasses import dataclass

import numpy as np

from howm.models.world_model import State
from howm.planning.cost import Cost
from howm.planning.imagination import Imagination


@dataclass(frozen=True)
class Problem:
    """Starts and goals, one each: planners see them through the cost, and try actions in imagination.

    ``avoid`` is experience: what was tried in the world and did not lead where the model said.
    """

    imagination: Imagination
    start: State
    cost: Cost
    avoid: tuple[frozenset[tuple[bytes, int]], ...] = ()  # of each goal: a state's key and an action that failed there

    def __len__(self) -> int:
        return len(self.start)

    def choices(self, goal: int) -> np.ndarray:
        """The columns of ``cost.actions`` that are actions."""
        return np.flatnonzero(self.cost.actions[goal] >= 0)


@dataclass(frozen=True)
class Found:
    """Library actions for one goal, the steps that remain after them by the cost, and whether that is the goal."""

    actions: tuple[int, ...]
    steps_to_go: float
    reached: bool

    def better_than(self, other: "Found") -> bool:
        """Nearer to the goal, or as near in fewer actions."""
        mine, theirs = ((not f.reached, f.steps_to_go, len(f.actions)) for f in (self, other))
        return mine < theirs


def at_start(problem: Problem) -> list[Found]:
    """The plans without any action."""
    reading = problem.cost.read(problem.start, np.arange(len(problem)))
    return [Found((), float(s), bool(r)) for s, r in zip(reading.steps, reading.reached, strict=True)]
