"""A* in latent space, lazily: what a move does is guessed first, and imagined only when its turn comes.

The guess is the effect of the move where nothing is in the way (see `moves`); the model says what really happens. So a
way without obstacles costs one imagined step for each of its steps, and an obstacle one more. States that are the same
but for errors of the model are found by their keys. All goals are searched at once: each round imagines the next moves
of all of them together.
"""

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from howm.config import require_least, validate
from howm.errors import HowmError
from howm.models.world_model import State
from howm.planning.cost import Reading
from howm.planning.problem import Found, Problem

LATER = 1e6  # added to the priority of moves that seem to lead where the search has been
GOAL = -1


@dataclass(frozen=True)
class SearchConfig:
    """``budget`` imagined steps for each goal. The first ``exact`` of them are spent on the shortest plan (A*: steps so
    far plus steps to go); then steps to go count ``weights`` times, each for as many imagined steps more, the last one
    until the budget is spent.
    """

    budget: int = 12_000
    exact: int = 4_000
    weights: tuple[float, ...] = (1.5, 3.0)

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "budget", "exact")
        if any(weight < 1 for weight in self.weights):
            raise HowmError(f"weights must be 1 or more, got {self.weights}")

    def weight(self, imagined: int) -> float:
        phase = imagined // self.exact
        return ((1.0, *self.weights) if self.weights else (1.0,))[min(phase, len(self.weights))]


def search(problem: Problem, config: SearchConfig, rng: np.random.Generator) -> list[Found]:
    """The shortest plan of each goal, where the estimate does not exceed the steps that are needed; else a short one.

    Where the budget ends or nothing is left to try, the plan to the state that is nearest to the goal.
    """
    everyone = np.arange(len(problem))
    reading = problem.cost.read(problem.start, everyone)
    trees = [_Tree(problem, goal, config) for goal in everyone.tolist()]
    _grow(problem, trees, _Batch(problem.start, reading), [(tree, None, -1) for tree in trees])
    while moves := [move for tree in trees if tree.open for move in tree.next_moves()]:
        goal = np.array([tree.goal for tree, _, _ in moves])
        choice = np.array([choice for _, _, choice in moves])
        action = problem.cost.actions[goal, choice]
        before = _gather(problem, [node for _, node, _ in moves if node is not None])
        after = problem.imagination.step(before, action, goal)
        _grow(problem, trees, _Batch(after, problem.cost.read(after, goal)), moves)
    return [tree.found() for tree in trees]


@dataclass(eq=False)
class _Batch:
    """States that were imagined together; those of a tree's nodes stay in memory."""

    state: State
    reading: Reading


@dataclass(eq=False)
class _Node:
    batch: _Batch
    row: int
    key: bytes
    depth: int
    parent: "_Node | None"
    choice: int
    order: list[int]  # choices, the most promising first
    guess: list[float]  # steps to go after each of them
    tried: int = 0


_Move = tuple["_Tree", "_Node | None", int]


