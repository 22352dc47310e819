"""What a single action does, learned from the model itself: it imagines each one at the start and at the goal."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from howm.models.world_model import State
from howm.planning.imagination import Imagination
from howm.planning.view import View

MOVES = 0.25  # of the largest change that an action makes: from here on it moves something
RETRIES = 16  # other states in which an action that moved nothing is tried again, in each round
ROUNDS = 2


@dataclass(frozen=True)
class Moves:
    """Axes: G goals, M rows that matter, A actions of a row, D numbers of a row.

    ``actions`` are library actions, -1 where a row has fewer; ``effect`` is the change that an action makes in its own
    row where nothing is in the way, zero where none was found. ``unit`` is the size of a move. ``counts`` says which
    rows the goal is about.
    """

    rows: Int[np.ndarray, "G M"]
    counts: Bool[np.ndarray, "G M"]
    actions: Int[np.ndarray, "G M A"]
    effect: Float[np.ndarray, "G M A D"]
    unit: Float[np.ndarray, " G"]

    def subset(self, index: Int[np.ndarray, " some"]) -> "Moves":
        """Those of some of the goals."""
        return Moves(*(values[index] for values in vars(self).values()))


def measure_moves(imagination: Imagination, view: View, start: State, goal: State, strict: bool = True) -> Moves:
    """Imagine all actions of the objects that are there, or of all objects where the model cannot tell.

    An action that moves nothing, neither at the start nor at the goal, is tried again in states that are a move or two
    away. With ``strict`` false, a goal is about the objects that both states have.
    """
    goals, n, per = len(start), view.n, view.per_object
    here, there = imagination.model.present(start), imagination.model.present(goal)
    seen, shown = (np.ones((goals, n), bool) if p is None else p.cpu().numpy() for p in (here, there))
    tries = _Tries(imagination, view, goals)
    index, action = np.nonzero(seen.repeat(per, axis=1))
    children, sizes = tries.take(start, index, index, action)
    at_goal, tried = np.nonzero((shown & seen).repeat(per, axis=1))
    tries.take(goal, at_goal, at_goal, tried)
    able = np.asarray(tries.moves.reshape(goals, n, per).any(axis=2)) if here is None else seen
    for _ in range(ROUNDS):
        unknown = able.repeat(per, axis=1) & ~tries.moves
        moved = sizes > MOVES * tries.size.max(axis=1)[index]
        child, retried = _retries(unknown, index, action // per, moved, per)
        if not len(child):
            break
        index, action = index[child], retried
        children, sizes = tries.take(children, child, index, action)
    unit = np.array([np.median(s[m]) if m.any() else 1.0 for s, m in zip(tries.size, tries.moves, strict=True)])
    apart = view.apart(view.rows(start), view.rows(goal), unit)
    needed = (able | apart) & (np.ones_like(seen) if strict else seen & shown)
    rows, counts, actions = view.layout(able, needed)
    effect = np.where(tries.moves[..., None], tries.effect, 0)[np.arange(goals)[:, None, None], actions]
    return Moves(rows, counts, actions, np.where(actions[..., None] < 0, 0, effect), unit)


class _Tries:
    """The largest change that each action of each goal was seen to make."""

    def __init__(self, imagination: Imagination, view: View, goals: int) -> None:
        self.imagination, self.view = imagination, view
        self.size = np.zeros((goals, view.n * view.per_object))
        self.effect = np.zeros((goals, view.n * view.per_object, 1))

    @property
    def moves(self) -> Bool[np.ndarray, "G actions"]:
        return np.asarray(self.size > MOVES * self.size.max(axis=1, keepdims=True))

    def take(
        self, state: State, row: Int[np.ndarray, " B"], goal: Int[np.ndarray, " B"], action: Int[np.ndarray, " B"]
    ) -> tuple[State, Float[np.ndarray, " B"]]:
        """Take actions in rows of a state: the states after them, and by how much they changed."""
        before = state[self.imagination.rows(row)]
        after = self.imagination.step(before, action, goal)
        rows, others = self.view.rows(before), self.view.rows(after)
        own = (others - rows)[np.arange(len(rows)), self.view.owner(action)]
        size = self.view.change(rows, others)
        if self.effect.shape[2] != own.shape[1]:
            self.effect = np.zeros((*self.effect.shape[:2], own.shape[1]))
        order = np.argsort(size, kind="stable")  # of several tries of an action, the largest comes last and stays
        order = order[size[order] > self.size[goal[order], action[order]]]
        self.size[goal[order], action[order]] = size[order]
        self.effect[goal[order], action[order]] = own[order]
        return after, size


def _retries(
    unknown: Bool[np.ndarray, "G actions"],
    goal: Int[np.ndarray, " B"],
    actor: Int[np.ndarray, " B"],
    moved: Bool[np.ndarray, " B"],
    per_object: int,
) -> tuple[Int[np.ndarray, " tries"], Int[np.ndarray, " tries"]]:
    """States after a move, and an unknown action to try in each: first where the same object has moved."""
    found: list[tuple[int, int]] = []
    for g in np.flatnonzero(unknown.any(axis=1)):
        children = np.flatnonzero((goal == g) & moved)
        for action in np.flatnonzero(unknown[g]):
            own_first = children[np.argsort(actor[children] != action // per_object, kind="stable")]
            found += [(int(child), int(action)) for child in own_first[:RETRIES]]
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
