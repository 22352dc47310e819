"""Planners by name, with their settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from howm.config import from_plain
from howm.errors import HowmError
from howm.planning.cem import CEMConfig, cem
from howm.planning.problem import Found, Problem
from howm.planning.search import SearchConfig, search
from howm.planning.simple import BeamConfig, GreedyConfig, RandomConfig, beam, greedy, random


@dataclass(frozen=True)
class Planner:
    """A way to find plans: for each goal of a problem the best it found, or a plan to the nearest state."""

    name: str
    text: str
    find: Callable[[Problem, Any, np.random.Generator], list[Found]]
    config: Any

    def __call__(self, problem: Problem, rng: np.random.Generator) -> list[Found]:
        return self.find(problem, self.config, rng)


PLANNERS = {
    planner.name: planner
    for planner in (
        Planner("search", "A* in latent space, lazily", search, SearchConfig()),
        Planner("beam", "the nearest states of each length", beam, BeamConfig()),
        Planner("cem", "cross-entropy method over sequences of actions", cem, CEMConfig()),
        Planner("greedy", "the best single action, again and again", greedy, GreedyConfig()),
        Planner("random", "any actions", random, RandomConfig()),
    )
}


def make_planner(name: str, settings: Mapping[str, Any] | None = None) -> Planner:
    """The planner of that name, with some of its settings changed."""
    if name not in PLANNERS:
        raise HowmError(f"unknown planner {name!r}; choose one of {', '.join(PLANNERS)}")
    known = PLANNERS[name]
    if not settings:
        return known
    return Planner(name, known.text, known.find, from_plain(type(known.config), settings, f"{name}."))
