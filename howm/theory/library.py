"""An Object Library small enough to enumerate."""

import itertools
from math import comb, factorial, perm

import numpy as np
from jaxtyping import Float, Integer

from howm.errors import HowmError
from howm.worlds.grid import Grid
from howm.worlds.library import ObjectLibrary
from howm.worlds.symmetry import Replacement

FullModel = Float[np.ndarray, "S A S"]  # T̂(s' | s, a) of the full MDP
SlotModel = Float[np.ndarray, "P B P"]  # of the slot MDP

EXACT = 1e-12  # numbers closer than this are equal
MOST_SAMPLES = 5_000_000  # (s, a, s', σ)


class TabularLibrary:
    """The full MDP in tables: S = C·P states (by scene, then arrangement) and A = 4N actions; and the slot MDP: the P
    arrangements of K slots, and B = 4K + 1 actions in *absolute* directions, the last for actions of absent objects."""

    def __init__(self, library: ObjectLibrary, k: int = 2, grid: Grid | None = None) -> None:
        n, grid = library.n, grid or Grid(2, 2)
        grid.check_room(k)
        states, actions = comb(n, k) * perm(grid.cell_count, k), 4 * n
        if not 1 <= k <= n:
            raise HowmError(f"a scene of k={k} objects cannot be drawn from a library of n={n}; give 1 <= k <= n")
        if states * actions * perm(grid.cell_count, k) * factorial(n) > MOST_SAMPLES:
            raise HowmError(f"n={n}, k={k} has {states} states, too many to enumerate; choose a smaller world")
        self.library, self.k, self.grid = library, k, grid
        self.scenes = np.array(list(itertools.combinations(range(n), k)))  # (C, K)
        self.arrangements = np.array(list(itertools.permutations(range(grid.cell_count), k)))  # (P, K)
        self.scene_ids = self.scenes.repeat(len(self.arrangements), axis=0)  # (S, K)
        self.cells = np.tile(self.arrangements, (len(self.scenes), 1))  # (S, K)
        # The states of the scene of each state, by arrangement: (S, P).
        self.own = np.arange(states).reshape(len(self.scenes), -1).repeat(len(self.arrangements), axis=0)

        ids, cells, action = self.scene_ids.repeat(actions, 0), self.cells.repeat(actions, 0), np.arange(actions)
        after, _, _ = grid.act(library.headings, ids, cells, np.tile(action, states))
        self.true_model: FullModel = np.eye(states)[self.state_index(ids, after)].reshape(states, actions, states)

        self.symmetries = tuple(Replacement(image) for image in itertools.permutations(range(n)))  # Σ_N
        states_of = [self.state_index(*sigma.states(self.scene_ids, self.cells)) for sigma in self.symmetries]
        self.replaced_states = np.array(states_of)  # (Σ_N, S)
        self.replaced_actions = np.array([sigma.actions(action, library.headings) for sigma in self.symmetries])
        bars = [Replacement(image) for image in itertools.permutations(range(k))]  # Σ_K
        slot_states_of = [self.arrangement_index(self.arrangements[:, list(bar.inverse.image)]) for bar in bars]
        self.replaced_slot_states = np.array(slot_states_of)  # (Σ_K, P)
        self.replaced_slot_actions = np.array([np.append(bar.actions(np.arange(4 * k)), 4 * k) for bar in bars])

    def arrangement_index(self, cells: Integer[np.ndarray, "B K"]) -> Integer[np.ndarray, " B"]:
        return _find_rows(self.arrangements, cells, self.grid.cell_count)

    def state_index(
        self, ids: Integer[np.ndarray, "B K"], cells: Integer[np.ndarray, "B K"]
    ) -> Integer[np.ndarray, " B"]:
        scene = _find_rows(self.scenes, ids, self.library.n)
        return np.asarray(scene * len(self.arrangements) + self.arrangement_index(cells))


def _find_rows(
    rows: Integer[np.ndarray, "R K"], wanted: Integer[np.ndarray, "B K"], base: int
) -> Integer[np.ndarray, " B"]:
    """Where each wanted row is among rows in lexicographic order."""
    digits = base ** np.arange(rows.shape[1])[::-1]
    return np.asarray(np.searchsorted(rows @ digits, wanted @ digits))
