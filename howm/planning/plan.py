"""Plans: how to get from one picture to another, in the imagination of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from howm.data.privileged import Privileged
from howm.errors import HowmError, require_int
from howm.models.imagine import imagine
from howm.models.world_model import State, WorldModel, device_of, evaluating
from howm.planning.cost import Cost, make_cost
from howm.planning.imagination import Imagination
from howm.planning.moves import measure_moves
from howm.planning.planners import Planner, make_planner
from howm.planning.problem import Found, Problem, at_start
from howm.planning.view import Kind, make_view

TOGETHER = 64  # goals that are planned for at once; more would hold more states in memory

Surprise = tuple[Float[np.ndarray, "R D"], int]  # the view's rows of a state, and an action that failed there


@dataclass(frozen=True)
class Plan:
    """``states[t]`` and ``pictures[t]`` are imagined after t of the ``actions``; models that cannot draw have no
    pictures. ``cost`` is the steps that remain after them, ``reached`` whether that is the goal, as the model sees it;
    ``model_calls`` is how many states went through ``step`` to find that out.
    """

    actions: tuple[int, ...]
    states: tuple[State, ...]
    pictures: Float[Tensor, "frames H W 3"] | None
    cost: float
    reached: bool
    model_calls: int


@dataclass(frozen=True)
class Solved:
    """What a planner found for each goal, the states that went through ``step`` for it, and the size of a move."""

    found: tuple[Found, ...]
    calls: Int[np.ndarray, " G"]
    unit: Float[np.ndarray, " G"]


def plan(
    model: WorldModel,
    picture: Tensor | np.ndarray,
    goal: Tensor | np.ndarray,
    *,
    planner: str = "search",
    settings: Mapping[str, Any] | None = None,
    cost: Kind | None = None,
    strict: bool = True,
    seed: int = 0,
    privileged: Privileged | None = None,
) -> Plan:
    """Plan from one picture (height, width, 3) to another of the same scene.

    ``planner`` is search, beam, cem, greedy or random; ``settings`` are its own. ``cost`` is ``objects``, a sum over
    objects, or ``embedding``; by default the former where the model keeps objects apart. A goal that shows other
    objects is refused, or, with ``strict`` false, the plan is for the objects that both pictures show. Where no plan
    was found, it leads to the state that is nearest to the goal. Models that read object ids get them of
    ``privileged``.
    """
    start, target = (_one_picture(name, given) for name, given in (("picture", picture), ("goal", goal)))
    if start.shape != target.shape:
        raise HowmError(f"the goal has {_size(target)} pixels, the picture {_size(start)}; give pictures of one size")
    chosen = make_planner(planner, settings)
    rng = np.random.default_rng(require_int("seed", seed, 0))
    with torch.no_grad(), evaluating(model):
        device = device_of(model)
        first, last = (model.encode(pixels.to(device), privileged) for pixels in (start, target))
        if strict:
            _refuse_other_objects(model, first, last)
        solved = solve(model, first, last, chosen, rng, cost=cost, strict=strict)
    (found,) = solved.found
    seen = imagine(model, start, torch.tensor(found.actions, dtype=torch.int64), privileged)
    pictures = None if seen.pictures is None else seen.pictures[0]
    return Plan(found.actions, seen.states, pictures, found.steps_to_go, found.reached, int(solved.calls[0]))


def solve(
    model: WorldModel,
    start: State,
    goal: State,
    planner: Planner,
    rng: np.random.Generator,
    *,
    cost: Kind | None = None,
    strict: bool = True,
    surprises: Sequence[Sequence[Surprise]] = (),
) -> Solved:
    """Plans for many pairs of states of one model, which is in evaluation mode.

    ``surprises`` are, for each of them, actions that did not do what the model said: the search leaves them out there.
    """
    if len(start) != len(goal):
        raise HowmError(f"there must be a goal for each start, got {len(goal)} goals for {len(start)} starts")
    parts = [
        _solve(
            model,
            start[i : i + TOGETHER],
            goal[i : i + TOGETHER],
            planner,
            rng,
            cost,
            strict,
            surprises[i : i + TOGETHER],
        )
        for i in range(0, len(start), TOGETHER)
    ]
    found = tuple(one for part in parts for one in part.found)
    calls, unit = (np.concatenate([getattr(part, name) for part in parts]) for name in ("calls", "unit"))
    return Solved(found, calls, unit)


def _solve(
    model: WorldModel, start: State, goal: State, planner: Planner, rng: np.random.Generator, cost: Kind | None,
    strict: bool, surprises: Sequence[Sequence[Surprise]],
) -> Solved:  # fmt: skip
    view = make_view(model, start, cost)
    imagination = Imagination(model, len(start))
    moves = measure_moves(imagination, view, start, goal, strict)
    problem = Problem(imagination, start, make_cost(view, moves, goal))
    found = at_start(problem)
    hopeless = other_objects(model, start, goal).any(axis=1) & strict | (moves.actions < 0).all(axis=(1, 2))
    rows = np.flatnonzero(~np.asarray(hopeless) & np.array([not one.reached for one in found]))
    if len(rows):
        # The cost is read by the number of the goal, so a part of the goals is a problem of its own.
        index = imagination.rows(rows)
        part = Imagination(model, len(rows))
        estimate = make_cost(view, moves.subset(rows), goal[index])
        avoid = _avoided(estimate, [surprises[row] for row in rows.tolist()]) if surprises else ()
        reduced = Problem(part, start[index], estimate, avoid)
        for row, one in zip(rows.tolist(), planner(reduced, rng), strict=True):
            found[row] = one
        imagination.calls[rows] += part.calls
    return Solved(tuple(found), imagination.calls, moves.unit)


def _avoided(cost: Cost, surprises: Sequence[Sequence[Surprise]]) -> tuple[frozenset[tuple[bytes, int]], ...]:
    """The keys of the states in which actions have failed, with these actions."""
    found = []
    for goal, some in enumerate(surprises):
        keys = [cost.keys(cost.read_rows(rows[None], np.array([goal])))[0] for rows, _ in some]
        found.append(frozenset(zip(keys, (action for _, action in some), strict=True)))
    return tuple(found)


def other_objects(model: WorldModel, start: State, goal: State) -> Bool[np.ndarray, "G N"]:
    """Objects that only one of two pictures shows, as far as the model can tell."""
    here, there = model.present(start), model.present(goal)
    if here is None or there is None:
        return np.zeros((len(start), 1), dtype=bool)
    return np.asarray((here != there).cpu().numpy())


def _refuse_other_objects(model: WorldModel, start: State, goal: State) -> None:
    others = np.flatnonzero(other_objects(model, start, goal)[0])
    if len(others):
        named = ", ".join(str(i) for i in others[:4]) + (", ..." if len(others) > 4 else "")
        which = f"object {named} is" if len(others) == 1 else f"objects {named} are"
        raise HowmError(
            f"the goal shows another scene: {which} in one of the two pictures only; "
            "give a goal of the same objects, or strict=False"
        )


def _one_picture(name: str, given: Any) -> Tensor:
    """A batch of one picture."""
    if not isinstance(given, Tensor | np.ndarray):
        raise HowmError(f"{name} must be a tensor or a NumPy array, got {type(given).__name__}")
    found = given if isinstance(given, Tensor) else torch.from_numpy(np.array(given))
    if found.dim() != 3 or found.shape[2] != 3:
        raise HowmError(f"{name} must be (height, width, 3), got {tuple(found.shape)}")
    return found[None]


def _size(pictures: Tensor) -> str:
    return f"{pictures.shape[1]}x{pictures.shape[2]}"
