"""The one MLP form of the paper's tables."""

from torch import nn


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
