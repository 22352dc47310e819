"""An environment whose world is a model: Gymnasium's rules, and an agent that trains in it."""

import importlib.util
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import howm

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model():
    return howm.load("howm-shapes-n10")


@pytest.fixture(scope="module")
def world():
    return howm.make_world("shapes", n=10)


@pytest.fixture(scope="module")
def starts(model, world):
    scenes = howm.unseen_scenes(model, 6, seed=2).to_array()
    return scenes, world.reset(scenes, np.random.default_rng(0))


@pytest.fixture(scope="module")
def pictures(world, starts):
    return world.render(*starts)


def upper_left(state):
    """Any function of states will do."""
    return torch.sigmoid(state.slots[:, 0, 0] / 10) * 0.9


class Single(gymnasium.Env):
    """One of the environments, as Gymnasium's checker wants it."""

    def __init__(self, env):
        self.env = env
        self.action_space, self.observation_space = env.single_action_space, env.single_observation_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        seen, info = self.env.reset(seed=seed)
        return seen[0], {key: value[0] for key, value in info.items()}

    def step(self, action):
        seen, reward, done, truncated, info = self.env.step(np.array([action]))
        return seen[0], float(reward[0]), bool(done[0]), bool(truncated[0]), {k: v[0] for k, v in info.items()}


@pytest.mark.parametrize("observation", ["embedding", "pictures"])
def test_gymnasium_finds_no_fault(observation, model, pictures):
    env = howm.ImaginedEnv(model, pictures, upper_left, num_envs=1, observation=observation)
    check_env(Single(env), skip_render_check=True)
    several = howm.ImaginedEnv(model, pictures, upper_left, num_envs=3, observation=observation)
    seen, info = several.reset(seed=1)
    assert several.observation_space.contains(seen)
    again, _ = several.reset(seed=1)
    assert np.array_equal(seen, again)
    seen, reward, done, truncated, info = several.step(several.action_space.sample())
    assert several.observation_space.contains(seen)
    assert reward.shape == done.shape == truncated.shape == info["score"].shape == (3,)


def test_it_shows_what_the_world_would_show(model, world, starts, pictures):
    """Imagined pictures are the true ones, step by step, in scenes that the model has never seen."""
    scenes, states = starts
    env = howm.ImaginedEnv(model, pictures, upper_left, num_envs=6, observation="pictures")
    env.reset(options={"start": np.arange(6)})
    rng = np.random.default_rng(3)
    for _ in range(8):
        action = world.offered_actions(scenes)[np.arange(6), rng.integers(20, size=6)]
        states = world.step(scenes, states, action)
        seen, *_ = env.step(action)
        truth = world.render(scenes, states)
        assert np.abs(seen.astype(float) - truth).mean() < 2


def test_a_plan_reaches_its_goal_here_as_well_and_the_next_episode_begins(model, world, starts, pictures):
    scenes, _ = starts
    goal = world.render(scenes[:1], world.reset(scenes[:1], np.random.default_rng(9)))[0]
    found = howm.plan(model, pictures[0], goal)
    env = howm.ImaginedEnv(model, pictures[:1], goal, num_envs=2, max_episode_steps=60)
    env.reset(seed=0)
    total = np.zeros(2)
    for step, action in enumerate(found.actions):
        _, reward, done, truncated, _ = env.step(np.full(2, action))
        total += reward
        assert done.all() == (step == len(found.actions) - 1)
        assert not truncated.any()
    assert np.allclose(total, 1)
    first, _ = env.reset(seed=0)
    for action in found.actions:
        env.step(np.full(2, action))
    after, reward, done, *_ = env.step(np.zeros(2, dtype=int))  # only begins the next episode
    assert np.allclose(after, first)
    assert not reward.any()
    assert not done.any()


def test_episodes_are_cut_off_and_sparse_rewards_are_zero_or_one(model, pictures):
    env = howm.ImaginedEnv(model, pictures, upper_left, num_envs=2, max_episode_steps=3, shaped=False)
    env.reset(seed=0)
    cut = []
    for _ in range(8):
        _, reward, _, truncated, _ = env.step(np.array([0, 5]))
        assert not reward.any()
        cut.append(bool(truncated.all()))
    assert cut == [False, False, True, False, False, False, True, False]


def test_a_learned_reward_is_the_task(model, pictures):
    class Rewarded(type(model)):
        def reward(self, state):
            return upper_left(state)

    rewarded = Rewarded(model.spec, model.config)
    rewarded.load_state_dict(model.state_dict())
    env = howm.ImaginedEnv(rewarded, pictures, num_envs=2)
    given = howm.ImaginedEnv(model, pictures, upper_left, num_envs=2)
    assert np.allclose(env.reset(seed=4)[1]["score"], given.reset(seed=4)[1]["score"])


def test_bad_input_is_one_line(model, pictures):
    with pytest.raises(howm.HowmError, match="has no reward; attach one"):
        howm.ImaginedEnv(model, pictures)
    with pytest.raises(howm.HowmError, match="start_pictures must be pictures"):
        howm.ImaginedEnv(model, pictures[..., 0], upper_left)
    with pytest.raises(howm.HowmError, match="one for each of 6 start pictures, got 2"):
        howm.ImaginedEnv(model, pictures, pictures[:2])
    with pytest.raises(howm.HowmError, match="start picture 0 and its goal show different objects"):
        howm.ImaginedEnv(model, pictures, pictures[::-1])
    with pytest.raises(howm.HowmError, match="task must be a goal picture"):
        howm.ImaginedEnv(model, pictures, "line_up")
    with pytest.raises(howm.HowmError, match="observation must be embedding or pictures"):
        howm.ImaginedEnv(model, pictures, upper_left, observation="slots")
    env = howm.ImaginedEnv(model, pictures, upper_left, num_envs=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2, dtype=int))
    with pytest.raises(howm.HowmError, match="start must be 2 numbers"):
        env.reset(options={"start": [9, 0]})
    env.reset()
    with pytest.raises(howm.HowmError, match="actions must be 2 integers"):
        env.step(np.zeros(3, dtype=int))


def test_the_example_trains_in_imagination_and_acts_in_the_world(capsys, monkeypatch):
    """At a tiny scale: it runs, and says what it reached."""
    spec = importlib.util.spec_from_file_location("imagined_dqn", ROOT / "examples" / "imagined_dqn.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    made = howm.make_dataset
    few = howm.Amounts(train_episodes=120, train_steps=5, eval_episodes=40, eval_steps=2)
    monkeypatch.setattr(howm, "make_dataset", lambda *names, **settings: made(*names, **settings, amounts=few))
    example.main(steps=20, head_steps=20)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["train", "eval"]
    assert len((ROOT / "examples" / "imagined_dqn.py").read_text().splitlines()) < 80
