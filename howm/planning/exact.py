"""Exact shortest plans on true states, for many goals at once: what planners with learned models are measured against."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Integer

from howm.worlds.world import Scenes, States, World

MAX_NODES = 200_000  # states that are looked at for a goal before the search gives up


@dataclass(frozen=True)
class Plans:
    """A plan for each goal, and how good it is known to be.

    ``steps`` is its length, -1 where none was found. ``least`` is proven: no plan is shorter; where no plan exists, it
    is ``UNREACHABLE``. ``actions`` are filled up with -1 at the end.
    """

    steps: Integer[np.ndarray, " G"]
    least: Integer[np.ndarray, " G"]
    actions: Integer[np.ndarray, "G longest"]

    @property
    def exact(self) -> Bool[np.ndarray, " G"]:
        """Whose plan is known to be shortest."""
        return np.asarray(self.steps == self.least)

    @property
    def found(self) -> Bool[np.ndarray, " G"]:
        return np.asarray(self.steps >= 0)

    @property
    def unreachable(self) -> Bool[np.ndarray, " G"]:
        """Whose goal no plan reaches."""
        return np.asarray(self.least == UNREACHABLE)


UNREACHABLE = 2**31 - 1


def shortest_plans(world: World, scenes: Scenes, start: States, goal: States, *, max_nodes: int = MAX_NODES) -> Plans:
    """The shortest sequence of library actions from each start to its goal, by search on the true states."""
    raise NotImplementedError
