"""Acting: what is measured, the references beside it, and models that are wrong."""

import json

import numpy as np
import pytest
import torch

import howm
from howm.cli.main import main
from howm.planning.act import PLANS, act, act_exactly, act_randomly
from howm.planning.agents import Seeing, TrueDynamics, TrueState
from howm.planning.goal_files import save_goals
from howm.planning.goal_set import GoalSet
from howm.planning.goals import make_goals
from howm.planning.planners import make_planner
from howm.planning.run import by_length, goal_sets, plan_run
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint
from howm.runs.plan_result import read_plan_result, write_plan_result
from howm.worlds.grid_world import RushHour

SEARCH = make_planner("search")


@pytest.fixture(scope="module")
def model():
    return howm.load("howm-rush_hour-n20")


@pytest.fixture(scope="module")
def goals(model):
    world = howm.make_world("rush_hour", n=20)
    return make_goals(world, howm.unseen_scenes(model, 40, seed=1), per_bucket=2, seed=3)


class Sticky(RushHour):
    """Cars that never move."""

    def step(self, scenes, state, action):
        return state.copy()


class Forgetful(howm.WorldModel):
    """A good model, but for the steps of some objects, which it believes to change nothing."""

    def __init__(self, model, forgotten):
        super().__init__(model.spec)
        self.inner, self.forgotten = model, forgotten

    def encode(self, pictures, privileged=None):
        return self.inner.encode(pictures)

    def step(self, state, action):
        lost = self.forgotten(action // self.spec.actions_per_object)
        after = self.inner.step(state, action)
        rows = torch.arange(len(action)) + len(action) * lost
        return type(state).join([after, state])[rows]

    def embed(self, state):
        return self.inner.embed(state)

    def objects(self, state):
        return self.inner.objects(state)

    def present(self, state):
        return self.inner.present(state)

    def forward(self, batch):
        raise NotImplementedError


def test_goals_are_reached_in_unseen_scenes_and_so_say_the_references(model, goals):
    rng = np.random.default_rng(0)
    for agent in (Seeing(model, goals.world), TrueDynamics(model, goals.world), TrueState(model, goals.world)):
        outcome = act(agent, goals, SEARCH, rng)
        assert outcome.success.all()
        assert outcome.open_loop.all()
        assert (outcome.came_true == outcome.imagined).all()
        assert (outcome.imagined == outcome.steps).all()
        assert (outcome.steps <= 1.2 * goals.optimal).all()
        assert goals.reached(outcome.states).all()
        assert (outcome.calls > 0).all()
    exact, chance = act_exactly(goals), act_randomly(goals, rng, budget=30)
    assert exact.success.all()
    assert (exact.steps == goals.optimal).all()
    assert chance.success.mean() < 0.5
    assert (chance.steps[~chance.success] == 30).all()


def test_references_say_which_part_fails(model, goals):
    """A model that forgets how odd objects move fails; with the true dynamics, the same encoder does not."""
    odd = (goals.scenes % 2 == 1) & (goals.start != goals.goal).any(axis=2)
    some = goals.subset(np.flatnonzero(odd.any(axis=1))[:3])
    wrong = Forgetful(model, lambda objects: objects % 2 == 1)
    rng = np.random.default_rng(0)
    small = make_planner("search", {"budget": 50})
    assert not act(Seeing(wrong, goals.world), some, small, rng).success.any()
    assert not act(TrueState(wrong, goals.world), some, small, rng).success.any()
    assert act(TrueDynamics(wrong, goals.world), some, SEARCH, rng).success.all()


def test_looking_mends_a_world_that_slips(model, goals):
    """Twice an object slips back to where it was; who looks reaches the goal all the same."""
    near = goals.bucket("6-10")
    before = {}

    def slip(step, scenes, states):
        slipped = before["states"] if step in (1, 3) else states
        before["states"] = slipped.copy()
        return scenes, slipped.copy()

    closed = act(Seeing(model, near.world), near, SEARCH, np.random.default_rng(0), event=slip)
    assert near.reached(closed.states).all()
    assert (closed.came_true == closed.imagined - 2).all()
    blind = act(Seeing(model, near.world), near, SEARCH, np.random.default_rng(0), event=slip, replan=False)
    assert not near.reached(blind.states).any()


def test_what_fails_in_the_world_is_not_tried_there_again(model, goals):
    """In imagination nothing holds object i back, in the world it is stuck wherever it begins to move."""
    near = goals.bucket("1-5").subset(slice(0, 2))
    known = {"n": near.world.n, "objects": near.world.objects}
    stuck = Sticky(**known)
    some = GoalSet(stuck, near.scenes, near.start, near.goal, near.optimal, near.exact, near.detour, "unseen", 0)
    outcome = act(Seeing(model, stuck), some, SEARCH, np.random.default_rng(0), budget=40)
    assert not outcome.success.any()
    assert (outcome.steps <= PLANS).all()  # never the same action twice in the same state


def test_imagined_steps_are_limited_over_all_plans_of_a_goal(model, goals, monkeypatch):
    """A model that does not know how an object moves spends its search for nothing; it may not do so 20 times."""
    wrong = Forgetful(model, lambda objects: objects % 2 == 1)
    odd = (goals.scenes % 2 == 1) & (goals.start != goals.goal).any(axis=2)
    some = goals.subset(np.flatnonzero(odd.any(axis=1))[:3])
    each = 60
    planner = make_planner("search", {"budget": each})
    limit = 150
    monkeypatch.setattr("howm.planning.act.CALLS", limit)
    outcome = act(Seeing(wrong, goals.world), some, planner, np.random.default_rng(0))
    assert not outcome.success.any()
    measuring = 4 * 2 * some.k * goals.world.actions_per_object  # what each plan spends on measuring moves, at most
    assert (outcome.calls < limit + each + measuring).all()


def test_a_budget_that_is_too_small_is_a_failure(model, goals):
    outcome = act(Seeing(model, goals.world), goals, SEARCH, np.random.default_rng(0), budget=3)
    assert (outcome.success == (goals.optimal <= 3)).all()
    assert outcome.steps.max() == 3
    with pytest.raises(howm.HowmError, match="budget"):
        act(Seeing(model, goals.world), goals, SEARCH, np.random.default_rng(0), budget=0)


def test_the_record_of_a_run(tmp_path, capsys):
    folder = tmp_path / "results"
    command = ["plan", "howm-shapes-n10", "--goals", "4", "--seed", "7", "--json", "--results", str(folder)]
    assert main([*command, "-o", str(tmp_path / "plan.png")]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(line) == ["planner", "world", "n", "k", "unseen", "training", "references"]
    assert (line["planner"], line["world"], line["n"], line["k"]) == ("search", "shapes", 10, 5)
    assert list(line["references"]) == ["random", "exact", "true_dynamics", "true_state"]
    for part in (line["unseen"], line["training"], *line["references"].values()):
        assert list(part) == ["1-5", "6-10", "11-20", "21-40"]
        for found in part.values():
            assert list(found) == ["goals", "success", "ratio", "open_loop", "model_calls", "cpu_seconds"]
    assert {found["success"] for found in line["unseen"].values()} == {100.0}
    assert {found["ratio"] for found in line["references"]["exact"].values()} == {1.0}
    assert (tmp_path / "plan.png").stat().st_size > 1000
    path = folder / "planning" / "shapes-n10-k5" / "howm-seed0-search.json"
    result = read_plan_result(path)
    assert result.line() == line
    assert write_plan_result(result, tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "has planning format 99"),
        ({"unseen": {"1-5": {"goals": -1}}}, "do not fit together"),
        ({"unseen": {"1-9": {"goals": 1}}}, "is not one of the lengths"),
        ({"training": {"1-5": {"goals": 1, "success": 120.0}}}, r"shares must be in \[0, 100\]"),
        ({"world": "../shapes"}, "world"),
        ({"cost": "pixels"}, "cost"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_damaged_record_is_one_line(change, message, tmp_path):
    path = tmp_path / "plan.json"
    plain = {"method": "howm", "method_title": "HOWM", "world": "shapes", "world_title": "Shapes", "n": 10, "k": 5,
             "seed": 0, "planner": "search", "settings": {}, "cost": "objects", "replan": True, "budget": 100,
             "goal_seed": 0, "unseen": {}, "training": {}, "references": {}, "versions": {}, "version": 1}  # fmt: skip
    path.write_text(json.dumps(plain))
    assert read_plan_result(path).name == "search"
    path.write_text(json.dumps(plain | change))
    with pytest.raises(howm.HowmError, match=message):
        read_plan_result(path)


def test_goals_of_a_file(model, goals, tmp_path):
    path = tmp_path / "goals.h5"
    save_goals(goals.subset(slice(0, 4)), path)
    result = plan_run("howm-rush_hour-n20", path, references=False)
    assert not result.training
    assert sum(found.goals for found in result.unseen.values()) == 4
    with pytest.raises(howm.HowmError, match="goals of another world"):
        plan_run("howm-shapes-n10", path)
    scenes = model.training_scenes.to_array()
    told = goals.subset(np.zeros(1, dtype=int))
    told.scenes[:] = scenes[:1]
    save_goals(told, path)
    with pytest.raises(howm.HowmError, match="are not unseen scenes of this run"):
        plan_run("howm-rush_hour-n20", path)


def test_goals_that_are_drawn_are_unseen_or_not_as_they_say(model):
    unseen, training = goal_sets(load_checkpoint(find_checkpoint("howm-rush_hour-n20")), 8, seed=2)
    known = {tuple(scene) for scene in model.training_scenes.scenes}
    assert not known & set(map(tuple, unseen.scenes.tolist()))
    assert known >= set(map(tuple, training.scenes.tolist()))


def test_an_empty_bucket_is_counted_as_such(goals):
    found = by_length(goals.bucket("1-5"), act_exactly)
    assert found["1-5"].goals == 2
    assert found["21-40"].goals == 0
    assert found["21-40"].success is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--goals", "2"], "--goals must be 4 or more"),
        (["--goals", "-3"], "--goals must be 4 or more"),
        (["--goals", "nowhere.h5"], "nowhere.h5"),
        (["--planner", "search", "--set", "width=3"], "width"),
        (["-o", "plan.jpg"], "is not a PNG file"),
        (["--planner", "astar"], "invalid choice"),
        (["--replan", "--open-loop"], "not allowed with"),
        (["--budget", "0"], "must be an integer of 1 or more"),
    ],
)
def test_the_command_refuses_in_one_line(options, message, capsys):
    try:
        code = main(["plan", "howm-shapes-n10", *options])
    except SystemExit as error:
        code = error.code
    said = capsys.readouterr().err.strip()
    assert code == 2
    assert message in said
    assert "\n" not in said
