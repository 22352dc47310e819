"""One contract test for all methods, and what the paper says of each."""

import numpy as np
import pytest
import torch
from torch import nn

from howm import METHODS, Transitions, WorldSpec, make_dataset
from howm.data.dataset import Amounts
from howm.data.privileged import Privileged
from howm.errors import HowmError
from howm.models.binding import bind, broadcast_actions, factored, scene_binding
from howm.models.cells import CellFeatures
from howm.models.cswm import CSWMN, CSWMConfig
from howm.models.losses import contrastive, energy
from howm.models.masks import MaskCNN
from howm.models.registry import build_model
from howm.runs.config import configure

SPEC = WorldSpec(n=6, k=3)
SMALL = Amounts(train_episodes=40, train_steps=10, eval_episodes=40, eval_steps=5)


def small_model(name: str, seed: int = 0):
    config = configure(name, "cpu", {"model": {"hidden": 16}}).model
    return build_model(name, SPEC, config, seed)


@pytest.fixture(scope="module")
def batch():
    transitions = Transitions(make_dataset("shapes", 6, 3, amounts=SMALL).train)
    rng = np.random.default_rng(0)
    return transitions.load(transitions.index(rng.integers(len(transitions), size=32), rng))


@pytest.mark.parametrize("name", METHODS)
class TestContract:
    def test_verbs(self, name, batch):
        model = small_model(name).eval()
        state = model.encode(batch.obs, batch.privileged)
        after = model.step(state, batch.action)
        assert after.slots.shape == state.slots.shape
        embedded, target = model.embed(after), model.embed(model.encode(batch.next_obs, batch.privileged))
        assert embedded.shape == target.shape == (32, embedded.shape[1])
        assert model.metric.pairwise(embedded.double(), target.double()).shape == (32, 32)

    def test_loss_can_be_minimised(self, name, batch):
        torch.manual_seed(0)  # of the noise that some losses have
        model = small_model(name)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        losses = []
        # The places of an extractor that is not trained are all the same, and half of howm's embedding.
        enough = 0.8 if name == "howm" else 0.6
        for _ in range(80):
            loss, logs = model(batch)
            assert ("reconstruction" if name == "stove" else "positive") in logs
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if losses[-1] < enough * losses[0]:
                break
        assert losses[-1] < enough * losses[0]

    def test_weights_depend_on_the_seed_alone(self, name, batch):
        torch.manual_seed(123)
        first, again, other = small_model(name, 4), small_model(name, 4), small_model(name, 5)
        pairs = list(zip(first.parameters(), again.parameters(), other.parameters(), strict=True))
        assert all(torch.equal(a, b) for a, b, _ in pairs)
        assert not all(torch.equal(a, c) for a, _, c in pairs)

    def test_building_leaves_the_global_generator_alone(self, name, batch):
        torch.manual_seed(7)
        expected = torch.rand(3)
        torch.manual_seed(7)
        small_model(name)
        assert torch.equal(torch.rand(3), expected)

    def test_a_state_does_not_depend_on_its_batch(self, name, batch):
        model = small_model(name).eval()
        together = model.encode(batch.obs, batch.privileged).slots
        alone = model.encode(batch.obs[5:6], Privileged(batch.privileged.object_ids[5:6])).slots
        torch.testing.assert_close(together[5:6], alone, atol=1e-5, rtol=1e-5)

    def test_float_pictures_are_the_same_as_bytes(self, name, batch):
        model = small_model(name).eval()
        ids = batch.privileged
        torch.testing.assert_close(model.encode(batch.obs, ids).slots, model.encode(batch.obs.float() / 255, ids).slots)

    def test_only_cswm_k_reads_object_ids(self, name, batch):
        model = small_model(name).eval()
        if name == "cswm-k":
            with pytest.raises(HowmError, match="object ids"):
                model.encode(batch.obs)
        else:
            garbage = torch.full_like(batch.privileged.object_ids, 99_999)
            seeing, blind = model.encode(batch.obs, Privileged(garbage)), model.encode(batch.obs)
            assert torch.equal(seeing.slots, blind.slots)
            assert torch.equal(model.step(seeing, batch.action).slots, model.step(blind, batch.action).slots)


def test_paper_sizes_of_sigma_n_cswm():
    model = build_model("cswm-n", WorldSpec(5, 5), CSWMConfig(), 0)
    extractor = (300 * 32 + 32) + 2 * 32 + (32 * 5 + 5)

    def mlp(inputs: int, outputs: int) -> int:
        return (inputs * 512 + 512) + (512 * 512 + 512) + 2 * (2 * 512) + (512 * outputs + outputs)

    expected = extractor + mlp(25, 2) + mlp(2 * 2, 512) + mlp(2 + 4 + 512, 2)
    assert sum(p.numel() for p in model.parameters()) == expected


