"""The learned reward: of states of a trained model that is left as it is, in scenes it has not seen."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import howm
from howm import HowmError, fit_reward, load_reward, reward_accuracy, save_reward
from howm.data.episodes import collect
from howm.evaluation.rewards import learned_reward_invariance_error, reward_invariance_error
from howm.models.registry import METHODS, build_model
from howm.planning.reward import RewardConfig, fit_to_rewards

QUICK = RewardConfig(hidden=32, frames=1_500, steps=250)


@pytest.fixture(scope="module")
def trained():
    model = howm.load("howm-shapes-n10")
    world, rng = howm.make_world("shapes", 10), np.random.default_rng(0)
    seen = collect(world, model.training_scenes, 150, 10, rng)
    unseen = collect(world, howm.unseen_scenes(model, 50), 50, 10, rng)
    return model, seen, unseen


@pytest.fixture(scope="module")
def head(trained):
    model, seen, _ = trained
    return fit_reward(model, seen, {"name": "bring_to", "object": 3}, config=QUICK)


def test_a_head_knows_unseen_scenes_and_leaves_the_model_alone(trained, head):
    model, seen, unseen = trained
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    again = fit_reward(model, seen, {"name": "bring_to", "object": 3}, config=QUICK)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(torch.equal(one, two) for one, two in zip(head.parameters(), again.parameters(), strict=True))
    found = reward_accuracy(head, model, unseen, frames=400)
    assert found.frames == 400
    assert found.explained > 0.9
    assert found.mean_error < 0.1


def test_reward_is_a_capability_that_most_models_lack(trained, head):
    model, _, unseen = trained
    pictures = torch.from_numpy(unseen.observe(np.arange(5), 0))
    assert model.reward(model.encode(pictures)) is None
    weights = set(model.state_dict())
    try:
        head.attach(model)
        state = model.encode(pictures)
        after = model.step(state, torch.from_numpy(unseen.actions[:5, 0].astype(np.int64)))
        assert model.reward(after).shape == (5,)
        assert set(model.state_dict()) == weights
        with torch.no_grad():
            torch.testing.assert_close(model.reward(state), head.of(model, state))
        learned = learned_reward_invariance_error(model, unseen, np.random.default_rng(0), samples=64, replacements=8)
        assert learned.expected > 0.05  # the task names an object
    finally:
        model.reward_function = None
    with pytest.raises(HowmError, match="has learned no reward"):
        learned_reward_invariance_error(model, unseen, np.random.default_rng(0), samples=4, replacements=2)


def test_tasks_that_name_no_object_are_invariant(trained):
    _, _, unseen = trained

    def error(task):
        return reward_invariance_error(task, unseen, np.random.default_rng(0), samples=400, replacements=8)

    assert error({"name": "line_up", "shaped": True}).expected == 0
    assert error({"name": "line_up", "shaped": True}).scale > 0
    assert error({"name": "bring_to", "shaped": True}).expected > 0
    assert error({"name": "sort_by_colour", "shaped": True}).expected > 0


@pytest.mark.parametrize("method", ["cswm-n", "cwm-n"])
def test_models_without_objects_are_read_by_their_embedding(method, trained):
    _, _, unseen = trained
    model = build_model(method, unseen.world.spec(5), METHODS[method].model_config(), seed=0)
    config = RewardConfig(hidden=8, frames=64, steps=3)
    assert reward_accuracy(fit_reward(model, unseen, "line_up", config=config), model, unseen, frames=32).frames == 32


def test_a_file_keeps_a_head(trained, head, tmp_path):
    model, _, unseen = trained
    path = tmp_path / "head.safetensors"
    save_reward(head, path)
    read = load_reward(path)
    assert (read.task, read.config, read.n) == (head.task, head.config, 10)
    with torch.no_grad():
        state = model.encode(torch.from_numpy(unseen.observe(np.arange(4), 0)))
        assert torch.equal(read.of(model, state), head.of(model, state))


def test_bad_files_are_one_line(head, tmp_path):
    path = tmp_path / "head.safetensors"
    with pytest.raises(HowmError, match="does not exist"):
        load_reward(path)
    path.write_bytes(b"\0" * 40)
    with pytest.raises(HowmError, match="cannot be read"):
        load_reward(path)
    save_reward(head, path)
    weights = load_file(path)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["howm"])
    for changes, words in (
        ({"version": 9}, "version 9"),
        ({"size": 10**9}, "must be in 1-"),
        ({"n": 11}, "do not match its description"),
        ({"task": {"name": "os:system"}}, "is not one of"),
        ({"more": 1}, "unknown key more"),
    ):
        save_file(weights, path, metadata={"howm": json.dumps(about | changes)})
        with pytest.raises(HowmError, match=words):
            load_reward(path)
    broken = weights | {"mean": torch.full_like(weights["mean"], torch.nan)}
    save_file(broken, path, metadata={"howm": json.dumps(about)})
    with pytest.raises(HowmError, match="finite"):
        load_reward(path)
    save_file(weights, path)
    with pytest.raises(HowmError, match="not a reward head"):
        load_reward(path)


def test_bad_calls_are_one_line(trained, head):
    model, seen, _ = trained
    with pytest.raises(HowmError, match="unknown task 'tidy'"):
        fit_reward(model, seen, "tidy")
    with pytest.raises(HowmError, match="object 12 of the task"):
        fit_reward(model, seen, {"name": "bring_to", "object": 12})
    with pytest.raises(HowmError, match="as many finite rewards"):
        fit_to_rewards(model, seen.observe(np.arange(3), 0), np.zeros(2))
    with pytest.raises(HowmError, match="steps"):
        RewardConfig(steps=0)
    plain = fit_to_rewards(model, seen.observe(np.arange(8), 0), np.zeros(8), config=RewardConfig(steps=2))
    with pytest.raises(HowmError, match="no task"):
        reward_accuracy(plain, model, seen)
