"""Adam without the detours of `torch.optim`, which loads the compiler and looks at every weight anew at each step."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def _unwrapped(method: Any) -> Any:
    """A method as torch has it, but for a wrapper that imports torch._dynamo: more than a second at the start."""
    return getattr(method, "__wrapped__", method)


class FusedAdam(torch.optim.Adam):
    """Bit for bit `torch.optim.Adam(fused=True)` on the CPU, with the same state, for weights in one group."""

    add_param_group = _unwrapped(Optimizer.add_param_group)
    state_dict = _unwrapped(Optimizer.state_dict)
    load_state_dict = _unwrapped(Optimizer.load_state_dict)

    def __init__(self, params: Sequence[Tensor], lr: float, betas: tuple[float, float]) -> None:
        super().__init__(params, lr=lr, betas=betas, fused=True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        weights: list[Tensor] = [parameter for parameter in group["params"] if parameter.grad is not None]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        if not weights:
            return
        states = [self.state[weight] for weight in weights]
        for weight, state in zip(weights, states, strict=True):
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        means, squares, steps = ([state[key] for state in states] for key in ("exp_avg", "exp_avg_sq", "step"))
        beta1, beta2 = group["betas"]
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            weights, gradients, means, squares, [], steps, lr=group["lr"], beta1=beta1,
            beta2=beta2, weight_decay=0.0, eps=group["eps"], amsgrad=False, maximize=False,
        )  # fmt: skip
