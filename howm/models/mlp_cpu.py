"""The hidden layers of an MLP on the CPU: fewer passes over memory, faster products."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from howm.models.product_cpu import product


class NormalizedLayer(torch.autograd.Function):
    """N(relu(x Wᵀ + b)) for rows x, where N normalises each row without scale and shift."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        y = product(x, weight, bias, relu=True)
        mean = y.mean(dim=1, keepdim=True)
        out = y - mean
        rstd = inverse_deviation(out, eps, out=torch.empty_like(mean))
        ctx.save_for_backward(x, weight, y, mean, rstd)
        return out.mul_(rstd)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y, mean, rstd = ctx.saved_tensors
        wanted = [True, False, False]
        shape = y.shape[1:]
        d, _, _ = torch.ops.aten.native_layer_norm_backward(grad.contiguous(), y, shape, mean, rstd, None, None, wanted)
        relu_backward(y, d)
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        d_x = product(d, weight.t()) if needs_x else None
        d_weight = product(d.t(), x.t()) if needs_weight else None
        return d_x, d_weight, d.sum(dim=0) if needs_bias else None, None


def inverse_deviation(centred: Tensor, eps: float, out: Tensor) -> Tensor:
    """1 / sqrt(variance + eps) of rows whose mean is zero."""
    torch.linalg.vector_norm(centred, dim=1, keepdim=True, out=out)
    return out.square_().div_(centred.shape[1]).add_(eps).rsqrt_()


def relu_backward(result: Tensor, grad: Tensor) -> None:
    """In place; `result` is what relu gave."""
    torch.ops.aten.threshold_backward.grad_input(grad, result, 0, grad_input=grad)
