"""Planning from picture to picture: against exact search on true states, and with bad input."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import howm
from howm.models.world_model import State
from howm.planning.act import act
from howm.planning.agents import Seeing
from howm.planning.cost import make_cost
from howm.planning.exact import shortest_plans
from howm.planning.goals import make_goals
from howm.planning.imagination import Imagination
from howm.planning.moves import measure_moves
from howm.planning.plan import solve
from howm.planning.planners import PLANNERS, make_planner
from howm.planning.view import make_view


@pytest.fixture(scope="module")
def model():
    return howm.load("howm-shapes-n10")


@pytest.fixture(scope="module")
def world():
    return howm.make_world("shapes", n=10)


@pytest.fixture(scope="module")
def goals(model, world):
    return make_goals(world, howm.unseen_scenes(model, 40, seed=1), per_bucket=6, seed=3)


def carried_out(world, scenes, start, actions):
    states = start.copy()
    for row, plan in enumerate(actions):
        for action in plan:
            one = slice(row, row + 1)
            states[one] = world.step(scenes[one], states[one], np.array([action]))
    return states


def test_plans_are_as_short_as_perfect_play_and_come_true(model, goals):
    with torch.no_grad():
        agent = Seeing(model, goals.world)
        start, goal = (agent.observe(goals.scenes, states) for states in (goals.start, goals.goal))
        solved = solve(model, start, goal, make_planner("search"), np.random.default_rng(0))
    lengths = np.array([len(found.actions) for found in solved.found])
    easy = solved.calls < make_planner("search").config.exact
    assert all(found.reached for found in solved.found)
    assert easy.sum() > 20
    assert (lengths[easy] == goals.optimal[easy]).all()
    assert (lengths <= 1.2 * goals.optimal).all()
    end = carried_out(goals.world, goals.scenes, goals.start, [found.actions for found in solved.found])
    assert goals.reached(end).all()


def test_the_estimate_is_the_summed_distance_of_a_grid(model, goals):
    world = goals.world
    with torch.no_grad():
        agent = Seeing(model, world)
        start, goal = (agent.observe(goals.scenes, states) for states in (goals.start, goals.goal))
        view = make_view(model, start, "objects")
        cost = make_cost(view, measure_moves(Imagination(model, len(goals)), view, start, goal), goal)
        reading = cost.read(start, np.arange(len(goals)))
    places = (world.positions(goals.scenes, states) for states in (goals.start, goals.goal))
    assert reading.steps.tolist() == np.abs(np.subtract(*places)).sum(axis=(1, 2)).tolist()


def test_an_unhindered_way_costs_one_imagined_step_a_step(model, world):
    scene = np.array([[1, 3, 5, 7, 9]])
    start, goal = (np.array([cells])[..., None] for cells in ([0, 2, 4, 22, 24], [15, 17, 19, 22, 24]))
    pictures = [world.render(scene, state)[0] for state in (start, goal)]
    found = howm.plan(model, *pictures)
    none = howm.plan(model, pictures[0], pictures[0])
    assert found.reached
    assert len(found.actions) == 9
    assert found.cost == 0
    assert found.model_calls <= 9 + 2 * 20 + 4 * 32  # the way, and what each action does
    assert (none.actions, none.reached) == ((), True)
    assert len(found.states) == 10
    truth = world.render(scene, goal)[0] / 255
    assert float((found.pictures[-1] - torch.from_numpy(truth)).square().mean()) < 1e-3


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_knows_where_its_plan_leads(name, model, goals):
    """What it says is reached is reached in the world, and it never says so of a plan that was only drawn."""
    near = goals.bucket("1-5")
    settings = {"samples": 40, "horizon": 6, "rounds": 3, "elites": 8} if name == "cem" else {}
    with torch.no_grad():
        agent = Seeing(model, near.world)
        start, goal = (agent.observe(near.scenes, states) for states in (near.start, near.goal))
        solved = solve(model, start, goal, make_planner(name, settings), np.random.default_rng(0))
        again = solve(model, start, goal, make_planner(name, settings), np.random.default_rng(0))
    assert solved.found == again.found
    end = carried_out(near.world, near.scenes, near.start, [found.actions for found in solved.found])
    claimed = np.array([found.reached for found in solved.found])
    assert (near.reached(end) >= claimed).all()
    assert claimed.all() if name in ("search", "beam") else claimed.sum() <= len(near)
    assert not claimed.any() or name != "random"


def test_an_object_wise_cost_needs_far_fewer_model_calls(model, goals):
    some = goals.bucket("6-10").subset(slice(0, 2))
    calls = {}
    with torch.no_grad():
        agent = Seeing(model, some.world)
        start, goal = (agent.observe(some.scenes, states) for states in (some.start, some.goal))
        for cost in ("objects", "embedding"):
            solved = solve(model, start, goal, make_planner("search"), np.random.default_rng(0), cost=cost)
            assert all(found.reached for found in solved.found)
            calls[cost] = np.median(solved.calls)
    assert 4 * calls["objects"] < calls["embedding"]


@dataclass(frozen=True)
class Cell(State):
    """Where the objects of a grid are, as a model that reads pixels exactly would know it."""

    numbers: torch.Tensor


class Pixels(howm.WorldModel):
    """A model with nothing but its verbs: pictures are its embeddings, and nothing ever moves."""

    def encode(self, pictures, privileged=None):
        return Cell(pictures.flatten(1).float() / 255)

    def step(self, state, action):
        return state

    def embed(self, state):
        return state.numbers

    def forward(self, batch):
        raise NotImplementedError


def test_bad_input_is_one_line(model, world):
    scenes = np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 5]])
    start, other = world.render(scenes, world.reset(scenes, np.random.default_rng(0)))
    with pytest.raises(howm.HowmError, match=r"another scene: objects 4, 5 are in one of the two pictures only"):
        howm.plan(model, start, other)
    with pytest.raises(howm.HowmError, match=r"another scene: .* only"):
        howm.plan(model, start, np.zeros_like(start))
    with pytest.raises(howm.HowmError, match=r"cost must be objects or embedding, got 'slots'"):
        howm.plan(model, start, start, cost="slots")
    with pytest.raises(howm.HowmError, match=r"the goal has 40x50 pixels, the picture 50x50"):
        howm.plan(model, start, start[:40])
    with pytest.raises(howm.HowmError, match=r"pictures must have 50x50 pixels, got 40x40"):
        howm.plan(model, start[:40, :40], start[:40, :40])
    with pytest.raises(howm.HowmError, match=r"picture must be \(height, width, 3\), got \(1, 50, 50, 3\)"):
        howm.plan(model, start[None], start)
    with pytest.raises(howm.HowmError, match=r"goal must be a tensor or a NumPy array, got str"):
        howm.plan(model, start, "goal.png")
    with pytest.raises(howm.HowmError, match=r"unknown planner 'astar'; choose one of search, beam"):
        howm.plan(model, start, start, planner="astar")
    with pytest.raises(howm.HowmError, match=r"search.budget"):
        howm.plan(model, start, start, settings={"budget": "much"})
    with pytest.raises(howm.HowmError, match=r"seed=-1 must be"):
        howm.plan(model, start, start, seed=-1)
    with pytest.raises(howm.HowmError, match=r"Pixels has no row for each object; use cost=embedding"):
        howm.plan(Pixels(world.spec(5)), start, start, cost="objects")
    with pytest.raises(howm.HowmError, match=r"Pixels has no spec, so its actions are unknown"):
        howm.plan(Pixels(), start, start)


def test_a_model_in_which_nothing_moves_gives_up(world):
    scenes = np.array([[0, 1, 2, 3, 4]])
    start, goal = (world.render(scenes, world.reset(scenes, np.random.default_rng(seed)))[0] for seed in (0, 1))
    for name in PLANNERS:
        found = howm.plan(Pixels(world.spec(5)), start, goal, planner=name)
        assert not found.reached
        assert found.actions == ()
        assert found.pictures is None


def test_a_search_that_runs_out_of_budget_gives_its_best(model, goals):
    far = goals.bucket("21-40").subset(slice(0, 1))
    found = howm.plan(model, far.start_pictures()[0], far.goal_pictures()[0], settings={"budget": 5})
    assert not found.reached
    assert 0 < len(found.actions) <= 5
    assert 0 < found.cost < far.optimal[0]


def test_a_goal_of_other_objects_is_planned_for_those_that_both_show(model, world):
    scenes = np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 5]])
    start, goal = world.reset(scenes, np.random.default_rng(2))
    found = howm.plan(model, world.render(scenes[:1], start[None])[0], world.render(scenes[1:], goal[None])[0],
                      strict=False)  # fmt: skip
    end = carried_out(world, scenes[:1], start[None], [found.actions])
    assert found.reached
    assert (end[0, :4] == goal[:4]).all()


def test_a_scene_that_changes_on_the_way_is_planned_through(model, world):
    """Object 4 is replaced by object 6 after two steps; actions are bound anew, and the others reach their places."""
    goals = make_goals(world, howm.SceneSet(10, 5, ((0, 1, 2, 3, 4),)), per_bucket=2, buckets=("11-20",), seed=1)

    def change(step, scenes, states):
        if step != 2:
            return scenes, states
        scenes, states = scenes.copy(), states.copy()
        scenes[:, 4] = 6
        for row in range(len(states)):
            states[row, 4] = next(cell for cell in range(25) if cell not in states[row, :, 0])
        return scenes, states

    outcome = act(Seeing(model, world), goals, make_planner("search"), np.random.default_rng(0), event=change)
    assert (outcome.scenes[:, 4] == 6).all()
    assert (outcome.states[:, :4] == goals.goal[:, :4]).all()
    assert (outcome.came_true == outcome.imagined - 1).all()  # all but the step at which the scene changed
    assert not shortest_plans(world, outcome.scenes[:, :4], outcome.states[:, :4], goals.goal[:, :4]).steps.any()
