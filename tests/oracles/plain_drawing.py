"""Slow twins of how sprites are painted, blended and moved: in whole pictures, and by automatic differentiation."""

import torch
from torch import Tensor

from howm.models.extractors.placement import Patches, place


def painted(patches: Patches, background: Tensor, depth: Tensor) -> Tensor:
    alone = patches.pictures()
    pictures = []
    for b, depths in enumerate(depth):
        picture = background[b]
        for j in depths.argsort(descending=True):
            picture = picture * (1 - alone[b, j, 3]) + alone[b, j, :3]
        pictures.append(picture)
    return torch.stack(pictures)


def blended(patches: Patches, background: Tensor, depth: Tensor) -> Tensor:
    alone = patches.pictures()
    colour, cover = alone[:, :, :3], alone[:, :, 3]
    before = torch.sigmoid(depth[:, :, None] - depth[:, None, :])  # [i, j]: how much j is nearer than i
    before = before * (1 - torch.eye(depth.shape[1]))
    clear = (1 - before[..., None, None] * cover[:, None]).prod(dim=2)
    return (colour * clear.unsqueeze(2)).sum(dim=1) + (1 - cover).prod(dim=1).unsqueeze(1) * background


def refined(
    pictures: Tensor, background: Tensor, rgba: Tensor, position: Tensor, depth: Tensor | None, steps: int
) -> Tensor:
    """Gauss-Newton with the gradient of the whole picture's error."""
    change = rgba[:, :, :3] - rgba[:, :, 3:] * background.mean(dim=(2, 3))[:, None, :, None, None]
    down, right = torch.diff(change, dim=3)[..., :-1], torch.diff(change, dim=4)[..., :-1, :]
    by_axis = torch.stack([down, right], dim=2).flatten(3)
    curvature = by_axis @ by_axis.transpose(2, 3) + 0.02 * torch.eye(2)
    tried = []
    for _ in range(steps + 1):
        trial = position.detach().requires_grad_()
        patches = place(rgba, trial, pictures.shape[2:])
        drawn = patches.added(background) if depth is None else painted(patches, background, depth)
        errors = (drawn - pictures).square().sum(dim=(1, 2, 3))
        tried.append((errors.detach(), position))
        gradient = torch.autograd.grad(errors.sum(), trial)[0]
        position = position - (torch.linalg.solve(curvature, gradient.unsqueeze(-1)).squeeze(-1) / 2).clamp(-0.5, 0.5)
    best = torch.stack([errors for errors, _ in tried]).argmin(dim=0)
    return torch.stack([tried[best[b]][1][b] for b in range(len(best))])
