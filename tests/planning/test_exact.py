"""Exact plans against the obvious search, and what they promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_search import key, plain_a_star, plain_breadth_first, plainly_descends

from howm import HowmError, make_world, shortest_plans
from howm.planning.breadth import descends
from howm.planning.plans import UNREACHABLE
from howm.planning.state_set import StateSet, state_hash
from howm.worlds.world import World

SMALL = {"cells": (3, 3), "size": (30, 30)}
WORLDS = {
    "shapes": ("shapes", {"grid": (3, 3)}),
    "rush_hour": ("rush_hour", {"grid": (2, 4)}),
    "free": ("free", {**SMALL, "step_size": 0.2}),
    "layers": ("layers", {**SMALL, "step_size": 0.25}),
    "cars": ("free", {"cells": (2, 3), "size": (20, 30), "kind": "rush_hour", "space": "grid", "turn": 90}),
    "push": ("push", {"cells": (2, 3), "size": (20, 30)}),
    "team": ("team", {"cells": (2, 3), "size": (20, 30)}),
    "classes": ("classes", {"cells": (2, 3), "size": (20, 30)}),
}


def drawn(name, seed, goals, k, steps=30):
    kind, options = WORLDS[name]
    world, rng = make_world(kind, 6, **options), np.random.default_rng(seed)
    scenes = np.stack([np.sort(rng.choice(6, k, replace=False)) for _ in range(goals)])
    start = world.reset(scenes, rng)
    goal = world.play(scenes, start, steps, 1.0, rng)[0][:, -1].astype(start.dtype)
    return world, scenes, start, goal


@pytest.mark.parametrize("name", WORLDS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1000), k=st.integers(1, 2))
def test_plans_are_as_short_as_the_plain_search_finds(name, seed, k):
    world, scenes, start, goal = drawn(name, seed, 3, k)
    plans = shortest_plans(world, scenes, start, goal)
    assert plans.found.all()
    assert plans.exact.all()
    for row, scene in enumerate(scenes):
        assert plans.steps[row] == plain_breadth_first(world, scene, start[row], goal[row])
        if world.steps_between(scenes, start, goal) is not None:
            assert plans.steps[row] == plain_a_star(world, scene, start[row], goal[row])
        state = start[row][None]
        for action in plans.actions[row][: plans.steps[row]]:
            state = world.step(scene[None], state, np.array([action]))
        assert key(world, scene, state[0]) == key(world, scene, goal[row])
        assert (plans.actions[row][plans.steps[row] :] == -1).all()
    downhill = descends(world, scenes, start, goal, 10_000)
    assert downhill.tolist() == [plainly_descends(world, *row) for row in zip(scenes, start, goal, strict=True)]


@pytest.mark.parametrize("name", [name for name in WORLDS if name not in ("push", "team", "classes")])
def test_where_objects_only_block_a_detour_is_a_plan_longer_than_summed_distances(name):
    world, scenes, start, goal = drawn(name, 5, 40, 3)
    if name == "cars":  # turning is a step that moves nothing
        return
    plans, least = shortest_plans(world, scenes, start, goal), world.steps_between(scenes, start, goal)
    assert (plans.steps >= least).all()
    assert (plans.steps == least).tolist() == descends(world, scenes, start, goal, 10_000).tolist()


@pytest.mark.parametrize("name", WORLDS)
def test_successors_are_single_steps(name):
    world, scenes, start, _ = drawn(name, 1, 30, 3)
    np.testing.assert_array_equal(world.successors(scenes, start), World.successors(world, scenes, start))


@pytest.mark.parametrize("name", WORLDS)
def test_the_bound_never_exceeds_what_play_needs(name):
    world, scenes, start, _ = drawn(name, 2, 30, 3)
    states = world.play(scenes, start, 12, 1.0, np.random.default_rng(3))[0].astype(start.dtype)
    for steps in range(13):
        least = world.steps_between(scenes, start, states[:, steps])
        if least is not None:
            assert (least <= steps).all()
            assert (
                (least == 0)
                == (world.state_key(scenes, start) == world.state_key(scenes, states[:, steps])).all(axis=1)
            ).all()


def test_what_cannot_be_reached_is_said():
    world = make_world("shapes", 3, grid=(1, 4))
    scenes = np.array([[0, 1], [0, 1]])
    start, swapped = np.array([[[0], [1]]] * 2), np.array([[[1], [0]], [[2], [3]]])
    plans = shortest_plans(world, scenes, start, swapped)
    assert plans.unreachable.tolist() == [True, False]
    assert plans.steps.tolist() == [-1, 4]
    assert plans.least.tolist() == [UNREACHABLE, 4]


def test_a_fixed_object_cannot_be_reached_by_pushing_either():
    world = make_world("push", 3, cells=(1, 3), size=(10, 30))
    scenes, start = np.array([[0, 1]]), np.array([[[0, 0], [0, 1]]])
    assert shortest_plans(world, scenes, start, start[:, ::-1]).unreachable.all()


def test_the_start_is_reached_by_doing_nothing():
    for name in ("shapes", "push"):
        world, scenes, start, _ = drawn(name, 0, 2, 2)
        plans = shortest_plans(world, scenes, start, start)
        assert plans.steps.tolist() == [0, 0]
        assert plans.exact.all()


@pytest.mark.parametrize("name", ["shapes", "push"])
def test_without_nodes_a_plan_is_a_bound_only(name):
    kind, n = name, 8
    world, rng = make_world(kind, n), np.random.default_rng(0)
    scenes = np.stack([np.sort(rng.choice(n, 5, replace=False)) for _ in range(6)])
    start = world.reset(scenes, rng)
    goal = world.play(scenes, start, 100, 1.0, rng)[0][:, -1].astype(start.dtype)
    plans = shortest_plans(world, scenes, start, goal, max_nodes=1)
    assert plans.found.all()
    assert plans.exact.any() == (name == "shapes")
    assert (plans.least <= plans.steps).all()
    if name == "shapes":
        better = shortest_plans(world, scenes, start, goal)
        assert better.exact.all()
        assert (plans.least <= better.steps).all()
        assert (better.steps <= plans.steps).all()


def test_bad_calls_are_one_line():
    world, scenes, start, goal = drawn("shapes", 0, 2, 2)
    with pytest.raises(HowmError, match="do not fit"):
        shortest_plans(world, scenes, start, goal[:1])
    with pytest.raises(HowmError, match="max_nodes"):
        shortest_plans(world, scenes, start, goal, max_nodes=0)
    assert len(shortest_plans(world, scenes[:0], start[:0], goal[:0]).steps) == 0


@given(batches=st.lists(st.lists(st.integers(0, 300), max_size=80), max_size=12))
def test_a_state_set_is_a_set(batches):
    ours, theirs = StateSet(2), set()
    for batch in batches:
        values = np.array(batch, dtype=np.int64)
        new = ours.add(state_hash(np.zeros(len(values), dtype=np.int64), values[:, None]))
        assert sorted(values[new].tolist()) == sorted(set(batch) - theirs)
        theirs |= set(batch)
        assert len(ours) == len(theirs)
