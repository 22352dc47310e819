"""MONet(N)+BM and C-SWM with Slot Attention: masks, latents, matching, and the paper's sizes."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from howm import Transitions, WorldSpec, make_dataset
from howm.data.dataset import Amounts
from howm.data.storage import save_dataset
from howm.errors import HowmError
from howm.evaluation.run import evaluate_run
from howm.models.align import matched_to
from howm.models.cells import join_cells
from howm.models.distance import assignment
from howm.models.extractors.monet import MONet, MONetConfig
from howm.models.registry import build_model
from howm.runs.config import configure
from howm.training.run import train_run

AMOUNTS = Amounts(train_episodes=40, train_steps=5, eval_episodes=40, eval_steps=3)
TINY = {"steps": 4, "batch": 8, "check_every": 4, "log_every": 2}


@pytest.fixture(scope="module")
def data():
    return make_dataset("shapes", 6, 3, amounts=AMOUNTS)


def pictures(data, count=4):
    return torch.from_numpy(data.train.observe(np.arange(count), 0))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("resolution", ["cells", "pixels"])
def test_masks_explain_every_pixel_once(resolution, background, data):
    torch.manual_seed(0)
    config = MONetConfig(resolution=resolution, background_slot=background, hidden=16)
    monet = MONet(WorldSpec(6, 3), config).eval()
    slots = 6 + background
    obs = pictures(data)
    masks = monet.attention_masks(obs)
    assert masks.shape == (4, slots, 50, 50)
    assert torch.allclose(masks.sum(dim=1), torch.ones(4, 50, 50), atol=1e-5)
    assert monet.slots(obs).shape == (4, slots, 4)
    colours, log_masks = monet.decode(monet.slots(obs))
    elements, channels = (25, 300) if resolution == "cells" else (2500, 3)
    assert colours.shape == (4, slots, elements, channels)
    assert torch.allclose(log_masks.exp().sum(dim=1), torch.ones(()), atol=1e-5)
    loss, logs = monet.train()(obs)
    loss.backward()
    assert all(torch.isfinite(value) for value in (loss, *logs.values()))
    assert all(parameter.grad is not None for parameter in monet.parameters())


@pytest.mark.parametrize("resolution", ["cells", "pixels"])
def test_the_likelihood_is_that_of_a_mixture(resolution, data):
    """Of pixels; those of a cell count as their mean, so many times."""
    torch.manual_seed(0)
    monet = MONet(WorldSpec(6, 3), MONetConfig(resolution=resolution, hidden=16, beta=0.0, gamma=0.0)).double().eval()
    obs = pictures(data).double() / 255
    masks, (colours, _) = monet.attention_masks(obs), monet.decode(monet.slots(obs))
    density = torch.zeros(4, 50 // monet.scale, 50 // monet.scale, dtype=torch.float64)
    for s in range(6):
        normal = torch.distributions.Normal(join_cells(colours[:, s], 50, 50, monet.scale), 0.09 if s == 0 else 0.11)
        log_density = avg_pool2d(normal.log_prob(obs).sum(dim=3), monet.scale)
        density += masks[:, s, :: monet.scale, :: monet.scale] * log_density.exp()
    loss, _ = monet(obs)
    assert loss.item() == pytest.approx(-density.log().sum(dim=(1, 2)).mean().item() * monet.scale**2)


def test_the_first_layer_sees_picture_and_mask_side_by_side(data):
    """It is computed apart for both; this is what the table says."""
    torch.manual_seed(0)
    monet = MONet(WorldSpec(6, 3), MONetConfig(resolution="pixels", hidden=16)).double().eval()
    obs = pictures(data).double() / 255
    picture, masks = obs.permute(0, 3, 1, 2), monet.attention_masks(obs)
    for s in range(6):
        layer = monet.see(torch.cat([picture, masks[:, s : s + 1]], dim=1))
        assert torch.allclose(monet.encoder(layer)[:, :4], monet.slots(obs)[:, s])


def test_with_masks_of_cells_a_slot_is_the_mask_and_the_mean_of_what_it_covers(data):
    torch.manual_seed(0)
    monet = MONet(WorldSpec(6, 3), MONetConfig(resolution="cells", hidden=16)).double().eval()
    obs = pictures(data).double() / 255
    cells = torch.relu(monet.see(obs.permute(0, 3, 1, 2)))
    masks = avg_pool2d(monet.attention_masks(obs), 10)
    for s in range(6):
        mask = masks[:, s : s + 1]
        covered = (mask * cells).sum(dim=(2, 3)) / mask.sum(dim=(2, 3))
        moments = monet.encoder(torch.cat([covered, mask.flatten(1)], dim=1))
        assert torch.allclose(moments[:, :4], monet.slots(obs)[:, s])


def test_the_paper_preset_has_the_papers_sizes(data):
    config = configure("monet-bm", "paper")
    model = build_model("monet-bm", WorldSpec(5, 5), config.model, seed=0)
    unet = model.extractor.attention
    assert [block[0].out_channels for block in unet.down] == [32, 32, 64, 64, 64]
    assert [block[0].out_channels for block in unet.up] == [64, 64, 32, 32, 32]
    assert [(layer.in_features, layer.out_features) for layer in unet.middle if hasattr(layer, "in_features")] == [
        (1600, 128),
        (128, 128),
        (128, 1600),
    ]
    linear = [layer for layer in model.extractor.encoder if isinstance(layer, torch.nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(125, 512), (512, 512), (512, 8)]
    assert (config.represent.optimizer, config.represent.batch, config.represent.steps) == ("rmsprop", 64, 1_000_000)


@pytest.mark.parametrize("preset", ["paper", "cpu"])
def test_both_presets_train(preset, data, tmp_path):
    config = configure("monet-bm", preset, {"represent": TINY, "train": TINY, "model": {"hidden": 16}})
    assert train_run(config, data, tmp_path, 0)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"reconstruction", "positive"} <= {name for row in rows for name in row}


def test_slots_made_for_another_library_are_refused(data, tmp_path):
    config = configure("monet-bm", "cpu", {"represent": TINY, "train": TINY, "model": {"hidden": 16}})
    train_run(config, data, tmp_path / "six", 0)
    larger = make_dataset("shapes", 7, 3, amounts=AMOUNTS)
    with pytest.raises(HowmError, match="made for n=6 objects, k=3 in a scene, do not fit"):
        train_run(config, larger, tmp_path / "seven", 0, extractor=tmp_path / "six")
    assert not (tmp_path / "seven").exists()


def test_slots_are_put_into_the_order_that_fits():
    slots = torch.randn(5, 4, 3)
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(matched_to(slots + 1e-3, slots[:, order]), slots)


def test_what_diverges_is_left_to_the_trainer_and_is_far_from_everything(data, tmp_path):
    assert sorted(assignment(torch.full((1, 3, 3), torch.nan))[0].tolist()) == [0, 1, 2]
    model = build_model("monet-bm", WorldSpec(6, 3), configure("monet-bm", "cpu").model, seed=0)
    lost = torch.full((1, 24), torch.inf, dtype=torch.float64)
    assert torch.isinf(model.metric.pairwise(lost, torch.zeros_like(lost))).all()
    groups = {"model": {"matching": True, "hidden": 16}, "train": {**TINY, "lr": 1e30, "warmup": 0}}
    with pytest.raises(HowmError, match=r"Try a lower train\.lr"):
        train_run(configure("cswm-slots", "cpu", groups), data, tmp_path, 0)


def test_shuffled_slots_are_at_no_distance_under_matching():
    model = build_model("monet-bm", WorldSpec(6, 3), configure("monet-bm", "cpu").model, seed=0)
    state = torch.randn(3, 6, 4, dtype=torch.float64)
    shuffled = state[:, torch.randperm(6)]
    assert model.metric.pairwise(state.flatten(1), shuffled.flatten(1)).diagonal().abs().max() == 0


@pytest.mark.parametrize(("method", "model"), [("monet-bm", {}), ("cswm-slots", {"matching": True})])
def test_matching_methods_are_evaluated_on_small_pools_only(method, model, data, tmp_path):
    groups = {"train": TINY, "model": {"hidden": 16, **model}} | ({"represent": TINY} if method == "monet-bm" else {})
    save_dataset(data, tmp_path / "data.h5")
    train_run(configure(method, "cpu", groups), data, tmp_path / "run", 0)
    results = evaluate_run(str(tmp_path / "run"), steps=(1,), data=tmp_path / "data.h5", episodes=20)
    assert results.references == 20
    assert results.segmentation is not None
    with pytest.raises(HowmError, match="more than the 40"):
        evaluate_run(str(tmp_path / "run"), steps=(1,), data=tmp_path / "data.h5", episodes=41)
    with pytest.raises(HowmError, match="3000 references would take hours; give `episodes=500`"):
        evaluate_run(str(tmp_path / "run"), steps=(1,), fresh_seed=0, episodes=3000)


def test_cswm_slots_has_a_slot_for_every_action_factor(data):
    model = build_model("cswm-slots", WorldSpec(6, 3), configure("cswm-slots", "cpu").model, seed=0).eval()
    obs = pictures(data)
    assert model.encode(obs).slots.shape == (4, 6, 4)
    masks = model.masks(obs)
    assert torch.allclose(masks.sum(dim=1), torch.ones(()), atol=1e-4)
    transitions = Transitions(data.train)
    batch = transitions.load(transitions.index(np.arange(8), np.random.default_rng(0)))
    loss, logs = model(batch)
    assert set(logs) == {"positive", "hinge"}
    loss.backward()
    assert model.queries.grad.abs().sum() > 0
    with pytest.raises(HowmError, match=r"slots\.kind must be slot_attention here, got balanced"):
        configure("cswm-slots", "cpu", {"model": {"slots": {"kind": "balanced"}}})
