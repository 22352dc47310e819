"""Our Adam is torch's, bit for bit."""

import subprocess
import sys
from copy import deepcopy

import torch
from torch import Tensor

from howm.training.adam import FusedAdam


def weights() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size, requires_grad=True) for size in (5, 7, 3)]


def set_gradients(params: list[Tensor], step: int) -> None:
    for i, param in enumerate(params):
        unused = (i == 1 and step < 3) or i == 2  # one takes no part at first, one never
        param.grad = None if unused else torch.sin(param.detach() * (step + 1))


def test_steps_and_state_are_those_of_torch():
    ours, theirs = weights(), weights()
    mine = FusedAdam(ours, lr=0.01, betas=(0.9, 0.98))
    reference = torch.optim.Adam(theirs, lr=0.01, betas=(0.9, 0.98), fused=True)
    for step in range(8):
        if step == 5:  # what is saved of one is taken up by another
            mine = FusedAdam(ours, lr=0.01, betas=(0.9, 0.98))
            mine.load_state_dict(deepcopy(reference.state_dict()))
        for params, optimizer in ((ours, mine), (theirs, reference)):
            optimizer.param_groups[0]["lr"] = 0.01 / (step + 1)
            set_gradients(params, step)
            optimizer.step()
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert mine.state_dict().keys() == reference.state_dict().keys()
    for one, other in zip(mine.state.values(), reference.state.values(), strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    mine.zero_grad()
    assert all(param.grad is None for param in ours)
    mine.step()  # without any gradient, nothing happens
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_a_run_loads_no_compiler(tmp_path):
    code = """
import sys
import howm
data = howm.make_dataset("shapes", n=5, k=2, amounts=howm.Amounts(20, 4, 10, 2))
short = {"represent": {"steps": 2}, "train": {"steps": 2}}
howm.train_run(howm.configure("howm", "cpu", short), data, sys.argv[1])
print(sorted({"torch._dynamo", "sympy", "torch.distributed.tensor"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
