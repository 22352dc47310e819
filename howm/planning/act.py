"""Acting: plans are carried out in the true world, and what comes of it is measured."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from howm.errors import require_int
from howm.models.world_model import State, WorldModel, device_of, evaluating
from howm.planning.agents import Agent
from howm.planning.cost import REACHED
from howm.planning.exact import shortest_plans
from howm.planning.goal_set import GoalSet
from howm.planning.plan import Surprise, solve
from howm.planning.planners import Planner
from howm.planning.problem import Found
from howm.planning.view import Kind, make_view
from howm.worlds.sizes import sized
from howm.worlds.world import Scenes, States

BUDGET = 100  # steps in the world
PLANS = 20  # for a goal, before it is given up
CALLS = 20_000  # imagined steps for a goal, all plans together: who has spent them plans no more

Event = Callable[[int, Scenes, States], tuple[Scenes, States]]
"""What happens from outside after a step: its number, and all scenes and states, in new arrays."""


@dataclass(frozen=True)
class Outcome:
    """What came of each goal. Axis: G goals.

    ``steps`` were taken in the world. ``open_loop``: the first plan, carried out without looking, ends at the goal.
    ``came_true`` of the ``imagined`` steps that were taken led where the plan said, to less than half a move.
    """

    success: Bool[np.ndarray, " G"]
    steps: Int[np.ndarray, " G"]
    open_loop: Bool[np.ndarray, " G"]
    imagined: Int[np.ndarray, " G"]
    came_true: Int[np.ndarray, " G"]
    calls: Int[np.ndarray, " G"]
    cpu_seconds: float
    states: States  # at the end
    scenes: Scenes


@dataclass
class _Plan:
    """The rest of a plan, and the rows that each of its actions should lead to, as the model imagines them."""

    actions: list[int]
    rows: list[Float[np.ndarray, "R D"]]
    unit: float
    seen: Float[np.ndarray, "R D"]  # the rows of what was last seen


def act(
    agent: Agent,
    goals: GoalSet,
    planner: Planner,
    rng: np.random.Generator,
    *,
    replan: bool = True,
    budget: int = BUDGET,
    cost: Kind | None = None,
    event: Event | None = None,
) -> Outcome:
    """Try to reach each goal within ``budget`` steps.

    With ``replan`` the agent looks after every step: where what it sees is not what it imagined, and where a plan has
    ended before the goal, it plans again from what it sees (and binds actions to objects anew); else its first plan is
    all. An episode ends at the goal, where the agent knows no action, and where it would plan again but has made
    ``PLANS`` plans or imagined ``CALLS`` steps.
    """
    require_int("budget", budget, 1)
    with torch.no_grad(), evaluating(agent.model):
        return _Acting(agent, goals, planner, rng, replan, cost, event).run(budget)


class _Acting:
    def __init__(
        self, agent: Agent, goals: GoalSet, planner: Planner, rng: np.random.Generator, replan: bool,
        cost: Kind | None, event: Event | None,
    ) -> None:  # fmt: skip
        self.agent, self.goals, self.planner, self.rng = agent, goals, planner, rng
        self.replan, self.cost, self.event = replan, cost, event
        count = len(goals)
        self.scenes, self.states = goals.scenes.copy(), goals.start.copy()
        self.plans: list[_Plan | None] = [None] * count
        self.surprises: list[list[Surprise]] = [[] for _ in range(count)]
        self.planned, self.steps, self.imagined, self.came_true, self.calls = np.zeros((5, count), dtype=np.int64)
        self.success = goals.reached(goals.start)
        self.active = ~self.success
        self.open_loop = self.success.copy()
        self.seconds = 0.0

    def run(self, budget: int) -> Outcome:
        for step in range(budget):
            self._plan(np.flatnonzero(self.active & [plan is None for plan in self.plans]))
            rows = np.flatnonzero(self.active)
            if not len(rows):
                break
            self._step(rows)
            if self.event is not None:
                self.scenes, self.states = self.event(step, self.scenes, self.states)
            self._look(rows)
        return Outcome(
            self.success, self.steps, self.open_loop, self.imagined, self.came_true, self.calls, self.seconds,
            self.states, self.scenes,
        )  # fmt: skip

    def _plan(self, rows: Int[np.ndarray, " some"]) -> None:
        """New plans for goals that have none; without hope, or when it may not look again, the agent stops."""
        allowed = (self.planned[rows] < (PLANS if self.replan else 1)) & (self.calls[rows] < CALLS)
        self.active[rows[~allowed]] = False
        rows = rows[allowed]
        if not len(rows):
            return
        began = time.process_time()
        model = self.agent.model
        now = self.agent.observe(self.scenes[rows], self.states[rows])
        goal = self.agent.observe(self.goals.scenes[rows], self.goals.goal[rows])
        solved = solve(
            model, now, goal, self.planner, self.rng, cost=self.cost, strict=self.event is None,
            surprises=[self.surprises[row] for row in rows.tolist()],
        )  # fmt: skip
        self.calls[rows] += solved.calls
        seen = make_view(model, now, self.cost).rows(now)
        paths = _imagined(model, now, solved.found, self.cost)
        self.seconds += time.process_time() - began
        for i, row in enumerate(rows.tolist()):
            actions = list(solved.found[i].actions)
            self.plans[row] = _Plan(actions, paths[i], float(solved.unit[i]), seen[i])
            self.active[row] = bool(actions)
        first = rows[self.planned[rows] == 0]
        if len(first):
            self._run_open_loop(first)
        self.planned[rows] += 1

    def _run_open_loop(self, rows: Int[np.ndarray, " some"]) -> None:
        """Carry out whole plans without looking, beside the episode."""
        scenes, states = self.scenes[rows], self.states[rows].copy()
        plans = [self._actions(row) for row in rows.tolist()]
        world = sized(self.goals.world, scenes)
        for step in range(max(map(len, plans))):
            going = np.array([i for i, plan in enumerate(plans) if step < len(plan)])
            taken = np.array([plans[i][step] for i in going])
            states[going] = world.step(scenes[going], states[going], taken)
        self.open_loop[rows] = self.goals.subset(rows).reached(states)

    def _actions(self, row: int) -> list[int]:
        plan = self.plans[row]
        return [] if plan is None else plan.actions

    def _step(self, rows: Int[np.ndarray, " some"]) -> None:
        taken = np.array([self._actions(row)[0] for row in rows.tolist()])
        world = sized(self.goals.world, self.scenes)
        self.states[rows] = world.step(self.scenes[rows], self.states[rows], taken)
        self.steps[rows] += 1

    def _look(self, rows: Int[np.ndarray, " some"]) -> None:
        """Compare what is seen with what was imagined, and drop plans that went wrong or have ended."""
        began = time.process_time()
        seen = self.agent.observe(self.scenes[rows], self.states[rows])
        found = make_view(self.agent.model, seen, self.cost)
        plans = [plan for row in rows.tolist() if (plan := self.plans[row]) is not None]
        expected, looks = np.stack([plan.rows[0] for plan in plans]), found.rows(seen)
        apart = found.change(expected, looks) > REACHED * np.array([plan.unit for plan in plans])
        self.seconds += time.process_time() - began
        self.imagined[rows] += 1
        self.came_true[rows] += ~apart
        if self.event is None:
            self.success[rows] = self.goals.subset(rows).reached(self.states[rows])
        self.active[rows] = ~self.success[rows]
        for row, plan, look, wrong in zip(rows.tolist(), plans, looks, apart.tolist(), strict=True):
            if wrong:
                self.surprises[row].append((plan.seen, plan.actions[0]))
            del plan.actions[0], plan.rows[0]
            plan.seen = look
            if not plan.actions or (wrong and self.replan):
                self.plans[row] = None


def _imagined(
    model: WorldModel, start: State, plans: tuple[Found, ...], cost: Kind | None
) -> list[list[Float[np.ndarray, "R D"]]]:
    """The rows that each action of each plan leads to, in imagination."""
    view = make_view(model, start, cost)
    paths: list[list[np.ndarray]] = [[] for _ in plans]
    going = list(range(len(plans)))
    state = start
    for step in range(max((len(plan.actions) for plan in plans), default=0)):
        kept = [i for i, row in enumerate(going) if step < len(plans[row].actions)]
        going = [going[i] for i in kept]
        taken = torch.tensor([plans[row].actions[step] for row in going], device=device_of(model))
        state = model.step(state[torch.tensor(kept)], taken)
        for row, rows in zip(going, view.rows(state), strict=True):
            paths[row].append(rows)
    return paths


def act_exactly(goals: GoalSet) -> Outcome:
    """The reference of perfect play: exact search on the true states, carried out."""
    began = time.process_time()
    plans = shortest_plans(goals.world, goals.scenes, goals.start, goals.goal)
    seconds = time.process_time() - began
    states, world = goals.start.copy(), goals.simulator
    for taken in plans.actions.T:
        going = np.flatnonzero(taken >= 0)
        states[going] = world.step(goals.scenes[going], states[going], taken[going])
    success = goals.reached(states)
    steps = np.maximum(plans.steps, 0).astype(np.int64)
    nothing = np.zeros_like(steps)
    return Outcome(success, steps, success, steps, steps, nothing, seconds, states, goals.scenes)


def act_randomly(goals: GoalSet, rng: np.random.Generator, budget: int = BUDGET) -> Outcome:
    """The reference of no plan: any actions of the objects that are there, until the goal is met or the budget ends."""
    world, scenes, states = goals.simulator, goals.scenes, goals.start.copy()
    per = goals.world.actions_per_object
    success = goals.reached(states)
    steps = np.zeros(len(goals), dtype=np.int64)
    sizes = (scenes >= 0).sum(axis=1)
    for _ in range(budget):
        rows = np.flatnonzero(~success)
        slot = (rng.random(len(rows)) * sizes[rows]).astype(np.int64)
        taken = scenes[rows, slot] * per + rng.integers(per, size=len(rows))
        states[rows] = world.step(scenes[rows], states[rows], taken)
        steps[rows] += 1
        success[rows] = goals.subset(rows).reached(states[rows])
    nothing = np.zeros(len(goals), dtype=np.int64)
    return Outcome(success, steps, success & False, nothing, nothing, nothing, 0.0, states, scenes)
