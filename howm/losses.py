"""The contrastive loss of C-SWM."""

import torch
from jaxtyping import Float
from torch import Tensor

SIGMA = 0.5


def energy(a: Float[Tensor, "B S D"], b: Float[Tensor, "B S D"]) -> Float[Tensor, "B"]:
    """H = 1/(2σ²) · sum of squared distances over slots / number of slots."""
    squared: Tensor = (a - b).square().sum(dim=(1, 2))
    return squared / (2 * SIGMA**2 * a.shape[1])


def contrastive(
    predicted: Float[Tensor, "B S D"],
    following: Float[Tensor, "B S D"],
    current: Float[Tensor, "B S D"],
    negative: Float[Tensor, "B S D"],
    margin: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """H(prediction, next) + max(0, γ - H(current, negative)), and both terms for the log."""
    positive = energy(predicted, following).mean()
    hinge = torch.relu(margin - energy(current, negative)).mean()
    return positive + hinge, {"positive": positive.detach(), "hinge": hinge.detach()}
