"""The environments through Gymnasium's surface: against a plain-Python world, and vector against single."""

import copy
import subprocess
import sys
from functools import partial
from itertools import combinations
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from howm.errors import HowmError
from howm.worlds.envs.factored import FactoredActions, FactoredVectorActions
from howm.worlds.envs.registration import register_envs
from howm.worlds.envs.single import WorldEnv
from howm.worlds.envs.vector import WorldVectorEnv
from howm.worlds.scenes import split_scenes

register_envs()
IDS = ("howm/Shapes-v0", "howm/RushHour-v0")
ShapesEnv, RushHourEnv = partial(WorldEnv, "shapes"), partial(WorldEnv, "rush_hour")
ShapesVectorEnv = partial(WorldVectorEnv, "shapes")
STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
COMPASS = list(STEPS)


def assert_same(ours: Any, theirs: Any, path: str = "") -> None:
    """Equal in structure, types, dtypes and values, however deeply nested."""
    assert type(ours) is type(theirs), path
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), path
        for key in ours:
            assert_same(ours[key], theirs[key], f"{path}/{key}")
    elif isinstance(ours, tuple) or (isinstance(ours, np.ndarray) and ours.dtype == object):
        assert len(ours) == len(theirs), path
        for i, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, f"{path}[{i}]")
    elif isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), path
        np.testing.assert_array_equal(ours, theirs, err_msg=path)
    else:
        assert ours == theirs, path


# ---- one environment ----


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_gymnasium_has_no_complaint(env_id: str, render_mode: str | None) -> None:
    env = gym.make(env_id, render_mode=render_mode)
    check_env(env.unwrapped)
    env.reset(seed=0)
    for action in range(40):
        env.step(action)


@pytest.mark.parametrize("env_id", IDS)
def test_default_spaces_and_info(env_id: str) -> None:
    env = gym.make(env_id)
    assert env.observation_space == gym.spaces.Box(0, 255, (50, 50, 3), np.uint8)
    assert env.action_space == gym.spaces.Discrete(40)
    observation, info = env.reset(seed=3)
    assert observation in env.observation_space
    assert ("headings" in info) == (env_id == "howm/RushHour-v0")
    assert info["object_ids"].tolist() == sorted(set(info["object_ids"].tolist()))
    assert info["positions"].shape == (5, 2)
    for _ in range(10):
        action = env.action_space.sample(info["action_mask"])
        assert action // 4 in info["object_ids"]
        after = env.step(action)[4]
        np.testing.assert_array_equal(after["object_ids"], info["object_ids"])
        assert not after["absent"]


class PlainWorld:
    """The rules in plain Python: objects by id, one of them moves to a free cell of the grid or stays."""

    def __init__(self, info: dict[str, Any], headings: list[int], height: int, width: int) -> None:
        ids, places = info["object_ids"].tolist(), info["positions"].tolist()
        self.places = {i: tuple(place) for i, place in zip(ids, places, strict=True)}
        self.headings, self.height, self.width = headings, height, width

    def act(self, action: int) -> tuple[bool, bool]:
        """Whether something moved, and whether the object was absent."""
        mover, relative = action // 4, action % 4
        if mover not in self.places:
            return False, True
        row, column = self.places[mover]
        down, right = STEPS[COMPASS[(self.headings[mover] + relative) % 4]]
        target = (row + down, column + right)
        inside = 0 <= target[0] < self.height and 0 <= target[1] < self.width
        if not inside or target in self.places.values():
            return False, False
        self.places[mover] = target
        return True, False

    def colours(self, colour_of: list[tuple[int, int, int]]) -> list[list[set[tuple[int, ...]]]]:
        """The colours that should be seen in each cell, black aside."""
        seen: list[list[set[tuple[int, ...]]]] = [[set() for _ in range(self.width)] for _ in range(self.height)]
        for i, (row, column) in self.places.items():
            seen[row][column] = {colour_of[i]}
        return seen