class _Tree:
    """The search for one goal."""

    def __init__(self, problem: Problem, goal: int, config: SearchConfig) -> None:
        self.problem, self.goal, self.config = problem, goal, config
        self.choices = int((problem.cost.actions[goal] >= 0).sum())
        self.avoid = problem.avoid[goal] if problem.avoid else frozenset()
        self.depths: dict[bytes, int] = {}
        self.queue: list[tuple[float, float, int, _Node, int | None]] = []
        self.ticket = count()
        self.imagined, self.weight = 0, 1.0
        self.best: _Node | None = None
        self.best_steps = np.inf
        self.end: _Node | None = None

    @property
    def open(self) -> bool:
        return self.end is None and bool(self.queue) and self.imagined < self.config.budget

    def next_moves(self) -> list[_Move]:
        """The most promising moves: one at first, more when the search turns out to be long."""
        moves: list[_Move] = []
        wanted = min(1 + self.imagined // 64, 64, self.config.budget - self.imagined)
        while self.queue and len(moves) < wanted:
            _, _, _, node, choice = heapq.heappop(self.queue)
            if choice == GOAL:
                if not moves:
                    self.end = node
                else:
                    self._push(float(node.depth), 0.0, node, GOAL)
                break
            if choice is None:
                choice, guess = node.order[node.tried], node.guess[node.tried]
                node.tried += 1
                self._queue_next(node)
                if (node.key, int(self.problem.cost.actions[self.goal, choice])) in self.avoid:
                    continue
                reading = node.batch.reading
                key = self.problem.cost.guess_key(reading, node.row, choice)
                if key is not None and self.depths.get(key, node.depth + 2) <= node.depth + 1:
                    self._push(LATER + node.depth + 1 + guess, guess, node, choice)
                    continue
            moves.append((self, node, choice))
        self.imagined += len(moves)
        weight = self.config.weight(self.imagined)
        if weight != self.weight:
            self._reweigh(weight)
        return moves

    def add(self, node: _Node, steps: float, reached: bool) -> bool:
        """Take a state in, unless it was reached before in as few steps."""
        if self.depths.get(node.key, node.depth + 1) <= node.depth:
            return False
        self.depths[node.key] = node.depth
        if steps < self.best_steps:
            self.best, self.best_steps = node, steps
        if reached:
            self._push(float(node.depth), 0.0, node, GOAL)
        else:
            self._queue_next(node)
        return True

    def found(self) -> Found:
        node = self.end or self.best
        assert node is not None
        steps = 0.0 if self.end else float(self.best_steps)
        choices: list[int] = []
        while node.parent is not None:
            choices.append(node.choice)
            node = node.parent
        actions = self.problem.cost.actions[self.goal][choices[::-1]] if choices else []
        return Found(tuple(int(action) for action in actions), steps, self.end is not None)

    def _queue_next(self, node: _Node) -> None:
        if node.tried < self.choices:
            guess = node.guess[node.tried]
            self._push(node.depth + 1 + self.weight * guess, guess, node, None)

    def _push(self, priority: float, guess: float, node: _Node, choice: int | None) -> None:
        """Of equal priorities the one that seems nearest to the goal comes first, then the latest."""
        heapq.heappush(self.queue, (priority, guess, -next(self.ticket), node, choice))

    def _reweigh(self, weight: float) -> None:
        self.weight = weight
        self.queue = [
            (p if p >= LATER or choice == GOAL else node.depth + 1 + weight * guess, guess, ticket, node, choice)
            for p, guess, ticket, node, choice in self.queue
        ]
        heapq.heapify(self.queue)


def _grow(problem: Problem, trees: list[_Tree], batch: _Batch, moves: list[_Move]) -> None:
    """Put states that were imagined into their trees."""
    reading = batch.reading
    guess = np.where(problem.cost.actions[reading.goal] < 0, np.inf, problem.cost.guess(reading))
    order = np.argsort(guess, axis=1, kind="stable")
    guesses, orders = np.take_along_axis(guess, order, axis=1).tolist(), order.tolist()
    kept: list[_Node] = []
    for row, ((tree, parent, choice), key) in enumerate(zip(moves, problem.cost.keys(reading), strict=True)):
        depth = 0 if parent is None else parent.depth + 1
        node = _Node(batch, row, key, depth, parent, choice, orders[row], guesses[row])
        if tree.add(node, float(reading.steps[row]), bool(reading.reached[row])):
            kept.append(node)
    rows = np.array([node.row for node in kept], dtype=np.int64)
    batch.state, batch.reading = batch.state[problem.imagination.rows(rows)], reading[rows]
    for row, node in enumerate(kept):
        node.row = row


def _gather(problem: Problem, nodes: list[_Node]) -> State:
    """The states of nodes, in their order."""
    batches: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        batches.setdefault(id(node.batch), []).append(i)
    parts = [
        nodes[some[0]].batch.state[problem.imagination.rows(np.array([nodes[i].row for i in some]))]
        for some in batches.values()
    ]
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([np.array(some) for some in batches.values()]))
    return State.join(parts)[problem.imagination.rows(order)]
