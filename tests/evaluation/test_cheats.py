"""Models that try to score without knowing the dynamics: refused, or no better than the honest model beneath."""

import math

import cheats
import numpy as np
import pytest
import torch
from cheats import CHEATS

from howm import Metric, Rollouts, SlotState, check_model, evaluate, make_dataset
from howm.config import from_plain
from howm.data.dataset import Amounts
from howm.data.episodes import Episodes
from howm.errors import HowmError
from howm.models.registry import METHODS

EPISODES = 300
STEPS = (1, 3)


@pytest.fixture(scope="module")
def data():
    return make_dataset("shapes", 7, 3, amounts=Amounts(30, 5, EPISODES, 3))


@pytest.fixture(scope="module")
def honest(data):
    return {kind: evaluate(kind(data.spec), Rollouts(data.eval), STEPS) for kind in (cheats.Still, cheats.Knowing)}


def test_the_honest_models_are_allowed_and_not_good(data, honest):
    for kind, found in honest.items():
        assert check_model(kind(data.spec)) == []
        assert found.model["hard"]["3"].mrr < 20
    assert honest[cheats.Still].model == honest[cheats.Still].controls["do_nothing"]


@pytest.mark.parametrize("name", CHEATS)
def test_it_is_refused_or_gets_the_honest_score(data, honest, name):
    cheat = CHEATS[name]
    before = [array.copy() for array in (data.eval.scene_ids, data.eval.states, data.eval.actions)]
    if cheat.refused is not None:
        with pytest.raises(HowmError, match=cheat.refused):
            evaluate(cheat.make(data.spec, EPISODES), Rollouts(data.eval), STEPS)
    else:
        found = evaluate(cheat.make(data.spec, EPISODES), Rollouts(data.eval), STEPS)
        assert found.model == honest[cheat.honest].model
        assert found.controls == honest[cheat.honest].controls
    after = (data.eval.scene_ids, data.eval.states, data.eval.actions)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert data.certificate()["violations"] == []
    if cheat.said is not None:
        assert any(line.startswith(cheat.said) for line in check_model(cheat.make(data.spec, EPISODES)))


def test_rows_of_an_earlier_evaluation_are_no_answers(data, honest):
    model = cheats.LooksUp(data.spec, EPISODES)
    evaluate(model, Rollouts(data.eval), (3,))
    second = evaluate(model, Rollouts(data.eval), (3,)).model
    for pool in ("paper", "hard"):
        assert second[pool]["3"].mrr < honest[cheats.Still].model[pool]["3"].mrr


def test_imported_data_is_not_written_into(data):
    episodes = data.eval
    index = np.arange(EPISODES)
    pictures = np.stack([episodes.observe(index, t) for t in range(4)], axis=1)
    imported = Episodes(episodes.actions, episodes.scene_ids.copy(), pictures=pictures.copy())
    first, second = (
        evaluate(kind(data.spec), Rollouts(imported), STEPS) for kind in (cheats.WritesInputs, cheats.Knowing)
    )
    assert first.model == second.model
    assert np.array_equal(imported.pictures, pictures)
    assert np.array_equal(imported.scene_ids, episodes.scene_ids)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(("time", "name"), [(0, "frame 0 of episode 7"), (3, "frame 3 of episode 7")])
def test_embeddings_without_a_place_are_an_error_that_names_the_frame(data, bad, time, name):
    picture = torch.from_numpy(data.eval.observe(np.array([7]), time)[0])

    class Broken(cheats.Still):
        def encode(self, pictures, privileged=None):
            slots = super().encode(pictures).slots
            return SlotState(torch.where((pictures == picture).all(dim=(1, 2, 3)).view(-1, 1, 1), bad, slots))

    with pytest.raises(HowmError, match=f"embedding of {name} is NaN or infinite"):
        evaluate(Broken(data.spec), Rollouts(data.eval), (3,))


def test_a_prediction_that_diverged_is_an_error_that_names_the_query(data):
    class Diverges(cheats.Still):
        def step(self, state, action):
            return SlotState(state.slots * 1e200)

    with pytest.raises(HowmError, match="the prediction 2 steps ahead of episode 0 is NaN or infinite"):
        evaluate(Diverges(data.spec), Rollouts(data.eval), (1, 2))


def test_an_honest_distance_of_ones_own_is_allowed(data, honest):
    class CityBlock(cheats.Still):
        metric = Metric(lambda q, r: (q[..., :, None, :] - r[..., None, :, :]).abs().sum(-1))

    assert check_model(CityBlock(data.spec)) == []
    found = evaluate(CityBlock(data.spec), Rollouts(data.eval), (3,))
    again = evaluate(CityBlock(data.spec), Rollouts(data.eval), (3,))
    assert found == again
    assert found.model["paper"]["3"].mrr > 10


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_honest(data, method):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        preset = METHODS[method].presets["cpu"].get("model", {})
        model = METHODS[method].build(data.spec, from_plain(METHODS[method].model_config, preset, "model."))
    episodes = data.eval.subsample(40)
    first, second = (evaluate(model, Rollouts(episodes), (2,), chunk=chunk) for chunk in (512, 13))
    assert first.controls["oracle"] == second.controls["oracle"]
    assert check_model(model) == []
