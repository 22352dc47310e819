"""Sprites at continuous positions: small patches drawn by bilinear sampling, and pictures composed of them.

Positions are (row, column) in pixels; the centre of the first pixel is at 0.5. A sprite is premultiplied colour and
coverage, four channels of q × q texels a pixel apart. Only the pixels that a sprite can touch, its patch, are computed.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

Picture = Float[Tensor, "B 3 H W"]


@dataclass(frozen=True)
class Patches:
    """M sprites drawn in each of B pictures: their pixels, and where these lie in the picture with its margin."""

    values: Float[Tensor, "B M 4 pixels"]
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

    def sum(self) -> Float[Tensor, "B 4 H W"]:
        """All sprites of a picture added up."""
        batch = len(self.values)
        start = torch.arange(batch, device=self.index.device)[:, None, None] * self._area
        rows = self.values.transpose(2, 3).reshape(-1, 4)
        total = rows.new_zeros(batch * self._area, 4).index_add(0, (self.index + start).flatten(), rows)
        return self._crop(total.view(batch, self._area, 4))

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
        batch = len(self.values)
        canvas = self.canvas(background.expand(batch, -1, -1, -1)).transpose(1, 2)
        row = torch.arange(batch, device=self.index.device)
        for j in depth.detach().argsort(dim=1, descending=True).t():
            at = self.index[row, j].unsqueeze(-1).expand(-1, -1, 3)
            values = self.values[row, j].transpose(1, 2)
            canvas = canvas.scatter(1, at, canvas.gather(1, at) * (1 - values[..., 3:]) + values[..., :3])
        return self._crop(canvas)

    def blended(self, background: Picture, depth: Float[Tensor, "B M"]) -> Picture:
        """As `painted` where depths are far apart; the nearer they are, the softer is the order, by which they get a
        gradient."""
        alone = self.pictures()
        colour, cover = alone[:, :, :3], alone[:, :, 3]
        before = torch.sigmoid(depth[:, :, None] - depth[:, None, :])  # [i, j]: how much j is nearer than i
        before = before * (1 - torch.eye(depth.shape[1], device=depth.device))
        clear = (1 - before[..., None, None] * cover[:, None]).prod(dim=2)
        return (colour * clear.unsqueeze(2)).sum(dim=1) + (1 - cover).prod(dim=1).unsqueeze(1) * background


def place(rgba: Float[Tensor, "B M 4 q q"], centre: Float[Tensor, "B M 2"], size: tuple[int, int]) -> Patches:
    """Draw sprites with their centres at these positions, which lie less than half a sprite outside the picture."""
    batch, count, _, q, _ = rgba.shape
    side = q + 3
    corner = torch.floor(centre.detach()) - q // 2 - 1
    rows, columns = _hat(centre - corner, q, side).unbind(2)
    across = rows @ rgba.transpose(2, 3).reshape(batch, count, q, 4 * q)  # B M side 4q
    values = across.view(batch, count, side * 4, q) @ columns.transpose(2, 3)
    values = values.view(batch, count, side, 4, side).transpose(2, 3).flatten(3)
    pixel = torch.arange(side, device=rgba.device)
    margin = q + 2
    limit = torch.tensor(size, device=rgba.device) + 2 * margin - side
    start = torch.minimum((corner.long() + margin).clamp_min(0), limit)
    row, column = (start[..., axis, None] + pixel for axis in (0, 1))
    index = row.unsqueeze(3) * (size[1] + 2 * margin) + column.unsqueeze(2)
    return Patches(values, index.flatten(2), margin, size)


def _hat(centre: Float[Tensor, "B M 2"], q: int, side: int) -> Float[Tensor, "B M 2 side q"]:
    """How much of each texel falls onto each pixel, along both axes."""
    texel = centre[..., None, None] + torch.arange(q, device=centre.device) - (q - 1) / 2
    return torch.relu(1 - (torch.arange(side, device=centre.device)[:, None] + 0.5 - texel).abs())
