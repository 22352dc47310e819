"""The contrastive loss of C-SWM, which is also HOWM's Aligned Loss when given lifted states."""

import torch
from jaxtyping import Float
from torch import Tensor

SIGMA = 0.5


def energy(
    a: Float[Tensor, "B S D"], b: Float[Tensor, "B S D"], sigma: float = SIGMA, objects: int | None = None
) -> Float[Tensor, "B"]:
    """H = 1/(2σ²) · sum of squared distances over slots / number of slots (or of ``objects``)."""
    squared: Tensor = (a - b).square().sum(dim=(1, 2))
    return squared / (2 * sigma**2 * (objects or a.shape[1]))


def contrastive(
    predicted: Float[Tensor, "B S D"],
    following: Float[Tensor, "B S D"],
    current: Float[Tensor, "B S D"],
    negative: Float[Tensor, "B S D"],
    margin: float,
    sigma: float = SIGMA,
    objects: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """H(prediction, next) + max(0, γ - H(current, negative)), and both terms for the log."""
    positive = energy(predicted, following, sigma, objects).mean()
    hinge = torch.relu(margin - energy(current, negative, sigma, objects)).mean()
    return positive + hinge, {"positive": positive.detach(), "hinge": hinge.detach()}
