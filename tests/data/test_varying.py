"""Scenes of several sizes, objects that change, and kinds of splits, from making data to ranking predictions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from howm import Amounts, HowmError, Rollouts, Transitions, evaluate, load_dataset, make_dataset
from howm.cli.main import main
from howm.data.storage import save_dataset
from howm.models.registry import METHODS, build_model
from howm.worlds.object_world import ObjectWorld
from howm.worlds.sizes import read_sizes, sized

AMOUNTS = Amounts(300, 8, 200, 5)
KINDS = {
    "pairs": ("shapes", {"split": "pairs"}),
    "minimal": ("shapes", {"split": "minimal"}),
    "sizes": ("shapes", {"k": "3-5"}),
    "free sizes": ("free", {"k": "2-4"}),
    "larger": ("push", {"k": "3-4", "eval_k": "5-6", "split": "larger-k"}),
    "changing": ("changing", {"change_rate": 0.2}),
    "changing sizes": ("changing", {"k": "3-4", "change_rate": 0.2}),
    "sizes apart": ("team", {"k": "3-4", "split": "pairs"}),
}


@pytest.fixture(scope="module", params=KINDS)
def dataset(request):
    world, options = KINDS[request.param]
    return make_dataset(world, 8, amounts=AMOUNTS, **options)


def test_the_certificate_holds_and_files_give_the_same_back(dataset, tmp_path, capsys):
    save_dataset(dataset, tmp_path / "a.h5")
    save_dataset(load_dataset(tmp_path / "a.h5"), tmp_path / "b.h5")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert dataset.certificate()["violations"] == []
    assert main(["data", "check", str(tmp_path / "a.h5"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 0 <= said["divergence"]["pairs"] <= said["divergence"]["triples"] <= 1


def test_rows_are_what_the_world_makes_of_each_scene_alone(dataset):
    """The same picture, state and key as if there were no other size."""
    episodes, world = dataset.train, dataset.world
    many, ids, states = episodes.state()
    rows = np.arange(0, len(episodes), 7)
    action, state, scenes = episodes.actions[rows, 0], states[rows, 0], ids[rows]
    stepped, pictures, masks = many.step(scenes, state, action), many.render(scenes, state), many.masks(scenes, state)
    keys = many.state_key(scenes, state)
    for row, scene in enumerate(scenes):
        k = (scene >= 0).sum()
        alone, here = scene[None, :k], state[row, None, :k]
        np.testing.assert_array_equal(stepped[row, :k], world.step(alone, here, action[[row]])[0])
        np.testing.assert_array_equal(pictures[row], world.render(alone, here)[0])
        np.testing.assert_array_equal(masks[row, :k], world.masks(alone, here)[0])
        assert not stepped[row, k:].any()
        assert not masks[row, k:].any()
    same = (keys[:, None] == keys).all(axis=2)
    assert (same == ((scenes[:, None] == scenes).all(axis=2) & (state[:, None] == state).all(axis=(2, 3)))).all()


@pytest.mark.parametrize("method", ["cswm-n", "cswm-k"])
def test_the_oracle_is_never_wrong_and_models_train(dataset, method):
    grid = replace(dataset.spec, cell_pixels=10)
    model = build_model(method, grid, METHODS[method].model_config(), seed=0)
    scores = evaluate(model, Rollouts(dataset.eval), (1, 5))
    assert {scores.controls["oracle"][pool][k].mrr for pool in ("paper", "hard") for k in ("1", "5")} == {100}
    assert scores.controls["do_nothing"]["hard"]["5"].mrr < 60
    transitions = Transitions(dataset.train)
    batch = transitions.load(next(transitions.batches(64, np.random.default_rng(0))))
    loss, _ = model(batch)
    assert np.isfinite(float(loss.detach()))


def test_objects_change_within_the_training_scenes_and_no_transition_crosses_a_change():
    dataset = make_dataset("changing", 8, amounts=AMOUNTS, change_rate=0.3)
    train, ids = dataset.train, dataset.train.frame_ids
    assert 0.2 < train.changes.mean() < 0.4
    replaced = (ids[:, 1:, :, None] != ids[:, :-1, None, :]).all(axis=3).sum(axis=2)
    np.testing.assert_array_equal(replaced, train.changes)  # one object, or none
    assert train.scenes <= set(dataset.split.train.scenes)
    assert dataset.eval.frame_ids is None
    transitions = Transitions(train, same_scene=1.0)
    assert len(transitions) == (~train.changes).sum()
    index = transitions.index(np.arange(len(transitions)), np.random.default_rng(0))
    scenes = train.frame_scenes.ravel()
    np.testing.assert_array_equal(scenes[index.obs], scenes[index.next_obs])
    np.testing.assert_array_equal(scenes[index.obs], scenes[index.negative_obs])
    assert (index.obs != index.negative_obs).all()


def test_a_change_that_moves_another_object_is_a_violation():
    dataset = make_dataset("changing", 8, amounts=AMOUNTS, change_rate=0.3)
    train = dataset.train
    episode, time = np.argwhere(train.changes)[0]
    ids, following = train.frame_ids[episode, time], train.frame_ids[episode, time + 1]
    kept = np.flatnonzero(np.isin(following, ids))[0]
    states = train.states.copy()
    states[episode, time + 1 :, kept, 0] += 1e-4
    broken = replace(dataset, train=replace(train, states=states))
    assert any("not what the world does" in line for line in broken.certificate()["violations"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "cubes"], "unknown split 'cubes'"),
        (["-k", "7-3"], "two ascending ones"),
        (["-k", "1-3"], "need 2 or more"),
        (["-k", "5-8"], "fewer than the n=8"),
        (["-k", "3-5", "--eval-k", "5-6"], "evaluates on larger ones"),
        (["--split", "larger-k"], "larger-k alone"),
        (["--eval-k", "6", "--split", "pairs"], "larger-k alone"),
        (["--split", "pairs", "--consecutive"], "not to pairs"),
        (["--contact", "push"], "unknown setting contact"),
    ],
)
def test_impossible_demands_are_one_line(arguments, message, tmp_path, capsys):
    out = tmp_path / "x.h5"
    assert main(["data", "make", "--world", "shapes", "-n", "8", "-o", str(out), *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_world_whose_objects_change_refuses_scenes_that_cannot():
    with pytest.raises(HowmError, match="use linked"):
        make_dataset("changing", 8, 4, amounts=AMOUNTS, split="minimal")


def test_sizes_are_read_from_numbers_texts_and_ranges():
    assert read_sizes(5) == read_sizes("5") == range(5, 6)
    assert read_sizes("3-7") == read_sizes(range(3, 8)) == range(3, 8)
    world = ObjectWorld()
    assert sized(world, np.array([[0, 1]])) is world
