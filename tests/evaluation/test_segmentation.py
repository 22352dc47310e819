"""Foreground ARI and matched IoU against known answers and a brute force over pairs and permutations."""

import itertools

import numpy as np
import pytest
import torch

from howm import WorldSpec, make_dataset
from howm.data.dataset import Amounts
from howm.errors import HowmError
from howm.evaluation.segmentation import contingency, foreground_ari, matched_iou, segmentation
from howm.models.distance import assignment, matched_distance
from howm.models.registry import build_model
from howm.runs.config import configure


def plain_ari(labels: np.ndarray, objects: np.ndarray) -> float:
    """By its definition: pairs of pixels that both partitions put together, against what chance would give."""
    pairs = list(itertools.combinations(range(len(labels)), 2))
    together = sum(labels[i] == labels[j] and objects[i] == objects[j] for i, j in pairs)
    ours, truth = (sum(x[i] == x[j] for i, j in pairs) for x in (labels, objects))
    chance = ours * truth / len(pairs)
    return (together - chance) / ((ours + truth) / 2 - chance)


@pytest.mark.parametrize("seed", range(5))
def test_ari_and_iou_are_what_their_definitions_say(seed):
    rng = np.random.default_rng(seed)
    objects, labels = rng.integers(-1, 3, size=40), rng.integers(4, size=40)  # -1: no object
    truth = (objects == np.arange(3)[:, None])[None]
    lit = objects >= 0
    found = foreground_ari(contingency(labels[None], truth, 4))[0]
    assert found == pytest.approx(plain_ari(labels[lit], objects[lit]))
    best = max(
        np.mean(
            [((labels == s) & truth[0, k]).sum() / ((labels == s) | truth[0, k]).sum() for k, s in enumerate(order)]
        )
        for order in itertools.permutations(range(4), 3)
    )
    assert matched_iou(labels[None], truth, 4)[0] == pytest.approx(best)


def test_the_true_partition_scores_one_and_a_single_mask_nothing():
    objects = np.repeat([0, 1, 2], 10)
    truth = (objects == np.arange(3)[:, None])[None]
    assert foreground_ari(contingency(2 - objects[None], truth, 5))[0] == 1
    assert matched_iou(2 - objects[None], truth, 5)[0] == 1
    hidden = np.concatenate([truth, np.zeros_like(truth[:, :1])], axis=1)  # an object behind others, or absent
    assert matched_iou(2 - objects[None], hidden, 5)[0] == 1
    assert foreground_ari(contingency(np.zeros((1, 30), dtype=int), truth, 5))[0] == 0


@pytest.mark.parametrize("slots", range(1, 7))
def test_matching_equals_brute_force_over_permutations(slots):
    torch.manual_seed(slots)
    a, b = torch.randn(3, slots * 2, dtype=torch.float64), torch.randn(4, slots * 2, dtype=torch.float64)
    found = matched_distance(a, b, slots)
    for i, j in itertools.product(range(3), range(4)):
        one, other = a[i].view(slots, 2), b[j].view(slots, 2)
        best = min((one - other[list(order)]).norm() for order in itertools.permutations(range(slots)))
        assert found[i, j] == pytest.approx(float(best))
    costs = torch.rand(5, slots, slots)
    for matrix, columns in zip(costs, assignment(costs), strict=True):
        best = min(matrix[range(slots), list(order)].sum() for order in itertools.permutations(range(slots)))
        assert matrix[range(slots), columns].sum() == pytest.approx(float(best))


def test_matching_broadcasts_over_batches_and_refuses_pools_that_take_hours():
    a, b = torch.randn(5, 1, 6, dtype=torch.float64), torch.randn(5, 3, 6, dtype=torch.float64)
    found = matched_distance(a, b, 3)
    assert found.shape == (5, 1, 3)
    assert torch.equal(found[2], matched_distance(a[2], b[2], 3))
    with pytest.raises(HowmError, match="`episodes=500`"):
        matched_distance(torch.zeros(1, 6), torch.zeros(2001, 6), 3)


class Seeing(torch.nn.Module):
    """Masks that are right: what is brighter than black belongs to the slot of its place in the scene."""

    def __init__(self, renderer, scene):
        super().__init__()
        self.colours = torch.tensor([renderer.library.objects[i].colour for i in scene])

    def masks(self, obs):
        own = (obs.unsqueeze(1) == self.colours.view(1, -1, 1, 1, 3)).all(dim=4).float()
        return torch.cat([own, 0.5 * torch.ones_like(own[:, :1])], dim=1)


def test_true_masks_score_a_hundred_and_models_have_masks():
    data = make_dataset(
        "shapes", 3, 3, amounts=Amounts(train_episodes=5, train_steps=2, eval_episodes=20, eval_steps=2)
    )
    found = segmentation(Seeing(data.world.renderer, [0, 1, 2]), data.eval, frames=50)
    assert (found.foreground_ari, found.matched_iou) == (100, 100)
    for name in ("howm", "cswm-n", "cswm-slots", "monet-bm"):
        model = build_model(name, WorldSpec(3, 3), configure(name, "cpu").model, seed=0)
        assert segmentation(model, data.eval, frames=20).foreground_ari < 100
        assert model.training
