"""STOVE: what it infers explains the picture, its filter multiplies two Gaussians, and it keeps the contract."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

import howm
from howm.evaluation.segmentation import segmentation
from howm.models.registry import build_model
from howm.models.stove import STOVE, _Gaussian


@pytest.fixture(scope="module")
def data():
    return howm.make_dataset("shapes", n=4, k=2, amounts=howm.Amounts(60, 10, 40, 3))


def model_of(data, **settings) -> STOVE:
    config = howm.configure("stove", "cpu", {"model": {"hidden": 32, **settings}})
    return build_model("stove", data.spec, config.model, seed=0)


def random_gaussian() -> _Gaussian:
    return _Gaussian(torch.randn(3, 2, 5), torch.rand(3, 2, 5) + 0.1)


def test_the_filter_multiplies_densities():
    torch.manual_seed(0)
    seen, expected = random_gaussian(), random_gaussian()
    both = seen.times(expected)
    at = torch.randn(3, 2, 5), torch.randn(3, 2, 5)

    def density(gaussian: _Gaussian, x: torch.Tensor) -> torch.Tensor:
        return Normal(gaussian.mean, gaussian.deviation).log_prob(x)

    ratios = [density(both, x) - density(seen, x) - density(expected, x) for x in at]
    torch.testing.assert_close(*ratios, atol=1e-4, rtol=1e-4)  # equal but for one factor


def test_the_divergence_is_that_of_torch():
    torch.manual_seed(1)
    one, other = random_gaussian(), random_gaussian()
    expected = kl_divergence(Normal(one.mean, one.deviation), Normal(other.mean, other.deviation))
    torch.testing.assert_close(one.divergence(other), expected)


def test_it_keeps_the_contract(data):
    assert howm.check_model(model_of(data), data.spec) == []


def test_short_training_finds_the_objects(data, tmp_path):
    model = model_of(data)
    howm.fit(model, data, howm.TrainConfig(steps=150, batch=16, lr=2e-3, check_every=150), tmp_path)
    found = segmentation(model, data.eval)
    assert found is not None
    assert found.foreground_ari > 80
    first = torch.from_numpy(data.eval.observe(np.arange(4), 0)) / 255
    with torch.no_grad():
        state = model.eval().encode(first)
        error = (model.draw(state) - first).square().mean()
    assert error < 0.3 * first.square().mean()
    assert state.slots.shape == (4, 2, 2 + model.config.code)


def test_masks_leave_what_lies_below_to_the_rest(data):
    model = model_of(data).eval()
    with torch.no_grad():
        masks = model.masks(torch.from_numpy(data.eval.observe(np.arange(4), 0)))
    assert masks.shape == (4, 2, 50, 50)
    assert float(masks.min()) >= 0
    assert float(masks.sum(dim=1).max()) <= 1 + 1e-5


def test_bad_settings_are_one_line(data):
    with pytest.raises(howm.HowmError, match="deviation must be above 0, got 0"):
        model_of(data, deviation=0.0)
