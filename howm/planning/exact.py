"""Exact shortest plans on true states, for many goals at once: the yardstick of planners with learned models.

Where objects only block each other, the summed distances (``World.steps_between``) are a lower bound: the search looks
at states from which the goal may still be within a bound, which it raises when it has proven that no plan is so short
(A* in layers, first within a narrow beam: a plan as long as a proven bound is shortest, however it was found). Where
one action can move several objects, or a world gives no such bound, it is breadth-first (see `breadth`).
"""

import numpy as np
from jaxtyping import Integer

from howm.errors import HowmError, require_int
from howm.planning.breadth import breadth_first_plans
from howm.planning.layers import Layers
from howm.planning.plans import UNREACHABLE, Plans
from howm.worlds.sizes import sized
from howm.worlds.world import Scenes, States, World

MAX_NODES = 200_000  # states that are looked at for a goal and a bound
BEAM, WIDER = 16, 16  # states kept of a layer at first, and how many times more when that finds no plan
SLACK = 40  # steps beyond the first bound after which a search gives up


def shortest_plans(
    world: World, scenes: np.ndarray, start: np.ndarray, goal: np.ndarray, *, max_nodes: int = MAX_NODES
) -> Plans:
    """The shortest sequence of library actions from each start to its goal, by search on the true states.

    ``scenes`` are (G, K), states (G, K, F).

    After ``max_nodes`` states, for one goal and one bound, a plan is no longer proven to be shortest.
    """
    require_int("max_nodes", max_nodes, 1)
    if not scenes.shape[0] == start.shape[0] == goal.shape[0] or start.shape != goal.shape:
        raise HowmError(
            f"{len(scenes)} scenes, starts of {start.shape} and goals of {goal.shape} do not fit; give one of each"
        )
    many = sized(world, scenes)
    if not len(scenes):
        return Plans.of({}, np.zeros(0, dtype=np.int64))
    if many.steps_between(scenes[:1], start[:1], goal[:1]) is None:
        return breadth_first_plans(many, scenes, start, goal, max_nodes)
    return _Bounded(many, scenes, start, goal, max_nodes).run()


class _Bounded:
    """Searches within bounds that rise, each goal at its own pace."""

    def __init__(self, world: World, scenes: Scenes, start: States, goal: States, max_nodes: int) -> None:
        self.world, self.scenes, self.start, self.goal, self.max_nodes = world, scenes, start, goal, max_nodes
        self.bound = self.left(np.arange(len(scenes)), start)
        self.last = self.bound + SLACK
        self.least = self.bound.copy()  # proven
        self.proving = np.ones(len(scenes), dtype=bool)  # whether all shorter plans are ruled out
        self.width = np.full(len(scenes), BEAM)
        self.plans: dict[int, list[int]] = {int(row): [] for row in np.flatnonzero(self.bound == 0)}

    def left(self, of: Integer[np.ndarray, " R"], state: States) -> Integer[np.ndarray, " R"]:
        """How many steps are left at least."""
        return np.asarray(self.world.steps_between(self.scenes[of], state, self.goal[of]), dtype=np.int64)

    def run(self) -> Plans:
        waiting = np.flatnonzero(self.bound > 0)
        while len(waiting):
            complete, beyond = self._search(waiting)
            missed = np.array([row not in self.plans for row in waiting])
            for row, sure, more in zip(waiting[missed], complete[missed], beyond[missed], strict=True):
                self._next_bound(row, bool(sure), int(more))
            waiting = waiting[missed & (self.bound[waiting] <= self.last[waiting])]
        return Plans.of(self.plans, self.least)

    def _next_bound(self, row: int, sure: bool, beyond: int) -> None:
        """After a search that found no plan: a wider one, or one with a higher bound."""
        if not sure and self.proving[row] and self.width[row] < self.max_nodes:
            self.width[row] *= WIDER
            return
        self.proving[row] &= sure
        self.bound[row] = beyond if sure else self.bound[row] + 1
        self.width[row] = BEAM if self.proving[row] else BEAM * WIDER
        if self.proving[row]:
            self.least[row] = beyond

    def _search(self, rows: Integer[np.ndarray, " R"]) -> tuple[np.ndarray, np.ndarray]:
        """One search for these goals: whose was complete, and by which bound each would see more."""
        scenes, bound, width = self.scenes[rows], self.bound[rows], self.width[rows]
        layers = Layers(self.world, scenes, self.start[rows])
        complete = np.ones(len(rows), dtype=bool)
        beyond = np.full(len(rows), UNREACHABLE, dtype=np.int64)
        open_ = np.ones(len(rows), dtype=bool)

        def keep(of: np.ndarray, state: np.ndarray, parent: np.ndarray) -> np.ndarray:
            least = layers.depth + 1 + self.left(rows[of], state)
            far = least > bound[of]
            np.minimum.at(beyond, of[far], least[far])
            return np.asarray(~far)

        while len(layers):
            layers.advance(keep)
            left = self.left(rows[layers.of], layers.state)
            for row in np.flatnonzero(left == 0).tolist():
                self.plans.setdefault(int(rows[layers.of[row]]), layers.actions_to(row))
                open_[layers.of[row]] = False
            spent = (layers.seen > self.max_nodes) & (width > BEAM * WIDER)  # a beam may always end
            complete &= ~(open_ & spent) & ~(open_ & (layers.counts() > width))
            layers.select(layers.nearest(left, np.where(open_ & ~spent, width, 0)))
        return complete, beyond
