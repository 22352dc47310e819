"""What planners are given, and what they find."""

from dataclasses import dataclass

import numpy as np

from howm.models.world_model import State
from howm.planning.cost import Cost
from howm.planning.imagination import Imagination


@dataclass(frozen=True)
class Problem:
    """Starts and goals, one each: planners see them through the cost, and try actions in imagination."""

    imagination: Imagination
    start: State
    cost: Cost

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Found:
    """Library actions for one goal, the steps that remain after them by the cost, and whether that is the goal."""

    actions: tuple[int, ...]
    steps_to_go: float
    reached: bool


class Candidates:
    """Sequences of actions that are imagined together, several for each goal; the best prefix of each goal is kept."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        first = problem.cost.read(problem.start, np.arange(len(problem)))
        self.reading = first
        self.found = [
            Found((), float(steps), bool(reached))
            for steps, reached in zip(first.steps, first.reached, strict=True)
        ]  # fmt: skip

    def offer(self, goal: int, actions: tuple[int, ...], steps: float, reached: bool) -> None:
        """Keep the nearest; of equally near ones the shortest."""
        best = self.found[goal]
        if (not reached, steps, len(actions)) < (not best.reached, best.steps_to_go, len(best.actions)):
            self.found[goal] = Found(actions, steps, reached)
