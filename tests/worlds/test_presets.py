"""Every world that is known by name: contract, environments, the list and the sheet."""

import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from PIL import Image

from howm.cli.main import main
from howm.data.dataset import Amounts, make_dataset
from howm.errors import HowmError
from howm.worlds.check import check_world
from howm.worlds.envs.registration import env_id, register_envs
from howm.worlds.registry import WORLDS
from howm.worlds.splits import make_split

register_envs()
BUILTIN = tuple(WORLDS._builtin)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_world_keeps_the_contract_and_its_environment_passes_gymnasiums_check(name):
    assert check_world(name) == []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*render.*")
        check_env(gym.make(env_id(name), segmentation=True).unwrapped)


@pytest.mark.parametrize("name", BUILTIN)
def test_the_vector_environment_is_the_loop_over_single_ones(name):
    vector = gym.make_vec(env_id(name), num_envs=4, vectorization_mode="vector_entry_point", segmentation=True)
    sync = gym.make_vec(env_id(name), num_envs=4, vectorization_mode="sync", vector_kwargs=None, segmentation=True)
    rng = np.random.default_rng(0)
    for envs in (vector, sync):
        envs.reset(seed=3)
    for _ in range(60):
        actions = rng.integers(vector.single_action_space.n, size=4)
        (seen, *_, info), (expected, *_, other) = vector.step(actions), sync.step(actions)
        np.testing.assert_array_equal(seen, expected)
        for key in ("object_ids", "positions", "action_mask", "segmentation"):
            np.testing.assert_array_equal(info[key], other[key])


def test_infos_tell_where_objects_are_and_how_much_of_them_can_be_seen():
    env = gym.make("howm/Layers-v0", segmentation=True)
    scene, places = [2, 5, 7, 8, 9], [[0.5, 0.5], [0.5, 0.55], [0.2, 0.2], [0.8, 0.2], [0.2, 0.8]]
    _, info = env.reset(options={"scene": scene, "positions": places})
    np.testing.assert_allclose(info["positions"], places)
    assert info["visible"][0] == 1 > info["visible"][1]
    shown = info["segmentation"]
    assert (shown == 2).sum() > (shown == 5).sum() > 0
    assert shown[0, 0] == -1
    assert set(np.unique(shown)) <= {-1, *scene}


@pytest.mark.parametrize("name", BUILTIN)
def test_impossible_arrangements_are_one_clear_error(name):
    env = gym.make(env_id(name))
    _, before = env.reset(seed=0)
    scene = before["object_ids"][before["object_ids"] >= 0].tolist()
    space = getattr(env.unwrapped.world, "space", "grid")
    outside, fractions = [[9, 9]] * len(scene), [[0.3, 0.3]] * len(scene)
    wrong = [outside, [[float("nan")] * 2] * len(scene)]
    if space == "grid" or env.unwrapped.world.contact != "overlap":
        wrong.append(fractions)  # which are no cells, or one place for all
    for places in wrong:
        with pytest.raises(HowmError, match=r"cells|cannot be at"):
            env.reset(options={"scene": scene, "positions": places})
    _, after = env.reset(options={"scene": scene, "positions": before["positions"][: len(scene)].tolist()})
    np.testing.assert_array_equal(after["positions"], before["positions"])
    np.testing.assert_array_equal(after["object_ids"], before["object_ids"])
    assert after["visible"].shape == before["object_ids"].shape


def test_the_sizes_of_evaluation_scenes_make_the_split_larger_k():
    env = gym.make("howm/Shapes-v0", k="3-4", eval_k="5-6", split="eval")
    sizes = {int((env.reset(seed=seed)[1]["object_ids"] >= 0).sum()) for seed in range(20)}
    assert sizes == {5, 6}
    assert make_dataset("shapes", k=3, eval_k=5, amounts=Amounts(200, 2, 10, 2)).split.kind == "larger-k"


def test_an_environment_says_which_seeds_it_has():
    with pytest.raises(HowmError, match="library_seed, split_seed"):
        gym.make("howm/Free-v0", seed=3)


def test_objects_of_an_environment_change_within_its_scenes_and_absent_ones_are_masked():
    env = gym.make("howm/Changing-v0", change_rate=0.5)
    allowed = make_split("linked", 10, 5, 0).train
    _, info = env.reset(seed=0)
    seen = set()
    for _ in range(60):
        *_, info = env.step(env.action_space.sample(info["action_mask"]))
        seen.add(tuple(info["object_ids"].tolist()))
        assert allowed.contains(info["object_ids"])
        assert np.flatnonzero(info["action_mask"].reshape(10, 4).all(axis=1)).tolist() == info["object_ids"].tolist()
    assert len(seen) > 10


def test_scenes_of_an_environment_differ_in_size():
    env = gym.make("howm/Grand-v0")
    sizes = {int((env.reset(seed=seed)[1]["object_ids"] >= 0).sum()) for seed in range(40)}
    assert sizes == {3, 4, 5, 6, 7}
    _, info = env.reset(options={"scene": [1, 2, 3]})
    assert info["object_ids"].tolist() == [1, 2, 3, -1, -1, -1, -1]
    assert info["action_mask"].sum() == 12


def test_the_list_and_the_sheet_of_worlds(tmp_path, capsys):
    assert main(["worlds"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed[: len(BUILTIN)]] == list(BUILTIN)
    assert main(["worlds", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["push"]["settings"]["contact"] == "push"
    assert main(["worlds", "-o", str(tmp_path / "sheet.png")]) == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.height >= 100 * len(BUILTIN)
