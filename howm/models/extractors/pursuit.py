"""Explaining a picture by the fewest sprites: matching pursuit, and fine tuning of where they lie."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.models.extractors.placement import Patches, Picture

_NEVER = -1e9


def pursue(
    pictures: Picture, background: Picture, patches: Patches, depth: Float[Tensor, "B M"] | None, rounds: int
) -> tuple[Int[Tensor, "B rounds"], Float[Tensor, "B rounds"]]:
    """Choose sprites one by one, each time the one that lowers the squared error most, and by how much it does.

    Without ``depth`` sprites are added up; with it, every candidate is judged where its depth puts it: in front of
    some of those chosen before and behind the others.
    """
    judge = _Added(pictures, background, patches) if depth is None else _Painted(pictures, background, patches, depth)
    row = torch.arange(len(pictures), device=pictures.device)
    used = torch.zeros(patches.index.shape[:2], dtype=torch.bool, device=pictures.device)
    chosen, gains = [], []
    for _ in range(rounds):
        best = judge.gains().masked_fill(used, _NEVER).max(dim=1)
        judge.add(best.indices)
        chosen.append(best.indices)
        gains.append(best.values)
        used[row, best.indices] = True
    return torch.stack(chosen, dim=1), torch.stack(gains, dim=1)


class _Added:
    """|r - d|² = |r|² - (2 r·d - |d|²), where r is what is left of the picture and d what a sprite changes."""

    def __init__(self, pictures: Picture, background: Picture, patches: Patches) -> None:
        inside = patches.within(torch.ones_like(pictures[:, :1]))
        values = patches.values
        self.change = (values[:, :, :3] - values[:, :, 3:] * patches.within(background)) * inside
        self.energy = self.change.square().sum(dim=(2, 3))
        self.index = patches.index
        self.left = patches.canvas(pictures - background)

    def gains(self) -> Float[Tensor, "B M"]:
        at = self.index.flatten(1).unsqueeze(1).expand(-1, 3, -1)
        here = self.left.gather(2, at).view(len(at), 3, *self.index.shape[1:]).transpose(1, 2)
        return 2 * (here * self.change).sum(dim=(2, 3)) - self.energy

    def add(self, chosen: Int[Tensor, " B"]) -> None:
        row = torch.arange(len(chosen), device=chosen.device)
        at = self.index[row, chosen].unsqueeze(1).expand(-1, 3, -1)
        self.left = self.left.scatter_add(2, at, -self.change[row, chosen])


class _Painted:
    """A sprite at its depth changes the picture by T (c - α B): B is what lies behind it, T what those before let pass.

    All of this is computed within the candidates' patches only.
    """

    def __init__(self, pictures: Picture, background: Picture, patches: Patches, depth: Float[Tensor, "B M"]) -> None:
        self.patches, self.depth = patches, depth
        self.ground, self.target = patches.within(background), patches.within(pictures)
        self.inside = patches.within(torch.ones_like(pictures[:, :1]))
        self.chosen: list[Tensor] = []  # what each chosen sprite shows in all patches
        self.depths: list[Tensor] = []

    def gains(self) -> Float[Tensor, "B M"]:
        behind, before, clear = self.ground, torch.zeros_like(self.ground), torch.ones_like(self.inside)
        if self.chosen:
            chosen, depths = torch.stack(self.chosen, dim=1), torch.stack(self.depths, dim=1)
            row = torch.arange(len(chosen), device=chosen.device)
            for j in depths.argsort(dim=1, descending=True).t():  # from far to near
                sprite = chosen[row, j]
                colour, cover = sprite[:, :, :3], sprite[:, :, 3:]
                deeper = (depths[row, j, None] > self.depth)[:, :, None, None]
                behind = torch.where(deeper, behind * (1 - cover) + colour, behind)
                before = torch.where(deeper, before, before * (1 - cover) + colour)
                clear = torch.where(deeper, clear, clear * (1 - cover))
        left = self.target - before - clear * behind
        change = clear * (self.patches.values[:, :, :3] - self.patches.values[:, :, 3:] * behind)
        return (self.inside * (2 * left - change) * change).sum(dim=(2, 3))

    def add(self, chosen: Int[Tensor, " B"]) -> None:
        alone = self.patches.take(chosen.unsqueeze(1)).sum()
        self.chosen.append(self.patches.within(alone))
        self.depths.append(self.depth.gather(1, chosen.unsqueeze(1)).squeeze(1))


def refine(
    position: Float[Tensor, "B M 2"],
    draw: Callable[[Float[Tensor, "B M 2"]], Picture],
    slopes: Float[Tensor, "B M 2 2"],
    pictures: Picture,
    steps: int,
    reach: float = 0.5,
) -> Float[Tensor, "B M 2"]:
    """Move sprites by fractions of a pixel to where the picture fits best: Gauss-Newton, sprite by sprite.

    ``slopes`` are the products of each sprite's derivatives by row and by column. A step of ``reach`` pixels at most
    is kept where it lowers the error of the frame.
    """

    best, least = position, torch.full_like(position[:, 0, 0], torch.inf)
    curvature = slopes + 0.02 * torch.eye(2, device=position.device)
    for step in range(steps + 1):
        last = step == steps  # is tried, and needs no gradient
        with torch.set_grad_enabled(not last):
            trial = position.detach().requires_grad_(not last)
            errors = (draw(trial) - pictures).square().sum(dim=(1, 2, 3))
            gradient = None if last else torch.autograd.grad(errors.sum(), trial)[0]
        better = errors.detach() < least
        best = torch.where(better[:, None, None], position, best)
        least = torch.where(better, errors.detach(), least)
        if gradient is not None:
            change = torch.linalg.solve(curvature, gradient.unsqueeze(-1)).squeeze(-1) / 2
            position = position - change.clamp(-reach, reach)
    return best
