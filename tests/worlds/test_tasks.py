"""Tasks with a reward: their definitions, in environments, and in scenes of any size."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from test_envs import assert_same, make_pair

from howm import TASKS, HowmError, make_task, make_world
from howm.worlds.envs.single import WorldEnv
from howm.worlds.library import oklab
from howm.worlds.sizes import sized
from howm.worlds.tasks import describe_task

SHAPES = make_world("shapes", 8)


def state_of(*places):
    return SHAPES.state_at(np.array([places]))


def score(task, places, scene=None):
    scene = list(range(len(places))) if scene is None else scene
    return float(make_task(task).score(SHAPES, np.array([scene]), state_of(*places))[0])


def test_bring_to_counts_the_cells_to_go():
    task = make_task("bring_to", object=1, place=(0.1, 0.9))
    for place, expected in (((0, 4), 1.0), ((0, 3), 0.95), ((4, 0), 0.3 + 0.0)):
        assert score(task, [(2, 2), place]) == pytest.approx(expected if place != (4, 0) else 1 - 7 / 10)
    assert score(task, [(0, 4), (2, 2)], [0, 2]) == 0  # object 1 is absent


def test_beside_is_level_and_next():
    for other, done in (((2, 3), True), ((1, 2), True), ((3, 3), False), ((2, 4), False)):
        task = make_task("beside", object=0, other=1)
        assert (score(task, [(2, 2), other]) == 1) == done
        assert task.done(SHAPES, np.array([[0, 1]]), state_of((2, 2), other))[0] == done


def test_line_up_is_one_row_or_one_column():
    assert score("line_up", [(2, 0), (2, 3), (2, 1)]) == 1
    assert score("line_up", [(0, 4), (2, 4), (1, 4)]) == 1
    assert score("line_up", [(0, 4), (2, 4), (1, 3)]) == pytest.approx(2 / 3)
    assert score("line_up", [(0, 0), (1, 1), (2, 2)]) == pytest.approx(1 / 3)


def test_sort_by_colour_is_by_hue_from_left_to_right():
    lab = oklab(np.array([item.colour for item in SHAPES.objects[:3]]) / 255)
    order = np.argsort(np.arctan2(lab[:, 2], lab[:, 1]) % (2 * np.pi))
    places = np.zeros((3, 2), dtype=int)
    places[order, 1] = [0, 2, 4]
    assert score("sort_by_colour", places.tolist()) == 1
    places[order, 1] = [4, 2, 0]
    assert score("sort_by_colour", places.tolist()) == 0
    places[order, 1] = [2, 0, 4]
    assert score("sort_by_colour", places.tolist()) == pytest.approx(2 / 3)
    assert score("sort_by_colour", [(0, 1), (1, 1), (2, 1)]) == 0  # none is further left


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("world", ["rush_hour", "free", "push"])
def test_scores_and_rewards_agree(name, world):
    world, rng = make_world(world, 6), np.random.default_rng(0)
    scenes = np.stack([np.sort(rng.choice(6, 2, replace=False)) for _ in range(400)])
    state, (action,) = world.reset(scenes, rng), rng.integers(24, size=(1, 400))
    after = world.step(scenes, state, action)
    task, shaped = make_task(name), make_task(name, shaped=True)
    assert ((task.score(world, scenes, state) >= 0) & (task.score(world, scenes, state) <= 1)).all()
    np.testing.assert_array_equal(
        task.reward(world, scenes, state, action, after), task.done(world, scenes, after).astype(float)
    )
    rise = task.score(world, scenes, after) - task.score(world, scenes, state)
    np.testing.assert_array_equal(shaped.reward(world, scenes, state, action, after), rise)
    assert task.done(world, scenes, state).any()
    assert not task.done(world, scenes[~task.applies(scenes)], state[~task.applies(scenes)]).any()


@pytest.mark.parametrize("name", TASKS)
def test_scenes_of_several_sizes_score_as_alone(name):
    rng = np.random.default_rng(1)
    scenes = np.array([[0, 1, -1, -1], [0, 1, 2, 3], [0, 1, 5, -1]] * 20)
    many = sized(SHAPES, scenes)
    state, task = many.reset(scenes, rng), make_task(name)
    found = task.score(many, scenes, state)
    for row, scene in enumerate(scenes):
        k = int((scene >= 0).sum())
        assert found[row] == task.score(SHAPES, scene[None, :k], state[row][None, :k])[0]


def test_tasks_have_names_and_parameters():
    task = make_task({"name": "bring_to", "object": 3, "place": [0.1, 0.3]})
    assert make_task(describe_task(task)) == task
    assert make_task(task) is task
    for bad, words in (
        ({"task": "juggle"}, "unknown task 'juggle'; choose one of bring_to"),
        ({"task": {"name": "bring_to", "who": 3}}, "unknown key who"),
        ({"task": "bring_to", "place": (2, 0)}, r"must be shares"),
        ({"task": "beside", "object": 1}, "cannot be beside itself"),
        ({"task": 7}, "a task is a name"),
    ):
        with pytest.raises(HowmError, match=words):
            make_task(**bad)


# ---- in environments ----


def test_a_task_ends_the_episode_and_pays_one():
    env = WorldEnv("shapes", n=4, k=2, split="all", reward_fn={"name": "beside", "object": 0, "other": 1})
    _, info = env.reset(options={"scene": [0, 1], "positions": [[0, 0], [0, 3]]})
    assert not info["is_success"]
    *_, info = first = env.step(1)
    assert first[1:4] == (0.0, False, False)
    *_, info = second = env.step(1)
    assert second[1:4] == (1.0, True, False)
    assert info["is_success"]


def test_only_scenes_with_the_named_objects_are_drawn():
    for split in ("train", "all"):
        env = WorldEnv("shapes", n=6, k=3, split=split, reward_fn={"name": "beside", "object": 4, "other": 2})
        env.reset(seed=0)
        for _ in range(20):
            _, info = env.reset()
            assert {2, 4} <= set(info["object_ids"].tolist())
            assert not info["is_success"]
    with pytest.raises(HowmError, match="object 9 of the task is not in a library of 6"):
        WorldEnv("shapes", n=6, k=3, reward_fn={"name": "bring_to", "object": 9})
    with pytest.raises(HowmError, match="no scene has the objects 0, 1 of the task"):
        WorldEnv("shapes", n=6, k=1, split="all", reward_fn="beside")


def test_gymnasium_has_no_complaint_about_tasks():
    check_env(gym.make("howm/Shapes-v0", reward_fn="line_up").unwrapped)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_equals_single_environments_with_a_task(mode):
    ours, theirs = make_pair(
        "howm/Shapes-v0", mode, 4, max_episode_steps=8, n=4, k=2, grid=(2, 3), split="all", reward_fn="line_up"
    )
    follow(ours, theirs, mode, 16)


def follow(ours, theirs, mode, actions):
    """Both give the same, also where episodes end by success."""
    assert_same(ours.reset(seed=3), theirs.reset(seed=3))
    rng, terminated = np.random.default_rng(0), 0
    for _ in range(60):
        chosen = rng.integers(actions, size=ours.num_envs)
        our_step, their_step = ours.step(chosen), theirs.step(chosen)
        assert_same(our_step, their_step)
        ended = our_step[2] | our_step[3]
        terminated += int(our_step[2].sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            assert_same(*(envs.reset(options={"reset_mask": ended}) for envs in (ours, theirs)))
    assert terminated
