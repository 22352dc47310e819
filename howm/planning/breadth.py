"""Searches that need no bound from distances, for worlds in which objects push or move in teams, and all others."""

import numpy as np
from jaxtyping import Bool, Float, Integer

from howm.planning.layers import Layers
from howm.planning.plans import UNREACHABLE, Plans
from howm.planning.state_set import state_hash
from howm.worlds.world import Scenes, States, World

TOGETHER = 64  # starts that are searched from at once
BEAM = 64  # states of a layer that a search without proof keeps
LONGEST = 60  # steps of its plans
ROUNDING = 1e-6  # of distances


def summed_distance(world: World, scenes: Scenes, state: States, goal: States) -> Float[np.ndarray, " E"]:
    """Of all objects from their places, by rows and columns, in units of positions; 0 where the world has none."""
    here, there = world.positions(scenes, state), world.positions(scenes, goal)
    if here is None or there is None:
        return np.zeros(len(scenes))
    return np.asarray(np.abs(here - there).sum(axis=(1, 2)), dtype=float)


class _Wanted:
    """Goals to be found among the states of searches; goal i belongs to the search ``of[i]``."""

    def __init__(self, world: World, scenes: Scenes, goal: States, of: Integer[np.ndarray, " G"]) -> None:
        self.world, self.of = world, of
        self.open = np.ones(len(goal), dtype=bool)
        hashes = state_hash(of, world.state_key(scenes, goal))
        self._order = np.argsort(hashes)
        self._sorted = hashes[self._order]

    def found(self, search: Layers) -> list[tuple[int, int]]:
        """Goals that the present layer reaches for the first time, each with a row of the layer."""
        if not len(search):
            return []
        keys = self.world.state_key(search.scenes[search.of], search.state)
        hashes = state_hash(search.of, keys)
        first, last = (np.searchsorted(self._sorted, hashes, side=side) for side in ("left", "right"))
        pairs = []
        for row in np.flatnonzero(first < last).tolist():
            for goal in self._order[first[row] : last[row]].tolist():
                if self.open[goal]:
                    self.open[goal] = False
                    pairs.append((goal, row))
        return pairs

    def waiting(self, searches: int) -> Bool[np.ndarray, " searches"]:
        """Which searches still have goals to find."""
        return np.bincount(self.of[self.open], minlength=searches) > 0


def breadth_first_plans(world: World, scenes: Scenes, start: States, goal: States, max_nodes: int) -> Plans:
    """Breadth-first from each different start, for all of its goals at once, up to ``max_nodes`` states.

    To goals beyond, a beam that follows the summed distances finds plans whose length is an upper bound.
    """
    keys = np.concatenate([scenes, start.reshape(len(start), -1)], axis=1)
    _, first, of_start = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of_start = of_start.reshape(-1)
    plans: dict[int, list[int]] = {}
    least = np.zeros(len(scenes), dtype=np.int64)
    for begin in range(0, len(first), TOGETHER):
        some = first[begin : begin + TOGETHER]
        goals = np.flatnonzero((of_start >= begin) & (of_start < begin + TOGETHER))
        search = Layers(world, scenes[some], start[some])
        wanted = _Wanted(world, scenes[goals], goal[goals], of_start[goals] - begin)
        ruled_out = np.zeros(len(some), dtype=np.int64)  # plans of at most so many steps
        active = np.ones(len(some), dtype=bool)
        while len(search):
            plans |= {int(goals[number]): search.actions_to(row) for number, row in wanted.found(search)}
            ruled_out[active] = search.depth
            active &= wanted.waiting(len(some)) & (search.seen <= max_nodes)
            search.select(np.flatnonzero(active[search.of]))
            if len(search):
                search.advance()
                ruled_out[active & (search.counts() == 0)] = UNREACHABLE - 1
        least[goals] = ruled_out[wanted.of] + 1
    least[list(plans)] = [len(plan) for plan in plans.values()]
    far = np.flatnonzero([row not in plans and least[row] < UNREACHABLE for row in range(len(scenes))])
    if len(far):
        plans |= {int(far[row]): plan for row, plan in guided_plans(world, scenes[far], start[far], goal[far]).items()}
    return Plans.of(plans, least)


def guided_plans(world: World, scenes: Scenes, start: States, goal: States) -> dict[int, list[int]]:
    """Some plan for those goals that a beam finds which follows the summed distances."""
    search = Layers(world, scenes, start)
    wanted = _Wanted(world, scenes, goal, np.arange(len(scenes)))
    plans: dict[int, list[int]] = {}
    while len(search) and search.depth <= LONGEST:
        plans |= {number: search.actions_to(row) for number, row in wanted.found(search)}
        left = summed_distance(world, scenes[search.of], search.state, goal[search.of])
        search.select(search.nearest(left, np.where(wanted.open, BEAM, 0)))
        if len(search):
            search.advance()
    return plans


def descends(world: World, scenes: Scenes, start: States, goal: States, max_nodes: int) -> Bool[np.ndarray, " E"]:
    """To which goals some way leads on which every step lowers the summed distance; ``max_nodes`` are looked at."""
    search = Layers(world, scenes, start)
    wanted = _Wanted(world, scenes, goal, np.arange(len(scenes)))

    def keep(of: np.ndarray, state: np.ndarray, parent: np.ndarray) -> np.ndarray:
        return np.asarray(summed_distance(world, scenes[of], state, goal[of]) < left[parent] - ROUNDING)

    while len(search):
        wanted.found(search)
        search.select(np.flatnonzero((wanted.open & (search.seen <= max_nodes))[search.of]))
        left = summed_distance(world, scenes[search.of], search.state, goal[search.of])
        if len(search):
            search.advance(keep)
    return ~wanted.open
