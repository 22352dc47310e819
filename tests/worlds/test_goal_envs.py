"""Goal-conditioned environments through Gymnasium's surface."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from test_envs import make_pair
from test_tasks import follow

from howm import WORLDS, HowmError, make_world, shortest_plans
from howm.worlds.envs.goal import WorldGoalEnv
from howm.worlds.envs.registration import env_id

BUILTIN = [name for name in WORLDS if ":" not in name]


def test_ids():
    assert env_id("rush_hour", goal=True) == "howm/RushHourGoal-v0"
    assert {"howm/ShapesGoal-v0", "howm/RushHourGoal-v0", "howm/FreeGoal-v0"} <= set(gym.registry)


@pytest.mark.parametrize("world", BUILTIN)
def test_gymnasium_has_no_complaint(world):
    env = gym.make(env_id(world, goal=True))
    check_env(env.unwrapped, skip_render_check=True)
    observation, info = env.reset(seed=1)
    assert set(observation) == {"observation", "achieved_goal", "desired_goal"}
    assert not info["is_success"]
    assert not (observation["observation"] == observation["desired_goal"]).all()


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("world", ["rush_hour", "free"])
def test_vector_equals_single_environments(mode, world):
    size = {"grid": (2, 2)} if world == "rush_hour" else {"cells": (3, 3), "size": (30, 30), "step_size": 0.3}
    ours, theirs = make_pair(
        env_id(world, goal=True), mode, 4, max_episode_steps=9, n=4, k=2, split="all", goal_steps=1, **size
    )
    assert ours.observation_space == theirs.observation_space
    follow(ours, theirs, mode, 16)


def test_an_optimal_plan_succeeds_and_rewards_are_computed():
    world, rng = make_world("shapes", 6), np.random.default_rng(0)
    scene = np.array([[0, 2, 5]])
    start = world.reset(scene, rng)
    goal = world.play(scene, start, 20, 1.0, rng)[0][:, -1].astype(start.dtype)
    plan = shortest_plans(world, scene, start, goal).actions[0]
    for penalty, (miss, hit) in ((False, (0, 1)), (True, (-1, 0))):
        env = WorldGoalEnv(world, k=3, penalty=penalty)
        env.reset(options={"scene": scene[0], "state": start[0], "goal": goal[0]})
        achieved, desired, rewards = [], [], []
        for t, action in enumerate(plan):
            observation, reward, terminated, _, info = env.step(action)
            assert terminated == info["is_success"] == (t == len(plan) - 1)
            achieved.append(observation["achieved_goal"])
            desired.append(observation["desired_goal"])
            rewards.append(reward)
            assert env.compute_reward(achieved[-1], desired[-1], info) == reward
        assert rewards == [miss] * (len(plan) - 1) + [hit]
        assert env.compute_reward(np.stack(achieved), np.stack(desired), {}).tolist() == rewards


def test_goals_can_be_reached():
    env = WorldGoalEnv("push", n=6, k=2, goal_steps=6)
    for seed in range(5):
        observation, info = env.reset(seed=seed)
        scene, start = info["object_ids"][None], env._episodes.state
        places = np.stack(np.meshgrid(range(5), range(5), indexing="ij"), axis=-1).reshape(-1, 2)
        states = np.array([[one, two] for one in places for two in places if (one != two).any()])
        shown = env.world.render(np.repeat(scene, len(states), axis=0), states)
        goal = states[(shown == observation["desired_goal"]).all(axis=(1, 2, 3))]
        plans = shortest_plans(env.world, scene, start, goal[:1])
        assert 1 <= plans.steps[0] <= 6


def test_bad_goals_are_one_line():
    env = WorldGoalEnv("shapes", n=4, k=2)
    here = {"scene": [0, 1], "positions": [[0, 0], [1, 1]]}
    for options, words in (
        (here | {"goal_positions": [[0, 0], [1, 1]]}, "looks like the start"),
        (here | {"goal_positions": [[0, 0], [9, 1]]}, "different cells"),
        (here | {"goal": [[0]]}, "shape"),
        (here | {"goal": [[0], [1]], "goal_positions": [[0, 0], [0, 1]]}, "both given"),
        ({"goal": [[0], [1]]}, "give the option scene"),
    ):
        with pytest.raises(HowmError, match=words):
            env.reset(options=options)
    with pytest.raises(HowmError, match="goal_steps"):
        WorldGoalEnv("shapes", goal_steps=0)
    with pytest.raises(HowmError, match="its own reward"):
        WorldGoalEnv("shapes", reward_fn="line_up")
    with pytest.raises(HowmError, match="no goal was found"):
        WorldGoalEnv("shapes", n=1, k=1, grid=1, split="all").reset()
    with pytest.raises(HowmError, match="same shape"):
        env.compute_reward(np.zeros((50, 50, 3)), np.zeros((2, 50, 50, 3)))
