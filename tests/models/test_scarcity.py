"""Finding objects whose number is not known, on backgrounds that are not known: what training does step by step."""

import numpy as np
import pytest
import torch

from howm.models.extractors.anchors import Anchors, AnchorsConfig
from howm.models.extractors.proposals import sigmoid_with_sum
from howm.models.extractors.scarcity import WARMUP, counted, emptiest, scarce, totals_at_first
from howm.worlds.object_world import ObjectWorld

TINY = ObjectWorld(n=4, size=(30, 30), cells=(3, 3))


def frames(k: int, count: int) -> torch.Tensor:
    rng = np.random.default_rng(0)
    scenes = np.stack([np.sort(rng.choice(4, k, replace=False)) for _ in range(count)])
    return torch.from_numpy(TINY.render(scenes, TINY.reset(scenes, rng)))


def test_objects_are_counted_up_to_the_first_that_explains_too_little() -> None:
    gains = torch.tensor([[9.0, 4.0, 0.1, 5.0], [8.0, 7.0, 6.0, 5.0], [0.1, 0.0, -3.0, -4.0]])
    assert counted(gains, 3.0).tolist() == [[2], [4], [1]]


def test_presence_is_scarce_but_for_some_pictures_and_never_beyond_the_bound() -> None:
    count = torch.tensor([[2], [2], [4], [1], [4]])
    assert scarce(count, 4).tolist() == [[3.0], [1.5], [3.5], [0.5], [4.0]]
    assert totals_at_first(0, 8) == 1
    assert totals_at_first(WARMUP, 8) == 3
    assert totals_at_first(WARMUP, 1) == 1


def test_every_picture_can_have_a_sum_of_its_own() -> None:
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(0), requires_grad=True)
    totals = torch.tensor([[0.5], [2.0], [7.5]])
    found = sigmoid_with_sum(logits, totals)
    torch.testing.assert_close(found.sum(dim=1, keepdim=True), totals)
    for row in range(1, 3):
        if float(totals[row]).is_integer():
            torch.testing.assert_close(found[row : row + 1], sigmoid_with_sum(logits[row : row + 1], int(totals[row])))


@pytest.mark.parametrize("low", [0.5, 2.0])
def test_the_threshold_lies_between_what_is_left_and_objects(low: float) -> None:
    generator = torch.Generator().manual_seed(1)
    left, objects = low * torch.rand(500, generator=generator), 8 + 40 * torch.rand(500, generator=generator)
    assert low < emptiest(torch.cat([left, objects]), 3.0) < 8


def test_few_presences_come_first_and_are_then_counted() -> None:
    model = Anchors(TINY.spec(3), AnchorsConfig(hidden=8, candidates=6, presence="prior"))
    pictures = frames(2, 4)
    _, logs = model(pictures)
    assert model.trained == 1
    assert logs["count"] == 1
    model.trained.fill_(WARMUP)
    _, logs = model(pictures)
    assert 1 <= logs["count"] <= 3
    model.eval()(pictures)
    assert model.trained == WARMUP + 1  # evaluation does not count


def test_backgrounds_of_pictures_fade_in() -> None:
    torch.manual_seed(0)
    model = Anchors(TINY.spec(2), AnchorsConfig(hidden=8, candidates=6, background="picture", background_warmup=10))
    torch.nn.init.normal_(model.correction[-1].weight)
    x = frames(2, 3).permute(0, 3, 1, 2).float() / 255

    def correction(step: int) -> torch.Tensor:
        model.trained.fill_(step)
        return model.propose(x)[1] - model.learned_background

    assert not correction(0).any()
    assert not correction(10).any()
    torch.testing.assert_close(2 * correction(15), correction(20))
    torch.testing.assert_close(correction(100), correction(20))
    assert correction(20).abs().max() > 0