def test_paper_sizes_of_c_wm_n():
    model = build_model("cwm-n", WorldSpec(5, 5), CSWMConfig(), 0)
    assert model.encoder.mlp[0].in_features == 5 * 25
    assert model.encoder.mlp[6].out_features == 2 * 5
    assert model.transition.mlp[0].in_features == 2 * 5 + 4 * 5


def test_cell_features_are_a_strided_convolution(batch):
    features = CellFeatures(SPEC, 7)
    weight = features.linear.weight.view(7, 10, 10, 3).permute(0, 3, 1, 2)
    pictures = batch.obs.permute(0, 3, 1, 2).float() / 255
    expected = nn.functional.conv2d(pictures, weight, features.linear.bias, stride=10)
    torch.testing.assert_close(features(batch.obs), expected.flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_pictures_without_any_object_have_features_too():
    masks = MaskCNN(SPEC, slots=4, features=5)(torch.zeros(3, 50, 50, 3, dtype=torch.uint8))
    assert masks.shape == (3, 4, 25)
    assert torch.isfinite(masks).all()


def test_energy_and_loss_by_hand():
    zero, one = torch.zeros(1, 2, 2), torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    assert energy(zero, one).item() == pytest.approx(1 / (2 * 0.25) * 1 / 2)
    loss, logs = contrastive(zero, one, zero, 0.5 * one, margin=1.0)
    assert logs["positive"].item() == pytest.approx(1.0)
    assert logs["hinge"].item() == pytest.approx(1 - 0.25)
    assert loss.item() == pytest.approx(1.75)


def test_actions_reach_the_slots_they_should():
    action = torch.tensor([4 * 2 + 1, 4 * 5 + 3])
    assert factored(action, SPEC).nonzero().tolist() == [[0, 2, 1], [1, 5, 3]]
    ids = torch.tensor([[0, 2, 4], [5, 1, 3]])  # unsorted on purpose: the j-th *smallest* id names slot j
    bound = bind(scene_binding(ids, 6), action, 4)
    assert bound.nonzero().tolist() == [[0, 1, 1], [1, 2, 3]]
    assert torch.equal(bound, scene_binding(ids, 6).transpose(1, 2) @ factored(action, SPEC))
    absent = bind(scene_binding(ids, 6), torch.tensor([4 * 1, 0]), 4)
    assert not absent.any()
    assert broadcast_actions(action, SPEC, 3).shape == (2, 3, 24)


def test_permuting_the_masks_of_sigma_n_permutes_its_predictions(batch):
    model = small_model("cswm-n").eval()
    state = model.encode(batch.obs)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    where = torch.argsort(order)  # slot i of the permuted state is slot order[i]
    moved = type(state)(state.slots[:, order])
    action = where[batch.action // 4] * 4 + batch.action % 4
    torch.testing.assert_close(
        model.step(moved, action).slots, model.step(state, batch.action).slots[:, order], atol=1e-6, rtol=1e-5
    )


def test_other_grids_and_cell_sizes():
    data = make_dataset("rush_hour", 4, 2, grid=__import__("howm").Grid(3, 4), cell_pixels=7, amounts=SMALL)
    transitions = Transitions(data.train)
    rng = np.random.default_rng(0)
    pictures = transitions.load(transitions.index(np.arange(8), rng))
    model = CSWMN(WorldSpec(4, 2, 21, 28, 7), CSWMConfig(hidden=8))
    assert torch.isfinite(model(pictures)[0])
    with pytest.raises(HowmError, match="50x51"):
        WorldSpec(4, 2, 50, 51)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"model": {"hiden": 3}}, "model.hiden"),
        ({"model": {"hidden": "big"}}, "model.hidden"),
        ({"model": {"hidden": 0}}, r"model.hidden must be 1 or more, got 0"),
        ({"model": {"margin": 0}}, "model.margin must be above 0, got 0"),
        ({"model": {"margin": -1.0}}, "model.margin must be above 0, got -1"),
        ({"model": {"margin": "nan"}}, "model.margin must be a finite number, got 'nan'"),
        ({"train": {"lr": -1.0}}, "train.lr"),
        ({"train": {"steps": 1.5}}, "train.steps"),
        ({"train": {"steps": True}}, "train.steps"),
        ({"train": {"schedule": "triangle"}}, "train.schedule"),
        ({"training": {}}, "training"),
        ({"train": 5}, "train"),
    ],
)
def test_bad_configurations_name_the_key(values, named):
    with pytest.raises(HowmError, match=named):
        configure("cswm-n", "cpu", values)


def test_unknown_presets_and_methods_are_named():
    with pytest.raises(HowmError, match="huge"):
        configure("cswm-n", "huge")
    with pytest.raises(HowmError, match="magic"):
        build_model("magic", SPEC, None, 0)
