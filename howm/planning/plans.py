"""Plans: sequences of actions, and how good they are known to be."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Integer

UNREACHABLE = 2**31 - 1  # steps, more than any plan has


@dataclass(frozen=True)
class Plans:
    """A plan for each goal, and how good it is known to be.

    ``steps`` is its length, -1 where none was found. ``least`` is proven: no plan is shorter; where no plan exists, it
    is ``UNREACHABLE``. ``actions`` are filled up with -1 at the end.
    """

    steps: Integer[np.ndarray, " G"]
    least: Integer[np.ndarray, " G"]
    actions: Integer[np.ndarray, "G longest"]

    @classmethod
    def of(cls, plans: dict[int, list[int]], least: Integer[np.ndarray, " G"]) -> "Plans":
        """Of the actions of those goals for which a plan was found."""
        steps = np.array([len(plans[row]) if row in plans else -1 for row in range(len(least))], dtype=np.int64)
        actions = np.full((len(least), max(int(steps.max(initial=0)), 0)), -1, dtype=np.int64)
        for row, plan in plans.items():
            actions[row, : len(plan)] = plan
        return cls(steps, least, actions)

    @property
    def found(self) -> Bool[np.ndarray, " G"]:
        return np.asarray(self.steps >= 0)

    @property
    def exact(self) -> Bool[np.ndarray, " G"]:
        """Whose plan is known to be shortest."""
        return np.asarray(self.steps == self.least)

    @property
    def unreachable(self) -> Bool[np.ndarray, " G"]:
        """Whose goal no plan reaches."""
        return np.asarray(self.least == UNREACHABLE)
