"""Explaining a picture by the fewest sprites: matching pursuit, and fine tuning of where they lie."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.models.extractors.placement import Patches, Picture, displaced, place

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

    With r sprites chosen, there are r + 1 pictures of the deepest 0 ... r of them, and as many of what the others let
    pass: each candidate reads those that fit to its depth, within its patch.
    """

    def __init__(self, pictures: Picture, background: Picture, patches: Patches, depth: Float[Tensor, "B M"]) -> None:
        self.patches, self.depth = patches, depth
        self.target = patches.within(pictures)
        self.inside = patches.within(torch.ones_like(pictures[:, :1]))
        self.ground = patches.canvas(background.expand(len(pictures), -1, -1, -1))
        self.chosen: list[Tensor] = []

    def gains(self) -> Float[Tensor, "B M"]:
        behind, clear = [self.ground], [torch.ones_like(self.ground[:, :1])]
        deeper = torch.zeros_like(self.depth, dtype=torch.int64)
        if self.chosen:
            chosen = torch.stack(self.chosen, dim=1)
            depths = self.depth.gather(1, chosen)
            deeper = (depths[:, None, :] > self.depth[:, :, None]).sum(dim=2)
            order = chosen.gather(1, depths.argsort(dim=1, descending=True)).t()  # from far to near
            for nearer in order:
                behind.append(self._over(behind[-1], nearer))
            for farther in order.flip(0):
                clear.append(self._over(clear[-1], farther, light=True))
        left = self.target - self._read([behind[-1]], torch.zeros_like(deeper))
        through = self._read(clear[::-1], deeper)
        sprite = self.patches.values
        change = through * (sprite[:, :, :3] - sprite[:, :, 3:] * self._read(behind, deeper))
        return (self.inside * (2 * left - change) * change).sum(dim=(2, 3))

    def _over(self, canvas: Float[Tensor, "B C area"], j: Int[Tensor, " B"], light: bool = False) -> Tensor:
        """A sprite painted over a canvas; of light, what it lets pass."""
        row = torch.arange(len(j), device=j.device)
        at = self.patches.index[row, j].unsqueeze(1).expand(-1, canvas.shape[1], -1)
        values = self.patches.values[row, j]
        kept = canvas.gather(2, at) * (1 - values[:, 3:])
        return canvas.scatter(2, at, kept if light else kept + values[:, :3])

    def _read(self, canvases: list[Tensor], which: Int[Tensor, "B M"]) -> Float[Tensor, "B M C pixels"]:
        """In the place of each patch, the canvas of its number."""
        area, channels = canvases[0].shape[2], canvases[0].shape[1]
        at = (self.patches.index + area * which.unsqueeze(2)).flatten(1).unsqueeze(1).expand(-1, channels, -1)
        seen = torch.cat(canvases, dim=2).gather(2, at)
        return seen.view(len(seen), channels, *self.patches.index.shape[1:]).transpose(1, 2)

    def add(self, chosen: Int[Tensor, " B"]) -> None:
        self.chosen.append(chosen)


def refine(
    pictures: Picture,
    background: Picture,
    rgba: Float[Tensor, "B M 4 q q"],
    position: Float[Tensor, "B M 2"],
    depth: Float[Tensor, "B M"] | None,
    steps: int,
    reach: float = 0.5,
) -> Float[Tensor, "B M 2"]:
    """Move sprites by fractions of a pixel to where the picture fits best: Gauss-Newton, sprite by sprite.

    A step of ``reach`` pixels at most is kept where it lowers the error of the frame.
    """
    inverse = _inverse(_slopes(rgba, background) + 0.02 * torch.eye(2, device=position.device))
    best, least = position, torch.full_like(position[:, 0, 0], torch.inf)
    for step in range(steps + 1):
        patches = place(rgba, position, (pictures.shape[2], pictures.shape[3]))
        if depth is None:
            drawn, behind = patches.added(background), patches.within(background)
        else:
            drawn, behind = patches.layered(background, depth)
        left = drawn - pictures
        errors = left.square().sum(dim=(1, 2, 3))
        better = errors < least
        best = torch.where(better[:, None, None], position, best)
        least = torch.where(better, errors, least)
        if step == steps:  # the last is tried, and needs no gradient
            break
        here = patches.within(left)
        if depth is not None:
            here = here * patches.clear(depth)
        by_value = torch.cat([here, -(here * behind).sum(dim=2, keepdim=True)], dim=2)
        gradient = (displaced(rgba, position) * by_value.unsqueeze(2)).sum(dim=(3, 4))
        change = (inverse @ gradient.unsqueeze(-1)).squeeze(-1)
        position = position - change.clamp(-reach, reach)
    return best


def _slopes(rgba: Float[Tensor, "B M 4 q q"], background: Picture) -> Float[Tensor, "B M 2 2"]:
    """Products of each sprite's derivatives by row and by column, where it stands out from the ground."""
    ground = background.mean(dim=(2, 3))[:, None, :, None, None]
    change = rgba[:, :, :3] - rgba[:, :, 3:] * ground
    down, right = torch.diff(change, dim=3)[..., :-1], torch.diff(change, dim=4)[..., :-1, :]
    by_axis = torch.stack([down, right], dim=2).flatten(3)
    return by_axis @ by_axis.mT


def _inverse(x: Float[Tensor, "B M 2 2"]) -> Float[Tensor, "B M 2 2"]:
    """Of symmetric matrices; many small ones cost LAPACK more than all the rest of `refine`."""
    (a, b), (_, d) = (row.unbind(-1) for row in x.unbind(-2))
    swapped = torch.stack([torch.stack([d, -b], dim=-1), torch.stack([-b, a], dim=-1)], dim=-2)
    return swapped / (a * d - b * b)[..., None, None]
