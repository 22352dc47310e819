"""Sprites at continuous positions: small patches drawn by bilinear sampling, and pictures composed of them.

Positions are (row, column) in pixels; the centre of the first pixel is at 0.5. A sprite is premultiplied colour and
coverage, four channels of q × q texels a pixel apart. Only the pixels that a sprite can touch, its patch, are computed.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

Picture = Float[Tensor, "B 3 H W"]


@dataclass(frozen=True)
class Patches:
    """M sprites drawn in each of B pictures: their pixels, and where these lie in the picture with its margin."""

    values: Float[Tensor, "B M channels pixels"]
    index: Int[Tensor, "B M pixels"]
    margin: int
    size: tuple[int, int]

    def first(self, count: int) -> "Patches":
        return Patches(self.values[:, :count], self.index[:, :count], self.margin, self.size)

    def take(self, chosen: Int[Tensor, "B J"]) -> "Patches":
        """Some of the sprites of each picture."""
        row = torch.arange(len(chosen), device=chosen.device)[:, None]
        return Patches(self.values[row, chosen], self.index[row, chosen], self.margin, self.size)

    def weighted(self, weights: Float[Tensor, "B M"]) -> "Patches":
        """The same sprites, each only as much there as its weight."""
        return Patches(self.values * weights[:, :, None, None], self.index, self.margin, self.size)

    @property
    def _area(self) -> int:
        return (self.size[0] + 2 * self.margin) * (self.size[1] + 2 * self.margin)

    def _crop(self, canvas: Float[Tensor, "rows area channels"]) -> Float[Tensor, "rows channels H W"]:
        m, (height, width) = self.margin, self.size
        grid = canvas.view(len(canvas), height + 2 * m, width + 2 * m, canvas.shape[2])
        return grid[:, m : m + height, m : m + width].permute(0, 3, 1, 2)

    def canvas(self, pictures: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C area"]:
        """Pictures in a margin of nothing, as ``index`` counts pixels."""
        return pad(pictures, (self.margin,) * 4).flatten(2)

    def within(self, pictures: Float[Tensor, "B C H W"]) -> Float[Tensor, "B M C pixels"]:
        """What pictures show in the place of each patch."""
        index = self.index.flatten(1).unsqueeze(1).expand(-1, pictures.shape[1], -1)
        seen = self.canvas(pictures).gather(2, index)
        return seen.view(*pictures.shape[:2], *self.index.shape[1:]).transpose(1, 2)

    def sum(self) -> Float[Tensor, "B channels H W"]:
        """All sprites of a picture added up."""
        batch, _, channels, _ = self.values.shape
        rows = self.values.transpose(2, 3).reshape(-1, channels)
        total = rows.new_zeros(batch * self._area, channels).index_add(0, self._rows.flatten(), rows)
        return self._crop(total.view(batch, self._area, channels))

    @property
    def _rows(self) -> Int[Tensor, "B M pixels"]:
        """Where pixels lie among those of all pictures with their margins."""
        return self.index + torch.arange(len(self.index), device=self.index.device)[:, None, None] * self._area

    def pictures(self) -> Float[Tensor, "B M 4 H W"]:
        """Every sprite in a picture of its own."""
        alone = Patches(self.values.flatten(0, 1)[:, None], self.index.flatten(0, 1)[:, None], self.margin, self.size)
        return alone.sum().view(*self.values.shape[:2], 4, *self.size)

    def added(self, background: Picture) -> Picture:
        """Sprites that never overlap, over a background."""
        total = self.sum()
        return total[:, :3] + (1 - total[:, 3:]) * background

    def painted(self, background: Picture, depth: Float[Tensor, "B M"]) -> Picture:
        """Sprites over a background and over each other, the deepest first."""
        return self.layered(background, depth)[0]

    def layered(
        self, background: Picture, depth: Float[Tensor, "B M"]
    ) -> tuple[Picture, Float[Tensor, "B M 3 pixels"]]:
        """The painted picture, and what was there before each sprite, in the place of its patch."""
        batch = len(depth)
        canvas = self.canvas(background.expand(batch, -1, -1, -1)).transpose(1, 2).reshape(-1, 3)
        row = torch.arange(batch, device=depth.device)[:, None]
        order = depth.detach().argsort(dim=1, descending=True)
        values = self.values[row, order].permute(1, 0, 3, 2).to(canvas.dtype)
        painted, covered = _Paint.apply(canvas, values, self._rows[row, order].transpose(0, 1))  # type: ignore[no-untyped-call]
        behind = covered.permute(1, 0, 3, 2)[row, order.argsort(dim=1)]
        return self._crop(painted.view(batch, self._area, 3)), behind

    def clear(self, depth: Float[Tensor, "B M"]) -> Float[Tensor, "B M 1 pixels"]:
        """What nearer sprites let pass, in the place of each patch."""
        batch = len(depth)
        light = self.values.new_ones(batch * self._area)
        passes = torch.ones_like(self.values[:, :, 0])
        row = torch.arange(batch, device=depth.device)
        for j in depth.argsort(dim=1).t():
            at = self._rows[row, j].flatten()
            seen = light[at].view(batch, -1)
            passes[row, j] = seen
            light[at] = (seen * (1 - self.values[row, j, 3])).flatten()
        return passes.unsqueeze(2)

    def blended(self, background: Picture, depth: Float[Tensor, "B M"]) -> Picture:
        """As `painted` where depths are far apart; the nearer they are, the softer is the order, by which they get a
        gradient."""
        batch, count = depth.shape
        alone = self.values.new_zeros(batch, count, self._area).scatter(2, self.index, self.values[:, :, 3])
        before = torch.sigmoid(depth[:, :, None] - depth[:, None, :])  # [i, j]: how much j is nearer than i
        before = before * (1 - torch.eye(count, device=depth.device))
        at = self.index.flatten(1)
        clear, light = torch.ones_like(self.values[:, :, 0]), torch.ones_like(alone[:, 0])
        for cover, nearer in zip(alone.unbind(1), before.unbind(2), strict=True):
            clear = clear * (1 - nearer.unsqueeze(2) * cover.gather(1, at).view_as(clear))
            light = light * (1 - cover)
        seen = replace(self, values=self.values[:, :, :3] * clear.unsqueeze(2)).sum()
        return seen + self._crop(light.unsqueeze(2)) * background


class _Paint(torch.autograd.Function):
    """Sprites painted one after the other over canvases that lie in one row of pixels; gives what each of them covered,
    too. Painting in place is several times as fast as one copy of the canvases for each sprite."""

    @staticmethod
    def forward(
        ctx: Any,
        canvas: Float[Tensor, "all 3"],
        values: Float[Tensor, "M B pixels 4"],
        rows: Int[Tensor, "M B pixels"],
    ) -> tuple[Float[Tensor, "all 3"], Float[Tensor, "M B pixels 3"]]:
        canvas, parts = canvas.clone(), []
        for sprite, at in zip(values, rows.flatten(1), strict=True):
            behind = canvas.index_select(0, at).view_as(sprite[..., :3])
            canvas.index_copy_(0, at, (behind * (1 - sprite[..., 3:]) + sprite[..., :3]).flatten(0, 1))
            parts.append(behind)
        covered = torch.stack(parts) if parts else values[..., :3].clone()
        ctx.save_for_backward(values, rows, covered)
        ctx.mark_non_differentiable(covered)
        return canvas, covered

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
        values, rows, covered = ctx.saved_tensors
        upstream, slopes = upstream.clone(), torch.empty_like(values)
        parts = list(zip(values, rows.flatten(1), covered, slopes, strict=True))
        for sprite, at, behind, slope in reversed(parts):
            here = upstream.index_select(0, at).view_as(behind)
            slope[..., :3] = here
            slope[..., 3] = -(here * behind).sum(dim=2)
            upstream.index_copy_(0, at, (here * (1 - sprite[..., 3:])).flatten(0, 1))
        return upstream, slopes, None


def place(rgba: Float[Tensor, "B M 4 q q"], centre: Float[Tensor, "B M 2"], size: tuple[int, int]) -> Patches:
    """Draw sprites with their centres at these positions, which lie less than half a sprite outside the picture."""
    q, side = rgba.shape[-1], rgba.shape[-1] + 3
    corner = torch.floor(centre.detach()) - q // 2 - 1
    values = _sampled(rgba, *_hat(centre - corner, q, side).unbind(2))
    pixel = torch.arange(side, device=rgba.device)
    margin = q + 2
    limit = torch.tensor(size, device=rgba.device) + 2 * margin - side
    start = torch.minimum((corner.long() + margin).clamp_min(0), limit)
    row, column = (start[..., axis, None] + pixel for axis in (0, 1))
    index = row.unsqueeze(3) * (size[1] + 2 * margin) + column.unsqueeze(2)
    return Patches(values, index.flatten(2), margin, size)


def displaced(rgba: Float[Tensor, "B M 4 q q"], centre: Float[Tensor, "B M 2"]) -> Float[Tensor, "B M 2 4 pixels"]:
    """By how much the pixels of placed sprites change where these move down and to the right, per pixel."""
    q, side = rgba.shape[-1], rgba.shape[-1] + 3
    offset = centre - torch.floor(centre) + q // 2 + 1
    (rows, columns), gaps = _hat(offset, q, side).unbind(2), _gaps(offset, q, side)
    down, right = torch.where(gaps.abs() < 1, gaps.sign(), 0.0).unbind(2)
    return torch.stack([_sampled(rgba, down, columns), _sampled(rgba, rows, right)], dim=2)


def _sampled(
    rgba: Float[Tensor, "B M 4 q q"], rows: Float[Tensor, "B M side q"], columns: Float[Tensor, "B M side q"]
) -> Float[Tensor, "B M 4 pixels"]:
    """Texels summed up to pixels, with weights for each axis."""
    batch, count, side, q = rows.shape
    across = rows @ rgba.transpose(2, 3).reshape(batch, count, q, 4 * q)  # B M side 4q
    values = across.view(batch, count, side * 4, q) @ columns.transpose(2, 3)
    return values.view(batch, count, side, 4, side).transpose(2, 3).flatten(3)


def _hat(centre: Float[Tensor, "B M 2"], q: int, side: int) -> Float[Tensor, "B M 2 side q"]:
    """How much of each texel falls onto each pixel, along both axes."""
    return torch.relu(1 - _gaps(centre, q, side).abs())


def _gaps(centre: Float[Tensor, "B M 2"], q: int, side: int) -> Float[Tensor, "B M 2 side q"]:
    """From each texel to each pixel, along both axes."""
    texel = centre[..., None, None] + torch.arange(q, device=centre.device) - (q - 1) / 2
    return torch.arange(side, device=centre.device)[:, None] + 0.5 - texel
