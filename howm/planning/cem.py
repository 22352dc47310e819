"""The cross-entropy method over sequences of actions: draw many, keep the best, draw more like them."""

from dataclasses import dataclass

import numpy as np

from howm.config import require_least, require_positive, validate
from howm.planning.problem import Found, Problem, at_start

PER_STEP = 0.01  # what an action costs beside the steps that remain


@dataclass(frozen=True)
class CEMConfig:
    """``samples`` sequences of ``horizon`` actions in each of ``rounds``; the probabilities of the actions at each
    time move by ``rate`` towards their shares among the best ``elites``.
    """

    samples: int = 200
    horizon: int = 12
    rounds: int = 6
    elites: int = 20
    rate: float = 0.8

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "samples", "horizon", "rounds", "elites")
        require_positive(self, "rate")


def cem(problem: Problem, config: CEMConfig, rng: np.random.Generator) -> list[Found]:
    """Sequences are as good as the nearest state on their way; the plan ends there."""
    best = at_start(problem)
    actions = problem.cost.actions
    real = (actions >= 0).astype(float)
    odds = (real / np.maximum(real.sum(axis=1, keepdims=True), 1))[:, None].repeat(config.horizon, axis=1)
    for _ in range(config.rounds):
        goals = np.array([g for g, found in enumerate(best) if not found.reached and real[g].any()], dtype=np.int64)
        if not len(goals):
            break
        chosen = _draw(odds[goals], config.samples, rng)  # goals, samples, horizon
        value, length, reached = _imagine(problem, goals, chosen)
        for i, g in enumerate(goals.tolist()):
            order = np.argsort(value[i] + PER_STEP * length[i], kind="stable")
            top = order[0]
            taken = actions[g][chosen[i, top, : length[i, top]]]
            plan = Found(tuple(taken.tolist()), float(value[i, top]), bool(reached[i, top]))
            if plan.better_than(best[g]):
                best[g] = plan
            elites = chosen[i, order[: config.elites]]
            shares = np.stack([np.bincount(column, minlength=actions.shape[1]) for column in elites.T])
            odds[g] += min(config.rate, 1.0) * (shares / len(elites) - odds[g])
    return best


def _draw(odds: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Choices by their odds (goals, horizon, choices), for each goal and sample."""
    up_to = odds.cumsum(axis=2)
    dice = rng.random((len(odds), samples, odds.shape[1], 1)) * up_to[:, None, :, -1:]
    return np.asarray((up_to[:, None] <= dice).sum(axis=3).clip(max=odds.shape[2] - 1))


def _imagine(
    problem: Problem, goals: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """For each sequence the fewest steps that remain on its way, after how many actions, and whether it is the goal."""
    shape = chosen.shape[:2]
    whose = goals.repeat(shape[1])
    state = problem.start[problem.imagination.rows(whose)]
    value, length, reached = np.full(len(whose), np.inf), np.zeros(len(whose), np.int64), np.zeros(len(whose), bool)
    for t in range(chosen.shape[2]):
        action = problem.cost.actions[whose, chosen[:, :, t].reshape(-1)]
        state = problem.imagination.step(state, action, whose)
        reading = problem.cost.read(state, whose)
        nearer = ~reached & ((reading.steps < value) | reading.reached)
        value[nearer], length[nearer], reached[nearer] = reading.steps[nearer], t + 1, reading.reached[nearer]
    return value.reshape(shape), length.reshape(shape), reached.reshape(shape)
