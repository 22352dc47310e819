"""Matrix products on the CPU.

torch takes float32 products from MKL. oneDNN, which is part of torch as well, was twice as fast on an AMD processor
with AVX-512, which MKL seems not to use there.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

# Below as many multiplications, preparing the kernel costs more than it saves.
_SMALL_PRODUCT = 2**20


def product(
    x: Float[Tensor, "M K"], weight: Float[Tensor, "N K"], bias: Float[Tensor, "N"] | None = None, relu: bool = False
) -> Float[Tensor, "M N"]:
    """x Wᵀ + b, and relu of it. Not differentiable."""
    if _by_onednn(x, weight):
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "relu" if relu else "none", [], "")
        return out
    out = torch.mm(x, weight.t()) if bias is None else torch.addmm(bias, x, weight.t())
    return out.relu_() if relu else out


def product_plus(
    x: Float[Tensor, "M K"], weight: Float[Tensor, "N K"], plus: Float[Tensor, "M N"]
) -> Float[Tensor, "M N"]:
    """x Wᵀ + plus, which may be overwritten. Not differentiable."""
    if _by_onednn(x, weight):
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, plus, weight, None, "add")
        return out
    return plus.addmm_(x, weight.t())


class Linear(nn.Linear):
    """`nn.Linear`, by the products above where they apply."""

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        return fast_linear(x, self.weight, self.bias)


def fast_linear(
    x: Float[Tensor, "*b I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "*b O"]:
    """`torch.nn.functional.linear`, by the products above where they apply."""
    rows = x.reshape(-1, x.shape[-1])
    plain = x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
    if plain or weight.dtype != x.dtype or not _by_onednn(rows, weight):
        return linear(x, weight, bias)
    out: Tensor = _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], len(weight))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        d_x = product(grad, weight.t()) if needs_x else None
        d_weight = product(grad.t(), x.t()) if needs_weight else None
        return d_x, d_weight, grad.sum(dim=0) if needs_bias else None


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    large = x.shape[0] * weight.numel() > _SMALL_PRODUCT
    return _ONEDNN and large and x.dtype == torch.float32 and bool(torch.backends.mkldnn.enabled)


_ONEDNN = (
    torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)
