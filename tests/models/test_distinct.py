"""Equal rows computed once give what computing all of them gives."""

import pytest
import torch

from howm.models.distinct import DistinctMLP, distinct_rows
from howm.models.mlp import MLP


def both(seed: int = 0) -> tuple[DistinctMLP, MLP]:
    torch.manual_seed(seed)
    ours, plain = DistinctMLP(6, 32, 4), MLP(6, 32, 4)
    plain.load_state_dict(ours.state_dict())
    return ours, plain


@pytest.mark.parametrize("kinds", [1, 7, 400], ids=["all equal", "few kinds", "nearly all differ"])
def test_values_and_gradients_are_those_of_the_mlp(kinds):
    ours, plain = both()
    x = torch.randn(kinds, 6)[torch.randint(kinds, (60, 5))]
    for one, other in zip(_gradients(ours, x), _gradients(plain, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def _gradients(mlp: MLP, x: torch.Tensor) -> list[torch.Tensor]:
    out = mlp(x)
    (out * torch.linspace(0, 1, out.numel()).view_as(out)).sum().backward()
    return [out, *(parameter.grad for parameter in mlp.parameters() if parameter.grad is not None)]


def test_each_kind_is_computed_once(monkeypatch):
    ours, _ = both()
    seen = []
    compute = MLP.with_first
    monkeypatch.setattr(MLP, "with_first", lambda self, x, *layer: seen.append(len(x)) or compute(self, x, *layer))
    x = torch.randn(7, 6)[torch.arange(300) % 7]
    ours(x.view(60, 5, 6))
    assert seen == [7]
    ours.eval()(x)
    assert seen == [7, 300]  # evaluation computes every row


def test_gradients_reach_inputs_that_need_them():
    ours, plain = both()
    x = torch.randn(1, 6).repeat(20, 1)
    grads = []
    for mlp in (ours, plain):
        leaf = x.clone().requires_grad_()
        mlp(leaf).square().sum().backward()
        grads.append(leaf.grad)
    assert torch.equal(*grads)


def test_kinds_are_found_in_any_order_and_zeros_of_both_signs_are_kept_apart():
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [2.0, 3.0], [0.0, 1.0], [0.0, 1.0], [2.0, 3.0], [2.0, 3.0]])
    found = distinct_rows(x)
    assert found is not None
    first, index = found
    assert sorted(first.tolist()) == [0, 1, 2]
    assert torch.equal(x[first][index], x)
    assert distinct_rows(torch.randn(10, 3)) is None


def test_rows_that_share_a_hash_are_still_told_apart(monkeypatch):
    monkeypatch.setattr("howm.models.distinct._FACTOR", 0)  # every row has the hash 0
    ours, plain = both()
    x = torch.randn(3, 6)[torch.arange(30) % 3]
    assert distinct_rows(x) is None
    assert torch.equal(ours(x), plain(x))
