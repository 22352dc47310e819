"""The one MLP form of the paper's tables."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from howm.models.mlp_cpu import NormalizedLayer

# Below as many numbers in a hidden layer, Python costs more than passes over memory.
_SMALL_LAYER = 2**14

Layers = tuple[nn.Linear, nn.LayerNorm, nn.Linear, nn.LayerNorm, nn.Linear]


class MLP(nn.Sequential):
    """Linear, ReLU, LayerNorm, Linear, ReLU, LayerNorm, Linear; no activation on the output."""

    def __init__(self, in_features: int, hidden: int, out_features: int) -> None:
        super().__init__(
            nn.Linear(in_features, hidden),
            nn.ReLU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, out_features),
        )

    @property
    def layers(self) -> Layers:
        """Those with weights."""
        linear1, _, norm1, linear2, _, norm2, linear3 = self
        return cast(Layers, (linear1, norm1, linear2, norm2, linear3))

    def forward(self, x: Float[Tensor, "*batch I"]) -> Float[Tensor, "*batch O"]:
        first = self.layers[0]
        return self.with_first(x, first.weight, first.bias)

    def with_first(
        self, x: Float[Tensor, "*batch I"], weight: Float[Tensor, "H I"], bias: Float[Tensor, " H"]
    ) -> Float[Tensor, "*batch O"]:
        """The MLP with other weights of its first layer."""
        _, norm1, middle, norm2, last = self.layers
        if not _fused(x, weight):
            hidden = norm1(relu(linear(x, weight, bias)))
            out: Tensor = last(norm2(relu(middle(hidden))))
            return out
        rows: Tensor = NormalizedLayer.apply(x.reshape(-1, x.shape[-1]), weight, bias, norm1.eps)  # type: ignore[no-untyped-call]
        rows = NormalizedLayer.apply(rows, *folded(norm1, middle), norm2.eps)  # type: ignore[no-untyped-call]
        return linear(rows, *folded(norm2, last)).view(*x.shape[:-1], last.out_features)


def folded(norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Float[Tensor, "O H"], Float[Tensor, " O"]]:
    """W, b with layer(norm(x)) = W N(x) + b, where N normalises without scale and shift."""
    return layer.weight * norm.weight, layer.bias + layer.weight @ norm.bias


def _fused(x: Tensor, weight: Tensor) -> bool:
    plain = torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
    exact = x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)
    large = x.numel() // x.shape[-1] * len(weight) >= _SMALL_LAYER
    return x.device.type == "cpu" and exact and large and not plain
