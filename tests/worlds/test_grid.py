"""The dynamics against their plain-Python twin, and the random walk against the distribution it promises."""

import random
from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import plain_world
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Play, Situation, grids, plays, seeds, situations

from howm.errors import HowmError
from howm.worlds.grid import Grid, find_slots, random_walk


def positions_of(grid: Grid, cells: np.ndarray) -> list[tuple[int, int]]:
    return [divmod(cell, grid.width) for cell in cells.tolist()]


def assert_like_expected(counts: np.ndarray | list[int], expected: float) -> None:
    """Within five standard deviations of counts that are independent and rare among all."""
    assert np.abs(np.asarray(counts) - expected).max() < 5 * expected**0.5


@given(plays())
def test_moves_equal_those_of_the_plain_twin(play: Play) -> None:
    (grid, _, cells), actions = play
    for slot, direction in actions:
        before = cells.copy()
        after, moved = grid.move(cells, slot, direction)
        assert (cells == before).all()
        for episode in range(len(cells)):
            positions, has_moved = plain_world.move(
                grid.height, grid.width, positions_of(grid, cells[episode]), int(slot[episode]), int(direction[episode])
            )
            assert positions_of(grid, after[episode]) == positions
            assert moved[episode] == has_moved
        cells = after


@given(plays())
def test_at_most_the_chosen_object_moves_and_by_one_cell(play: Play) -> None:
    (grid, _, cells), actions = play
    for slot, direction in actions:
        after, moved = grid.move(cells, slot, direction)
        distance = np.abs(grid.positions(after) - grid.positions(cells)).sum(axis=-1)
        chosen = slot[:, None] == np.arange(cells.shape[1])
        assert (distance == (chosen & moved[:, None])).all()
        assert after.min() >= 0
        assert after.max() < grid.cell_count
        assert all(len(set(row)) == len(row) for row in after.tolist())
        cells = after


def test_borders_and_objects_block() -> None:
    grid = Grid(2, 3)
    cells = np.array([[0, 1]] * 4)
    after, moved = grid.move(cells, np.zeros(4, dtype=int), np.arange(4))
    assert moved.tolist() == [False, False, True, False]  # border, object, free, border
    assert after.tolist() == [[0, 1], [0, 1], [3, 1], [0, 1]]


def test_nobody_moves_for_an_absent_object() -> None:
    cells = np.array([[3, 4], [4, 3]])
    slot = find_slots(np.array([[5, 7], [7, 9]]), np.array([9, 9]))
    assert slot.tolist() == [-1, 1]
    after, moved = Grid(3, 3).move(cells, slot, np.array([0, 0]))
    assert moved.tolist() == [False, True]
    assert after.tolist() == [[3, 4], [4, 0]]


@given(grids)
def test_neighbours_are_mutual(grid: Grid) -> None:
    table = grid.neighbours
    for cell in range(grid.cell_count):
        for direction, neighbour in enumerate(table[cell].tolist()):
            if neighbour < grid.cell_count:
                assert table[neighbour, (direction + 2) % 4] == cell
    assert (table[grid.cell_count] == grid.cell_count).all()


@given(situations(), st.sampled_from([None, 0.0, 0.5, 0.9, 1.0]), st.integers(0, 12), seeds)
def test_every_step_of_a_walk_is_a_move(situation: Situation, moving: float | None, steps: int, seed: int) -> None:
    grid, headings, cells = situation
    trail, slots, relative = random_walk(grid, headings, cells, steps, moving, np.random.default_rng(seed))
    assert (trail[:, 0] == cells).all()
    assert trail.shape == (len(cells), steps + 1, cells.shape[1])
    assert slots.shape == relative.shape == (len(cells), steps)
    for step in range(steps):
        slot = slots[:, step]
        heading = np.take_along_axis(headings, slot[:, None].astype(int), axis=1)[:, 0]
        after, _ = grid.move(trail[:, step], slot, (relative[:, step] + heading) % 4)
        assert (trail[:, step + 1] == after).all()
    assert set(relative.ravel().tolist()) <= {0, 1, 2, 3}


@pytest.mark.parametrize("heading", range(4))
def test_relative_direction_zero_goes_where_the_object_heads(heading: int) -> None:
    grid = Grid(9, 9)
    headings, cells = np.full((400, 1), heading, dtype=np.int8), np.full((400, 1), 40)
    trail, _, relative = random_walk(grid, headings, cells, 1, 1.0, np.random.default_rng(0))
    forward = relative[:, 0] == 0
    row_step, column_step = plain_world.STEPS[heading]
    assert forward.any()
    assert (trail[forward, 1, 0] == (4 + row_step) * 9 + 4 + column_step).all()
    assert (trail[~forward, 1, 0] != (4 + row_step) * 9 + 4 + column_step).all()


