"""Cells that are made black while an extractor is trained, so that objects are seen without each other."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from howm import HowmError, WorldSpec, configure
from howm.models.cells import erase_cells, split_cells
from howm.models.extractors.monet import MONet
from howm.models.registry import build_model

PICTURES = torch.randint(1, 256, (40, 50, 50, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@given(st.floats(0, 1), st.sampled_from([5, 10, 25]), st.integers(0, 2**31))
def test_cells_are_erased_whole_or_not_at_all(share, side, seed):
    torch.manual_seed(seed)
    before, after = (split_cells(pictures, side) for pictures in (PICTURES, erase_cells(PICTURES, side, share)))
    gone = (after == 0).all(dim=2)
    assert torch.equal(after, before * ~gone.unsqueeze(2))
    assert abs(float(gone.float().mean()) - share) < 5 / gone.numel() ** 0.5


def test_the_preset_erases_where_every_scene_has_the_same_objects():
    def share(preset, spec):
        return configure("howm-paper", preset, spec=spec).model.extractor.erase

    assert share("cpu", WorldSpec(5, 5)) == 0.2
    assert share("cpu", WorldSpec(10, 5)) == 0
    assert share("cpu", WorldSpec(5, 5, varied_count=True)) == 0
    assert share("paper", WorldSpec(5, 5)) == 0


@pytest.mark.parametrize(("method", "group"), [("howm-paper", "extractor"), ("monet-bm", "monet")])
def test_pictures_are_erased_in_training_alone(method, group):
    def loss(erase, training):
        config = configure(method, "cpu", {"model": {group: {"erase": erase}}}, spec=WorldSpec(5, 5))
        torch.manual_seed(0)
        extractor = build_model(method, WorldSpec(5, 5), config.model, 0).extractor
        return extractor.train(training)(PICTURES)[0].item()

    assert loss(0.5, training=False) == loss(0.0, training=False)
    assert loss(0.5, training=True) != loss(0.0, training=True)


def test_a_share_beyond_one_is_refused():
    with pytest.raises(HowmError, match=r"erase must be in \[0, 1\], got 1.5"):
        configure("howm-paper", "cpu", {"model": {"extractor": {"erase": 1.5}}})


def test_erasing_falls_to_nothing_and_resumes_where_it_was():
    config = configure("monet-bm", "cpu", spec=WorldSpec(5, 5)).model.monet
    assert (config.erase, config.erase_steps) == (0.7, 1_000)
    assert configure("monet-bm", "cpu", spec=WorldSpec(10, 5)).model.monet.erase == 0
    monet = MONet(WorldSpec(5, 5), replace(config, erase=0.5, erase_steps=4))
    shares = [monet._erased() for _ in range(3)]
    again = MONet(WorldSpec(5, 5), monet.config)
    again.load_state_dict(monet.state_dict())
    shares += [again._erased() for _ in range(2)]
    assert shares == [0.375, 0.25, 0.125, 0.0, 0.0]
