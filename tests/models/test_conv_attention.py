"""Slot Attention on convolutions: the contract, what being invariant means, and that it learns."""

import numpy as np
import pytest
import torch

from howm import make_dataset
from howm.data.dataset import Amounts
from howm.errors import HowmError
from howm.models.check import check_extractor, check_model
from howm.models.extractors.conv_attention import ConvAttention, ConvAttentionConfig
from howm.models.registry import build_model
from howm.runs.config import configure
from howm.worlds.spec import WorldSpec

SPEC = WorldSpec(6, 3, 50, 50, None)


@pytest.mark.parametrize("frame", ["picture", "slot"])
def test_the_contract_is_kept(frame: str) -> None:
    assert check_extractor("conv_attention", SPEC) == []
    values = {"model": {"hidden": 8, "extractor": {"kind": "conv_attention", "frame": frame, "hidden": 8}}}
    config = configure("howm", "cpu", values, spec=SPEC).model
    assert config.state == "embedding"
    assert check_model(build_model("howm", SPEC, config, 0)) == []


def test_slots_in_their_own_frame_paint_the_same_wherever_they_are() -> None:
    torch.manual_seed(0)
    model = ConvAttention(WorldSpec(6, 3, 52, 52, None), ConvAttentionConfig(frame="slot"))
    slots = torch.randn(1, 4, model.slot_size)
    slots[..., -2:] = 0.0
    moved = slots.clone()
    moved[..., -2] += 2 * 2 / 12  # two places down
    before, after = model.draw(slots), model.draw(moved)
    torch.testing.assert_close(after[:, 8:], before[:, :-8], atol=1e-5, rtol=1e-5)


def test_reconstruction_improves() -> None:
    data = make_dataset("free", 6, 3, amounts=Amounts(train_episodes=30, train_steps=2, eval_episodes=4, eval_steps=1))
    pictures = torch.from_numpy(data.train.observe(np.arange(16), 0))
    torch.manual_seed(0)
    model = ConvAttention(SPEC, ConvAttentionConfig(frame="slot", hidden=32, iterations=3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        loss, _ = model(pictures)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.6 * losses[0]


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(HowmError, match="slot must be 3 or more, got 2"):
        ConvAttentionConfig(slot=2)
