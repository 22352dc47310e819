"""Planners to compare with: random actions, one step ahead, and a beam of the nearest states."""

from dataclasses import dataclass

import numpy as np

from howm.config import require_least, validate
from howm.planning.problem import Found, Problem, at_start


@dataclass(frozen=True)
class RandomConfig:
    """``length`` actions, drawn from those that move something."""

    length: int = 10

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "length")


def random(problem: Problem, config: RandomConfig, rng: np.random.Generator) -> list[Found]:
    """Any actions at all; nothing is imagined, so nothing is known of where they lead."""
    found = []
    for goal, start in enumerate(at_start(problem)):
        choices = problem.choices(goal)
        if start.reached or not len(choices):
            found.append(start)
        else:
            drawn = problem.cost.actions[goal][rng.choice(choices, config.length)]
            found.append(Found(tuple(drawn.tolist()), start.steps_to_go, False))
    return found


@dataclass(frozen=True)
class GreedyConfig:
    """At most ``length`` actions."""

    length: int = 60

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "length")


def greedy(problem: Problem, config: GreedyConfig, rng: np.random.Generator) -> list[Found]:
    """Again and again the action after which the fewest steps remain; the plan ends where none brings it nearer."""
    return _widest(problem, 1, config.length, downhill=True)


@dataclass(frozen=True)
class BeamConfig:
    """The ``width`` nearest states of each length are kept, up to ``length`` actions."""

    width: int = 16
    length: int = 60

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "width", "length")


def beam(problem: Problem, config: BeamConfig, rng: np.random.Generator) -> list[Found]:
    """The nearest states of each length, without those that were there before."""
    return _widest(problem, config.width, config.length, downhill=False)


def _widest(problem: Problem, width: int, length: int, downhill: bool) -> list[Found]:
    """Imagine every action of every state that is kept, and keep the nearest of what comes out."""
    cost, imagination = problem.cost, problem.imagination
    best = at_start(problem)
    goal = np.array([g for g, found in enumerate(best) if not found.reached], dtype=np.int64)
    state = problem.start[imagination.rows(goal)]
    plans: list[tuple[int, ...]] = [()] * len(goal)
    seen: list[set[bytes]] = [set() for _ in best]
    for g, key in zip(goal.tolist(), cost.keys(cost.read(state, goal)), strict=True):
        seen[g].add(key)
    for _ in range(length):
        row, choice = np.nonzero(cost.actions[goal] >= 0)
        if not len(row):
            break
        action, whose = cost.actions[goal[row], choice], goal[row]
        after = imagination.step(state[imagination.rows(row)], action, whose)
        reading = cost.read(after, whose)
        keys = cost.keys(reading)
        kept: list[int] = []
        taken = np.zeros(len(best), dtype=np.int64)
        before = [found.steps_to_go for found in best]
        for i in np.argsort(reading.steps, kind="stable").tolist():
            g = int(whose[i])
            nearer = reading.reached[i] or reading.steps[i] < before[g] or not downhill
            if taken[g] == width or keys[i] in seen[g] or not nearer:
                continue
            seen[g].add(keys[i])
            taken[g] += 1
            kept.append(i)
            plan = Found((*plans[row[i]], int(action[i])), float(reading.steps[i]), bool(reading.reached[i]))
            if plan.better_than(best[g]):
                best[g] = plan
        kept = [i for i in kept if not best[int(whose[i])].reached]
        plans = [(*plans[row[i]], int(action[i])) for i in kept]
        goal, state = whose[kept], after[imagination.rows(np.array(kept, dtype=np.int64))]
    return best
