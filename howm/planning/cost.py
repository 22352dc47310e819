"""The cost of states: an estimate of the steps to the goal, apart from the model and from the search.

Moves are the unit. Where a model has a row for each object, the way that an object has to go is written as a sum of the
effects of its own moves, as few as possible, and the estimate is their number, summed over objects. Where what a move
changes does not depend on where it is made, as on the grids, that is the exact number if nothing is in the way.
Without rows of objects the estimate is the distance by the model's metric, in units of a move.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from howm.models.world_model import State
from howm.planning.moves import Moves
from howm.planning.view import EmbeddingView, View

REACHED = 0.5  # moves: nearer than this is there
NOISE = 0.1  # of the largest singular value of the effects: smaller ones are errors of the model


@dataclass(frozen=True)
class Reading:
    """States as the cost sees them. Axes: B states, M rows, A actions of a row.

    ``along`` is each row's way from the goal in units of its moves, ``beside`` what they cannot express.
    """

    goal: Int[np.ndarray, " B"]
    rows: Float[np.ndarray, "B M D"]
    along: Float[np.ndarray, "B M A"]
    beside: Float[np.ndarray, "B M D"]
    row_steps: Float[np.ndarray, "B M"]
    steps: Float[np.ndarray, " B"]
    reached: Bool[np.ndarray, " B"]

    def __len__(self) -> int:
        return len(self.goal)

    def __getitem__(self, index: Any) -> "Reading":
        return Reading(*(value[index] for value in vars(self).values()))


class Cost(ABC):
    """Steps to go, for many goals at once; ``actions`` (G, C) are the library actions that may be taken, or -1."""

    def __init__(self, view: View, moves: Moves, goal: State) -> None:
        self.view, self.moves = view, moves
        goals = len(moves.unit)
        self.actions = moves.actions.reshape(goals, -1)
        self.target = view.rows(goal)[np.arange(goals)[:, None], moves.rows]
        columns = np.swapaxes(moves.effect, 2, 3)
        self.inverse = np.linalg.pinv(columns, rcond=NOISE)  # (G, M, A, D)
        self.shift = np.einsum("gmad,gmbd->gmba", self.inverse, moves.effect)  # of `along`, by each action
        self.unknown = ~moves.effect.any(axis=3).reshape(goals, -1)  # actions that have not been seen to move anything

    def read(self, state: State, goal: Int[np.ndarray, " B"]) -> Reading:
        """States, each for one of the goals."""
        return self.read_rows(self.view.rows(state), goal)

    def read_rows(self, rows: Float[np.ndarray, "B R D"], goal: Int[np.ndarray, " B"]) -> Reading:
        """States of which the view's rows are known."""
        rows = rows[np.arange(len(goal))[:, None], self.moves.rows[goal]]
        way = rows - self.target[goal]
        along = np.einsum("bmad,bmd->bma", self.inverse[goal], way)
        beside = (way - np.einsum("bmad,bma->bmd", self.moves.effect[goal], along)) / self.moves.unit[goal][
            :, None, None
        ]
        return self._judge(goal, rows, along, beside)

    @abstractmethod
    def _judge(self, goal: np.ndarray, rows: np.ndarray, along: np.ndarray, beside: np.ndarray) -> Reading:
        """Add the estimate."""

    def guess(self, reading: Reading) -> Float[np.ndarray, "B C"]:
        """The estimate after each action if nothing is in the way: without the model, to choose what to imagine.

        An action of which nothing is known may be a step towards the goal.
        """
        hoped = np.maximum(reading.steps - 1, 0)[:, None]
        return np.where(self.unknown[reading.goal], hoped, self._after(reading))

    @abstractmethod
    def _after(self, reading: Reading) -> Float[np.ndarray, "B C"]:
        """The estimate after what each action is known to do."""

    def keys(self, reading: Reading) -> list[bytes]:
        """Equal for states that are the same but for errors of the model."""
        return self._keys(reading.along, reading.beside)

    def guess_key(self, reading: Reading, row: int, choice: int) -> bytes | None:
        """The key of a state after an action, if nothing is in the way; None where nothing is known of the action."""
        if self.unknown[reading.goal[row], choice]:
            return None
        m, a = divmod(choice, self.moves.actions.shape[2])
        along = reading.along[row].copy()
        along[m] += self.shift[reading.goal[row], m, a]
        return self._keys(along[None], reading.beside[row][None])[0]

    def _keys(self, along: np.ndarray, beside: np.ndarray) -> list[bytes]:
        # A move and its opposite share the way between them: half of it each. Twice that is an integer on a grid.
        words = np.concatenate([np.rint(2 * along), np.rint(beside)], axis=2).astype(np.int16)
        return [word.tobytes() for word in words]


class ObjectCost(Cost):
    """The sum over objects of the moves that each has to make."""

    def _judge(self, goal: np.ndarray, rows: np.ndarray, along: np.ndarray, beside: np.ndarray) -> Reading:
        raw = np.abs(along).sum(axis=2) + np.sqrt(np.square(beside).sum(axis=2))
        row_steps = np.where(self.moves.counts[goal], _rounded(raw), 0)
        return Reading(goal, rows, along, beside, row_steps, row_steps.sum(axis=1), (row_steps == 0).all(axis=1))

    def _after(self, reading: Reading) -> Float[np.ndarray, "B C"]:
        moved = np.abs(reading.along[:, :, None] + self.shift[reading.goal]).sum(axis=3)
        after = _rounded(moved + np.sqrt(np.square(reading.beside).sum(axis=2))[..., None])
        after = np.where(self.moves.counts[reading.goal][..., None], after, 0)
        total = (reading.steps[:, None] - reading.row_steps)[..., None] + after
        return np.asarray(total.reshape(len(reading), -1))


class EmbeddingCost(Cost):
    """The distance to the goal by the model's metric, in units of a move."""

    view: EmbeddingView

    def _judge(self, goal: np.ndarray, rows: np.ndarray, along: np.ndarray, beside: np.ndarray) -> Reading:
        steps = self.view.distances(self.target[goal], rows)[:, 0] / self.moves.unit[goal]
        return Reading(goal, rows, along, beside, steps[:, None], steps, steps < REACHED)

    def _after(self, reading: Reading) -> Float[np.ndarray, "B C"]:
        after = reading.rows + self.moves.effect[reading.goal][:, 0]
        apart = self.view.distances(self.target[reading.goal], after)
        return np.asarray(apart / self.moves.unit[reading.goal][:, None])


def make_cost(view: View, moves: Moves, goal: State) -> Cost:
    kind = EmbeddingCost if isinstance(view, EmbeddingView) else ObjectCost
    return kind(view, moves, goal)


def _rounded(steps: np.ndarray) -> np.ndarray:
    """Steps to the nearest half; less than half a step is none."""
    return np.where(steps < REACHED, 0.0, np.rint(2 * steps) / 2)