def seen_colours(picture: np.ndarray, pixels: int) -> list[list[set[tuple[int, ...]]]]:
    height, width = picture.shape[0] // pixels, picture.shape[1] // pixels
    blocks = picture.reshape(height, pixels, width, pixels, 3).swapaxes(1, 2).reshape(height, width, -1, 3)
    return [
        [{tuple(pixel) for pixel in block.tolist()} - {(0, 0, 0)} for block in row_of_blocks]
        for row_of_blocks in blocks
    ]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_world_follows_the_plain_rules(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    k = data.draw(st.integers(1, min(6, height * width)))
    n = data.draw(st.integers(k, k + 4))
    make = data.draw(st.sampled_from([ShapesEnv, RushHourEnv]))
    env = make(n=n, k=k, grid=(height, width), cell_pixels=6, split="all", library_seed=data.draw(st.integers(0, 3)))
    observation, info = env.reset(seed=data.draw(st.integers(0, 2**31)))
    objects = env.world.library.objects
    plain = PlainWorld(info, [o.heading or 0 for o in objects], height, width)
    colours = [o.colour for o in objects]
    assert seen_colours(observation, 6) == plain.colours(colours)
    if make is RushHourEnv:
        assert info["headings"].tolist() == [objects[i].heading for i in info["object_ids"]]
    expected_mask = [int(a // 4 in plain.places) for a in range(4 * n)]
    for action in data.draw(st.lists(st.integers(0, 4 * n - 1), max_size=25)):
        moved, absent = plain.act(action)
        observation, reward, terminated, truncated, info = env.step(action)
        assert (info["moved"], info["absent"]) == (moved, absent)
        assert info["object_ids"].tolist() == list(plain.places)
        assert info["positions"].tolist() == [list(place) for place in plain.places.values()]
        assert info["action_mask"].tolist() == expected_mask
        assert seen_colours(observation, 6) == plain.colours(colours)
        assert (reward, terminated, truncated) == (0.0, False, False)


CAR_MOVES = {  # heading: where forward, right, backward and left lead
    "north": ("north", "east", "south", "west"),
    "east": ("east", "south", "west", "north"),
    "south": ("south", "west", "north", "east"),
    "west": ("west", "north", "east", "south"),
}


@pytest.mark.parametrize("relative", range(4), ids=["forward", "right", "backward", "left"])
@pytest.mark.parametrize("heading", CAR_MOVES)
def test_a_car_moves_relative_to_where_it_faces(heading: str, relative: int) -> None:
    env = RushHourEnv(n=8, k=1, grid=3, split="all")
    car = [o.heading for o in env.world.library.objects].index(COMPASS.index(heading))
    _, info = env.reset(options={"scene": [car], "positions": [[1, 1]]})
    assert info["headings"].tolist() == [COMPASS.index(heading)]
    info = env.step(4 * car + relative)[4]
    down, right = STEPS[CAR_MOVES[heading][relative]]
    assert info["moved"]
    assert info["positions"].tolist() == [[1 + down, 1 + right]]


@pytest.mark.parametrize("direction", range(4))
def test_a_shape_moves_by_the_compass(direction: int) -> None:
    env = ShapesEnv(n=3, k=1, grid=3, split="all")
    env.reset(options={"scene": [2], "positions": [[1, 1]]})
    down, right = STEPS[COMPASS[direction]]
    assert env.step(8 + direction)[4]["positions"].tolist() == [[1 + down, 1 + right]]


def test_borders_and_other_objects_are_in_the_way() -> None:
    env = ShapesEnv(n=4, k=2, grid=(1, 3), split="all")
    before, _ = env.reset(options={"scene": [0, 1], "positions": [[0, 0], [0, 1]]})
    for action in (0, 1, 2, 3, 7):  # object 0 any way, object 1 west into it
        after, *_, info = env.step(action)
        assert (info["moved"], info["absent"]) == (False, False)
        np.testing.assert_array_equal(after, before)
    assert env.step(5)[4]["positions"].tolist() == [[0, 0], [0, 2]]


@pytest.mark.parametrize("env_id", IDS)
def test_an_absent_object_does_not_act(env_id: str) -> None:
    env = gym.make(env_id)
    before, info = env.reset(seed=0)
    absent = np.flatnonzero(info["action_mask"] == 0)
    assert len(absent) == 20
    for action in absent:
        after, *_, info = env.step(action)
        assert (info["moved"], info["absent"]) == (False, True)
        np.testing.assert_array_equal(after, before)


def test_time_limit() -> None:
    for limit, env in ((100, gym.make(IDS[0])), (3, gym.make(IDS[0], max_episode_steps=3))):
        env.reset(seed=0)
        assert [env.step(0)[3] for _ in range(limit)] == [False] * (limit - 1) + [True]


def test_reward_function_sees_both_infos_and_the_action() -> None:
    calls = []

    def reward_fn(before: dict[str, Any], action: int, after: dict[str, Any]) -> float:
        calls.append((before, action, after))
        return 2 * after["moved"] - 0.5

    env = ShapesEnv(n=2, k=1, grid=2, split="all", reward_fn=reward_fn)
    _, first = env.reset(options={"scene": [1], "positions": [[0, 0]]})
    _, reward, *_, second = env.step(np.int64(5))
    assert reward == 1.5
    assert env.step(5)[1] == -0.5
    assert calls[0][1] == 5
    assert_same(calls[0][0], first)
    assert_same(calls[0][2], second)
    assert_same(calls[1][0], second)


def test_render() -> None:
    env = ShapesEnv(render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(env.render(), observation)
    silent = ShapesEnv()
    silent.reset()
    assert silent.render() is None
    envs = ShapesVectorEnv(3, render_mode="rgb_array")
    observations, _ = envs.reset(seed=0)
    np.testing.assert_array_equal(np.stack(envs.render()), observations)
    assert ShapesVectorEnv(3).render() is None


# ---- scenes ----


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("split_seed", [0, 7])
def test_scenes_are_those_of_the_split_and_all_of_them(split: str, split_seed: int) -> None:
    env = ShapesEnv(n=6, k=3, split=split, split_seed=split_seed)
    expected = split_scenes(6, 3, np.random.default_rng([split_seed, 0])).scenes(split)
    env.reset(seed=0)
    drawn = {tuple(env.reset()[1]["object_ids"].tolist()) for _ in range(300)}
    assert drawn == set(expected.scenes)


def test_all_is_any_combination() -> None:
    env = ShapesEnv(n=5, k=2, split="all")
    env.reset(seed=0)
    drawn = {tuple(env.reset()[1]["object_ids"].tolist()) for _ in range(300)}
    assert drawn == set(combinations(range(5), 2))


def test_libraries_differ_by_seed_only() -> None:
    assert ShapesEnv(library_seed=1).world == ShapesEnv(library_seed=1, split_seed=5).world
    assert ShapesEnv(library_seed=1).world != ShapesEnv(library_seed=2).world


def test_reset_options_choose_scene_and_positions() -> None:
    env = RushHourEnv(n=9, k=3, grid=(2, 4))
    _, info = env.reset(options={"scene": [7, 2, 4], "positions": [[0, 0], [1, 3], [0, 2]]})
    assert info["object_ids"].tolist() == [2, 4, 7]
    assert info["positions"].tolist() == [[1, 3], [0, 2], [0, 0]]
    _, info = env.reset(options={"scene": np.array([8, 0, 1])})
    assert info["object_ids"].tolist() == [0, 1, 8]
    _, info = env.reset(options={"positions": [(0, 0), (1, 3), (0, 2)]})
    assert info["positions"].tolist() == [[0, 0], [1, 3], [0, 2]]
    assert env.reset(options={})[1].keys() == env.reset()[1].keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scene": [0, 1]}, r"scene=\[0, 1\] is not the ids of k=3 different objects; give ids of 0-5"),
        ({"scene": [0, 1, 2, 3]}, "k=3"),
        ({"scene": [0, 1, 1]}, r"scene=\[0, 1, 1\].*different"),
        ({"scene": [0, 1, 6]}, r"scene=\[0, 1, 6\].*0-5"),
        ({"scene": [-1, 1, 2]}, r"scene=\[-1, 1, 2\]"),
        ({"scene": [0.5, 1, 2]}, r"scene=\[0.5, 1, 2\]"),
        ({"scene": "all"}, "scene='all'"),
        ({"scene": [[0], [1, 2]]}, "scene="),
        ({"positions": [[0, 0], [0, 1]]}, r"positions=\[\[0, 0\], \[0, 1\]\] are not .* k=3 objects"),
        ({"positions": [[0, 0], [0, 1], [0, 0]]}, "different cells"),
        ({"positions": [[0, 0], [0, 1], [0, 5]]}, "5x5"),
        ({"scenes": [0, 1, 2]}, "unknown reset option 'scenes'"),
    ],
)
@pytest.mark.parametrize("make", [ShapesEnv, ShapesVectorEnv])
def test_bad_reset_options_are_one_clear_error(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(HowmError, match=message):
        make(n=6, k=3).reset(seed=0, options=options)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n": 4, "k": 5}, "k must be in 1-4.* got 5"),
        ({"n": 4, "k": 5, "split": "all"}, "k must be in 1-4.* got 5"),
        ({"n": 0}, "n=0"),
        ({"k": 0, "split": "all"}, "k=0"),
        ({"n": 10.5}, "n=10.5"),
        ({"split": "test"}, "unknown split 'test'; choose train, eval or all"),
        ({"grid": 2}, "k=5.*2x2.*larger grid"),
        ({"grid": 0}, "grid=0"),
        ({"grid": (5, 5, 5)}, r"grid=\(5, 5, 5\)"),
        ({"grid": "5 by 5"}, "grid='5 by 5' must be HxW"),
        ({"cell_pixels": 2}, "cell_pixels=2"),
        ({"split_seed": -1}, "split_seed=-1"),
        ({"library_seed": -1}, "library_seed=-1"),
        ({"render_mode": "ansi"}, "render_mode 'ansi'"),
    ],
)
@pytest.mark.parametrize("make", [ShapesEnv, ShapesVectorEnv])
def test_bad_settings_are_one_clear_error(make: Any, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(HowmError, match=message):
        make(**kwargs)


@pytest.mark.parametrize("action", [-1, 40, 1.0, [1, 2], None])
def test_impossible_actions_are_refused(action: Any) -> None:
    env = ShapesEnv()
    env.reset(seed=0)
    with pytest.raises(HowmError, match="integers in 0-39"):
        env.step(action)


def test_reset_comes_first() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        ShapesEnv().step(0)
    with pytest.raises(gym.error.ResetNeeded):
        ShapesVectorEnv(2).reset(options={"reset_mask": np.array([True, False])})


# ---- many environments ----


def moved_right(before: dict[str, Any], action: int, after: dict[str, Any]) -> float:
    return float((after["positions"] - before["positions"])[:, 1].sum()) + (action + 1) / 100


def make_pair(env_id: str, mode: AutoresetMode, num_envs: int, **kwargs: Any) -> tuple[Any, Any]:
    """Our vector environment and Gymnasium's loop over single ones."""
    ours = gym.make_vec(
        env_id, num_envs=num_envs, vectorization_mode="vector_entry_point", autoreset_mode=mode, **kwargs
    )
    theirs = gym.make_vec(
        env_id, num_envs=num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **kwargs
    )
    return ours, theirs


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("env_id", IDS)
@settings(max_examples=12, deadline=None)
@given(
    num_envs=st.integers(1, 5),
    limit=st.integers(1, 6),
    seed=st.integers(0, 1000),
    split=st.sampled_from(["train", "eval", "all"]),
    reward_fn=st.sampled_from([None, moved_right]),
)
def test_vector_equals_single_environments(
    env_id: str, mode: AutoresetMode, num_envs: int, limit: int, seed: int, split: str, reward_fn: Any
) -> None:
    ours, theirs = make_pair(
        env_id, mode, num_envs, max_episode_steps=limit, n=6, k=3, grid=(2, 3), split=split, reward_fn=reward_fn
    )
    assert ours.metadata == theirs.metadata
    for space in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, space) == getattr(theirs, space)
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
    rng = np.random.default_rng(seed)
    ended = np.zeros(num_envs, dtype=bool)
    for step in range(20):
        actions = rng.integers(24, size=num_envs)
        if mode is AutoresetMode.NEXT_STEP:
            actions[ended] = 99  # ignored: these environments restart
        our_step, their_step = ours.step(actions), theirs.step(actions)
        assert_same(our_step, their_step)
        ended = our_step[3].copy()
        mask = ended if mode is AutoresetMode.DISABLED else np.zeros(num_envs, dtype=bool)
        if step in (4, 11):  # so that environments end at different times
            mask = mask | (np.arange(num_envs) == step % num_envs)
        if mask.any():
            seeds = [seed + step] * num_envs if step == 4 else None
            options = {"scene": [5, 0, 3]} if step == 11 else {}
            ours_, theirs_ = (envs.reset(seed=seeds, options=options | {"reset_mask": mask}) for envs in (ours, theirs))
            assert_same(ours_, theirs_)
            ended &= ~mask


def test_final_observation_and_info_of_same_step_autoreset() -> None:
    envs = ShapesVectorEnv(2, max_episode_steps=2, autoreset_mode="SameStep")
    single = ShapesEnv()
    envs.reset(seed=5)
    single.reset(seed=5)
    actions = np.array([0, 0])
    assert "final_obs" not in envs.step(actions)[4]
    single.step(0)
    observations, _, _, truncated, infos = envs.step(actions)
    last, *_, last_info = single.step(0)
    assert truncated.all()
    np.testing.assert_array_equal(infos["final_obs"][0], last)
    np.testing.assert_array_equal(infos["final_info"]["positions"][0], last_info["positions"])
    fresh, fresh_info = single.reset()
    np.testing.assert_array_equal(observations[0], fresh)
    np.testing.assert_array_equal(infos["object_ids"][0], fresh_info["object_ids"])


@pytest.mark.parametrize("mode", AutoresetMode)
def test_what_was_returned_never_changes(mode: AutoresetMode) -> None:
    envs = ShapesVectorEnv(3, max_episode_steps=4, autoreset_mode=mode)
    returned: list[Any] = [envs.reset(seed=0)]
    kept = copy.deepcopy(returned)
    for step in range(12):
        returned.append(envs.step(np.array([step, step + 1, step + 2])))
        kept.append(copy.deepcopy(returned[-1]))
        if mode is AutoresetMode.DISABLED and returned[-1][3].any():
            envs.reset(options={"reset_mask": returned[-1][3]})
    assert_same(tuple(returned), tuple(kept))


def test_what_the_user_changes_does_not_reach_the_environment() -> None:
    envs, untouched = ShapesVectorEnv(2), ShapesVectorEnv(2)
    _, infos = envs.reset(seed=0)
    untouched.reset(seed=0)
    for value in infos.values():
        value[...] = 0
    for _ in range(3):
        ours, theirs = envs.step(np.array([1, 9])), untouched.step(np.array([1, 9]))
        assert_same(ours[4], theirs[4])
        for part in (*ours[:4], *ours[4].values()):
            part[...] = 1


def test_vector_time_limits_are_read_as_by_make() -> None:
    def first_truncation(**kwargs: Any) -> int | None:
        envs = gym.make_vec(IDS[0], num_envs=1, vectorization_mode="vector_entry_point", **kwargs)
        envs.reset(seed=0)
        return next((i for i in range(1, 131) if envs.step(np.zeros(1, dtype=int))[3][0]), None)

    assert first_truncation() == 100
    assert first_truncation(max_episode_steps=None) == 100
    assert first_truncation(max_episode_steps=7) == 7
    assert first_truncation(max_episode_steps=-1) is None


def test_vector_mistakes_are_clear_errors() -> None:
    for kwargs, message in (
        ({"num_envs": 0}, "num_envs=0"),
        ({"max_episode_steps": 0}, "max_episode_steps=0"),
        ({"autoreset_mode": "Never"}, "'Never'; choose one of NextStep, SameStep, Disabled"),
    ):
        with pytest.raises(HowmError, match=message):
            ShapesVectorEnv(**kwargs)
    envs = ShapesVectorEnv(2, max_episode_steps=1, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(HowmError, match=r"seed=\[1, 2, 3\] has 3 seeds for 2"):
        envs.reset(seed=[1, 2, 3])
    for mask in ([True, False], np.array([True]), np.array([1, 0]), np.array([False, False])):
        with pytest.raises(HowmError, match="reset_mask="):
            envs.reset(options={"reset_mask": mask})
    envs.reset(seed=0)
    for actions in (np.array([0, 40]), np.array([0]), np.array([0.0, 1.0])):
        with pytest.raises(HowmError, match="integers in 0-39, one per environment"):
            envs.step(actions)
    envs.step(np.array([0, 0], dtype=np.uint64))
    with pytest.raises(HowmError, match=r"environments \[0, 1\] have ended"):
        envs.step(np.array([0, 0]))


def test_the_given_options_are_left_alone() -> None:
    envs = ShapesVectorEnv(2)
    envs.reset(seed=0)
    options = {"reset_mask": np.array([True, False]), "scene": [0, 1, 2, 3, 4]}
    _, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "scene"}
    assert infos["object_ids"].tolist() == [[0, 1, 2, 3, 4], [0] * 5]
    assert infos["_object_ids"].tolist() == [True, False]


# ---- pairs of object and direction ----


@pytest.mark.parametrize("env_id", IDS)
def test_factored_actions_are_the_flat_ones(env_id: str) -> None:
    flat, factored = gym.make(env_id), FactoredActions(gym.make(env_id))
    assert factored.action_space == gym.spaces.MultiDiscrete([10, 4])
    flat.reset(seed=0)
    factored.reset(seed=0)
    for action in range(40):
        assert_same(factored.step(np.array(divmod(action, 4)))[4], flat.step(action)[4])
    with pytest.raises(HowmError, match=r"action \[3, 4\]"):
        factored.step(np.array([3, 4]))
    recreated = gym.make(factored.spec)
    assert recreated.action_space == factored.action_space


def test_factored_actions_of_a_vector_environment() -> None:
    flat, factored = ShapesVectorEnv(3), FactoredVectorActions(ShapesVectorEnv(3))
    assert factored.single_action_space == gym.spaces.MultiDiscrete([10, 4])
    assert factored.action_space.shape == (3, 2)
    flat.reset(seed=0)
    factored.reset(seed=0)
    for start in range(38):
        actions = start + np.arange(3)
        assert_same(factored.step(np.stack(np.divmod(actions, 4), axis=1))[4], flat.step(actions)[4])
    with pytest.raises(HowmError, match=r"\[3, 4\]"):
        factored.step(np.array([[0, 0], [3, 4], [0, 0]]))


def test_factored_actions_need_a_world() -> None:
    with pytest.raises(HowmError, match="actions belong to objects"):
        FactoredActions(gym.make("CartPole-v1"))


# ---- registration ----


def test_registering_loads_no_environment_and_may_be_repeated() -> None:
    code = (
        "import sys; from howm.worlds.envs.registration import register_envs; register_envs(); register_envs(); "
        "import gymnasium; assert 'howm.worlds.envs.single' not in sys.modules; "
        "print(sorted(i for i in gymnasium.registry if i.startswith('howm/')))"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert {"howm/RushHour-v0", "howm/Shapes-v0", "howm/Free-v0"} <= set(eval(result.stdout))