def walk_of(
    grid: Grid, cells: np.ndarray, steps: int, moving: float | None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A walk of objects that all head north, so that relative directions are absolute."""
    return random_walk(grid, np.zeros_like(cells), cells, steps, moving, np.random.default_rng(seed))


def default_start(episodes: int, seed: int = 0) -> np.ndarray:
    return Grid().place(np.random.default_rng(seed), episodes, 5)


def share_moving(trail: np.ndarray) -> float:
    return float((trail[:, 1:] != trail[:, :-1]).any(axis=-1).mean())


def test_nine_in_ten_transitions_move_an_object() -> None:
    trail, _, _ = walk_of(Grid(), default_start(500), 100, 0.9)
    assert share_moving(trail) == pytest.approx(0.9, abs=0.005)


def test_every_transition_moves_an_object_where_asked_for_and_possible() -> None:
    trail, _, _ = walk_of(Grid(), default_start(200), 100, 1.0)
    assert share_moving(trail) == 1.0


@pytest.mark.parametrize("moving", [None, 0.0, 0.9, 1.0])
@pytest.mark.parametrize("grid", [Grid(1, 1), Grid(3, 4)], ids=str)
def test_a_full_grid_stands_still(grid: Grid, moving: float | None) -> None:
    cells = grid.place(np.random.default_rng(0), 50, grid.cell_count)
    trail, slots, directions = walk_of(grid, cells, 20, moving)
    assert share_moving(trail) == 0.0
    assert len(set(zip(slots.ravel().tolist(), directions.ravel().tolist(), strict=True))) == 4 * grid.cell_count


def test_an_object_moves_where_no_action_is_blocked() -> None:
    trail, _, _ = walk_of(Grid(3, 3), np.full((50, 1), 4), 1, 0.0)
    assert share_moving(trail) == 1.0


def test_without_a_rule_all_actions_are_equally_likely() -> None:
    _, slots, directions = walk_of(Grid(), default_start(2000), 50, None)
    assert_like_expected(np.bincount((slots * 4 + directions).ravel(), minlength=20), 2000 * 50 / 20)


def test_actions_of_either_outcome_are_equally_likely() -> None:
    # Object 0 in the corner and object 1 to its east: 0 is free to the south, 1 to the east and south.
    episodes = 40_000
    cells = np.tile([0, 1], (episodes, 1))
    _, slots, directions = walk_of(Grid(3, 3), cells, 1, 0.9)
    counts = np.bincount(slots[:, 0] * 4 + directions[:, 0], minlength=8)
    free = [2, 5, 6]
    assert_like_expected(counts[free], 0.9 * episodes / 3)
    assert_like_expected(np.delete(counts, free), 0.1 * episodes / 5)


def test_the_plain_twin_walks_alike() -> None:
    # Three objects on five cells in a row: states are few enough to compare how often each is reached.
    start = [(0, 0), (0, 1), (0, 3)]
    rng = random.Random(0)
    ends = Counter(tuple(plain_world.random_walk(1, 5, [0, 0, 0], start, 6, 0.9, rng)[0][-1]) for _ in range(8000))
    trail, _, _ = walk_of(Grid(1, 5), np.tile([0, 1, 3], (8000, 1)), 6, 0.9)
    ours = Counter(tuple(positions_of(Grid(1, 5), cells)) for cells in trail[:, -1])
    assert len(ends) > 5
    for state in ends | ours:
        both = ends[state] + ours[state]
        assert abs(ends[state] - ours[state]) <= 5 * both**0.5


def test_the_plain_twin_keeps_the_rule() -> None:
    walks = plain_world.collect(5, 5, 5, 40, 100, 0.9, random.Random(0))
    moved = [after != before for states, _, _ in walks for before, after in pairwise(states)]
    assert sum(moved) / len(moved) == pytest.approx(0.9, abs=0.02)


def test_same_seed_gives_the_same_walk() -> None:
    first, again, other = (walk_of(Grid(), default_start(20), 30, 0.9, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (first[0] != other[0]).any()


@pytest.mark.parametrize("k", [63, 64, 70])
def test_more_than_255_actions(k: int) -> None:
    grid = Grid(10, 10)
    cells = grid.place(np.random.default_rng(0), 60, k)
    trail, slots, directions = walk_of(grid, cells, 40, 0.9)
    assert set(slots.ravel().tolist()) == set(range(k))
    assert share_moving(trail) == pytest.approx(0.9, abs=0.03)
    for step in range(40):
        after, _ = grid.move(trail[:, step], slots[:, step], directions[:, step])
        assert (trail[:, step + 1] == after).all()


@pytest.mark.parametrize("side", [16, 17, 257])
def test_cells_of_large_grids_do_not_overflow(side: int) -> None:
    grid = Grid(side, side)
    last = grid.cell_count - 1
    trail, slots, directions = walk_of(grid, np.array([[last, last - side]]), 30, 0.9)
    cells = np.array([[last, last - side]])
    for step in range(30):
        cells, _ = grid.move(cells, slots[:, step], directions[:, step])
        assert (trail[:, step + 1] == cells).all()


def test_a_walk_leaves_its_start_alone() -> None:
    start = default_start(10)
    before = start.copy()
    walk_of(Grid(), start, 10, 0.9)
    assert (start == before).all()


@given(situations(max_episodes=10))
def test_places_are_different_cells_of_the_grid(situation: Situation) -> None:
    grid, _, cells = situation
    assert all(len(set(row)) == len(row) for row in cells.tolist())
    assert cells.min() >= 0
    assert cells.max() < grid.cell_count


def test_all_arrangements_are_equally_likely() -> None:
    cells = Grid(2, 3).place(np.random.default_rng(0), 30_000, 2)
    counts = Counter(map(tuple, cells.tolist()))
    assert set(counts) == set(permutations(range(6), 2))
    assert_like_expected(list(counts.values()), 30_000 / 30)


@pytest.mark.parametrize("k", [7, 100])
def test_too_many_objects_are_refused(k: int) -> None:
    Grid(2, 3).check_room(6)
    with pytest.raises(HowmError, match=f"k={k} objects do not fit on a grid of 2x3"):
        Grid(2, 3).place(np.random.default_rng(0), 1, k)


@pytest.mark.parametrize(("height", "width"), [(0, 5), (5, 0), (-1, -1)])
def test_empty_grids_are_refused(height: int, width: int) -> None:
    with pytest.raises(HowmError, match=f"{height}x{width}"):
        Grid(height, width)
