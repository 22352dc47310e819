"""Matrix products on the CPU.

torch takes float32 products from MKL. oneDNN, which is part of torch as well, was twice as fast on an AMD processor
with AVX-512, which MKL seems not to use there.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, relu

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


def two_layers(
    x: Float[Tensor, "*b I"], first: nn.Linear, weight: Float[Tensor, "O H"], bias: Float[Tensor, " O"]
) -> Float[Tensor, "*b O"]:
    """W relu(first(x)) + b: by the products above where no gradient is asked for."""
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled() or x.device.type != "cpu" or not _by_onednn(rows, first.weight):
        return linear(relu(first(x)), weight, bias)
    return product(product(rows, first.weight, first.bias, relu=True), weight, bias).view(*x.shape[:-1], -1)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    large = x.shape[0] * weight.numel() > _SMALL_PRODUCT
    return _ONEDNN and large and x.dtype == torch.float32 and bool(torch.backends.mkldnn.enabled)


_ONEDNN = (
    torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)
