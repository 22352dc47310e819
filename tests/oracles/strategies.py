"""Hypothesis strategies for libraries, grids, scenes, splits and sequences of actions."""

from math import ceil, comb
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from howm.worlds.grid import Grid
from howm.worlds.library import KINDS, LibraryObject, ObjectLibrary
from howm.worlds.silhouettes import CARS, SHAPES, SIZES

seeds = st.integers(0, 2**32 - 1)
worlds = st.sampled_from(KINDS)
colours = st.tuples(*[st.integers(0, 255)] * 3).filter(any)
sizes = st.sampled_from(list(SIZES))
shape_objects = st.builds(LibraryObject, st.sampled_from(SHAPES), colours, sizes)
cars = st.builds(
    lambda heading, colour, size: LibraryObject(CARS[heading], colour, size, heading), st.integers(0, 3), colours, sizes
)


@st.composite
def libraries(draw: st.DrawFn, max_n: int = 8) -> ObjectLibrary:
    """Any library, not only those that `ObjectLibrary.make` would choose."""
    world = draw(worlds)
    kind = shape_objects if world == "shapes" else cars
    return ObjectLibrary(world, tuple(draw(st.lists(kind, min_size=1, max_size=max_n, unique=True))))


grids = st.builds(Grid, st.integers(1, 8), st.integers(1, 9))


class Situation(NamedTuple):
    """Objects on a grid: `cells` and `headings` have the shape (episodes, k)."""

    grid: Grid
    headings: np.ndarray
    cells: np.ndarray


@st.composite
def situations(draw: st.DrawFn, max_episodes: int = 3) -> Situation:
    """Any grid from empty to full, with any headings."""
    grid = draw(grids)
    k = draw(st.integers(1, grid.cell_count))
    episodes = draw(st.integers(1, max_episodes))
    rng = np.random.default_rng(draw(seeds))
    headings = rng.integers(4, size=(episodes, k)).astype(np.int8)
    return Situation(grid, headings, grid.place(rng, episodes, k))


class Play(NamedTuple):
    """A situation and the (slot, direction) pairs played in it, each an array over episodes; slot -1 is nobody."""

    situation: Situation
    actions: list[tuple[np.ndarray, np.ndarray]]


@st.composite
def plays(draw: st.DrawFn) -> Play:
    situation = draw(situations())
    episodes, k = situation.cells.shape

    def per_episode(values: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
        return st.lists(values, min_size=episodes, max_size=episodes).map(np.array)

    action = st.tuples(per_episode(st.integers(-1, k - 1)), per_episode(st.integers(0, 3)))
    return Play(situation, draw(st.lists(action, min_size=1, max_size=20)))


class SplitRequest(NamedTuple):
    n: int
    k: int
    train: int
    eval: int
    seed: int


@st.composite
def split_requests(draw: st.DrawFn, max_n: int = 10) -> SplitRequest:
    """Sizes that can be satisfied: training covers the library, and both sets fit into all combinations."""
    n = draw(st.integers(3, max_n))
    k = draw(st.integers(2, n - 1))
    train = draw(st.integers(ceil(n / k), comb(n, k) - 1))
    evaluation = draw(st.integers(1, comb(n, k) - train))
    return SplitRequest(n, k, train, evaluation, draw(seeds))


class Pictured(NamedTuple):
    """States to draw: `scene_ids` and `cells` have the shape (frames, k)."""

    library: ObjectLibrary
    grid: Grid
    cell_pixels: int
    scene_ids: np.ndarray
    cells: np.ndarray


@st.composite
def pictured_states(draw: st.DrawFn) -> Pictured:
    library, grid = draw(libraries()), draw(grids)
    frames, k = draw(st.integers(0, 3)), draw(st.integers(1, min(library.n, grid.cell_count)))
    rng = np.random.default_rng(draw(seeds))
    scene_ids = rng.random((frames, library.n)).argsort(axis=1)[:, :k]
    return Pictured(library, grid, draw(st.integers(5, 16)), scene_ids, grid.place(rng, frames, k))
