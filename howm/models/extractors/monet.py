"""MONet: recurrent attention masks and a VAE of each component."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate, logsigmoid

from howm.config import require_least, require_positive, require_share, validate
from howm.models.cells import erase_cells, join_cells, split_cells, unit
from howm.models.extractors.base import Extractor
from howm.models.product_cpu import Linear
from howm.worlds.spec import WorldSpec


@dataclass(frozen=True)
class MONetConfig:
    """Defaults are the paper's; ``resolution="cells"`` has masks of cells instead of pixels, and smaller networks."""

    latent: int = 4
    resolution: Literal["pixels", "cells"] = "pixels"
    background_slot: bool = False  # N+1 slots: with N, none is left for the background where N = K
    channels: int = 32  # of the attention network's first layers; its later ones have twice as many
    hidden: int = 512  # of the encoder
    background_deviation: float = 0.09  # of pixels in the first slot
    object_deviation: float = 0.11
    beta: float = 0.5
    gamma: float = 0.5
    erase: float = 0.0  # the share of cells that are made black in training, so that objects are seen without others
    erase_steps: int = 0  # training steps in which that share falls to nothing; 0: it stays

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "latent", "channels", "hidden")
        require_least(self, 0, "beta", "gamma", "erase_steps")
        require_positive(self, "background_deviation", "object_deviation")
        require_share(self, "erase")


class UNet(nn.Module):
    """Attention over pixels: down to 5 x 5, a small MLP, and up again with skips."""

    SIZES = (25, 15, 10, 5)  # after each of the first four blocks; the bottleneck of 1600 = 64 · 5 · 5 asks for 5

    def __init__(self, channels: int) -> None:
        super().__init__()
        down = (channels, channels, 2 * channels, 2 * channels, 2 * channels)
        up = (2 * channels, 2 * channels, channels, channels, channels)
        self.down = nn.ModuleList(_block(a, b) for a, b in zip((4, *down), down, strict=False))
        below = (down[-1], *up)
        self.up = nn.ModuleList(_block(a + b, c) for a, b, c in zip(below, reversed(down), up, strict=False))
        flat = down[-1] * self.SIZES[-1] ** 2
        self.middle = nn.Sequential(
            Linear(flat, 128), nn.ReLU(), Linear(128, 128), nn.ReLU(), Linear(128, flat), nn.ReLU()
        )
        self.last = nn.Conv2d(up[-1], 1, 1)

    def look(self, picture: Float[Tensor, "B 3 H W"]) -> Tensor:
        return picture

    def forward(self, picture: Float[Tensor, "B 3 H W"], log_scope: Float[Tensor, "B 1 H W"], slot: int) -> Tensor:
        x, kept = torch.cat([picture, log_scope], dim=1), []
        for i, block in enumerate(self.down):
            x = block(x)
            kept.append(x)
            if i < len(self.SIZES):
                x = interpolate(x, size=(self.SIZES[i], self.SIZES[i]), mode="nearest")
        x = self.middle(x.flatten(1)).view_as(x)
        for block, skip in zip(self.up, reversed(kept), strict=True):
            x = block(torch.cat([interpolate(x, size=skip.shape[2:], mode="nearest"), skip], dim=1))
        logits: Tensor = self.last(x)
        return logits


def _block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(outputs))


class CellAttention(nn.Module):
    """The lowest level of the U-Net alone: attention over cells, with the MLP through which they see each other.

    At first all slots take equal parts, but each has a taste of its own: slots that look alike would stay alike. There
    is no batch norm: a pass of training sees all slots, and what it would learn of their mean fits none of them.
    """

    odds: Tensor  # with which each takes its part of what those before it left

    def __init__(self, spec: WorldSpec, channels: int, slots: int) -> None:
        super().__init__()
        wide, cells = 2 * channels, spec.cells
        self.tastes = nn.Parameter(torch.randn(slots - 1, wide, 1, 1))
        self.register_buffer("odds", -torch.arange(slots - 1, 0, -1).float().log())
        self.see = nn.Conv2d(3, channels, spec.grid_pixels, stride=spec.grid_pixels)
        self.down = nn.Conv2d(channels + 1, wide, 1)
        self.middle = nn.Sequential(
            Linear(wide * cells, 128), nn.ReLU(), Linear(128, 128), nn.ReLU(), Linear(128, wide * cells)
        )
        self.up = nn.Sequential(nn.Conv2d(2 * wide, wide, 1), nn.ReLU(), nn.Conv2d(wide, 1, 1))

    def look(self, picture: Float[Tensor, "B 3 H W"]) -> Tensor:
        """What does not depend on the scope, once for all slots."""
        return torch.relu(self.see(picture))

    def forward(self, seen: Float[Tensor, "B C h w"], log_scope: Float[Tensor, "B 1 h w"], slot: int) -> Tensor:
        x = torch.relu(self.down(torch.cat([seen, log_scope.clamp(min=-10)], dim=1)) + self.tastes[slot])
        around = self.middle(x.flatten(1)).view_as(x)
        logits: Tensor = self.up(torch.cat([x, torch.relu(around)], dim=1))
        return logits + self.odds[slot]


class MONet(Extractor):
    """Masks, latents and reconstruction; ``forward`` gives the loss by which it is trained.

    A mask has one number for each *element* of a picture: a pixel, or a cell of p × p pixels. Colours have the shape
    (B, slots, elements, 3p²), pictures likewise.
    """

    Config: ClassVar[type[Any]] = MONetConfig

    def __init__(self, spec: WorldSpec, config: MONetConfig) -> None:
        super().__init__()
        self.spec, self.config = spec, config
        self.slot_size, self.num_slots = config.latent, spec.n + config.background_slot
        pixels = spec.grid_pixels
        whole = config.resolution == "pixels"
        self.scale = 1 if whole else pixels  # pixels along an element
        self.rows, self.columns = spec.height // self.scale, spec.width // self.scale
        self.attention: UNet | CellAttention
        self.attention = UNet(config.channels) if whole else CellAttention(spec, config.channels, self.num_slots)
        # The encoder's first layer sees a slot's mask beside the picture. With masks of cells, it sees the mean of what
        # a mask covers, and the mask: what an object looks like need not be learned anew for every cell.
        self.see = nn.Conv2d(4 if whole else 3, 32, pixels, stride=pixels)
        first = [nn.ReLU(), nn.BatchNorm2d(32), nn.Conv2d(32, spec.n, 1), nn.ReLU(), nn.Flatten()] if whole else []
        self.encoder = nn.Sequential(
            *first,
            Linear(spec.n * spec.cells if whole else 32 + spec.cells, config.hidden),
            nn.ReLU(),
            Linear(config.hidden, config.hidden),
            nn.ReLU(),
            Linear(config.hidden, 2 * config.latent),
        )
        self.decoder: nn.Module
        if whole:
            self.decoder = nn.Sequential(
                nn.Conv2d(config.latent + 2, 16, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 16, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 4, 1),
            )
        else:  # a slot paints the same into all cells, and its mask says into which
            self.decoder = nn.Sequential(
                Linear(config.latent, config.hidden),
                nn.ReLU(),
                Linear(config.hidden, config.hidden),
                nn.ReLU(),
                Linear(config.hidden, 3 * pixels**2 + spec.cells),
            )
        places = torch.meshgrid(torch.linspace(-1, 1, self.rows), torch.linspace(-1, 1, self.columns), indexing="ij")
        self.register_buffer("places", torch.stack(places, dim=2).flatten(0, 1))
        deviations = [config.background_deviation] + [config.object_deviation] * (self.num_slots - 1)
        self.register_buffer("deviations", torch.tensor(deviations).view(1, -1, 1))
        if config.erase_steps:
            # Training steps so far. They are saved with the weights, so that a run resumes exactly.
            self.register_buffer("trained", torch.zeros((), dtype=torch.int64))

    places: Float[Tensor, "elements 2"]
    deviations: Tensor
    trained: Tensor

    def log_masks(self, picture: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B S elements"]:
        """Slot by slot, each takes a part of what is left; the last takes all the rest."""
        log_scope = torch.zeros(len(picture), 1, self.rows, self.columns, device=picture.device, dtype=picture.dtype)
        seen = self.attention.look(picture)
        masks = []
        for slot in range(self.num_slots - 1):
            logits = self.attention(seen, log_scope, slot)
            masks.append(log_scope + logsigmoid(logits))
            log_scope = log_scope + logsigmoid(-logits)
        return torch.cat([*masks, log_scope], dim=1).flatten(2)

    def slots(self, pictures: Tensor) -> Float[Tensor, "B S latent"]:
        """The mean latent of every slot."""
        picture = _channels_first(pictures)
        return self._encode(picture, self.log_masks(picture))[0]

    def _encode(self, picture: Tensor, log_masks: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log variances of the latents, (B, S, latent) each."""
        batch, slots = log_masks.shape[:2]
        masks = log_masks.exp()
        if self.scale > 1:
            cells = torch.relu(self.see(picture)).flatten(2)
            content = torch.softmax(log_masks, dim=2) @ cells.transpose(1, 2)
            seen = torch.cat([content, masks], dim=2).flatten(0, 1)
        else:  # the first layer is linear, so all slots share its view of the picture
            weight, bias, stride = self.see.weight, self.see.bias, self.spec.grid_pixels
            assert bias is not None
            of_picture = conv2d(picture, weight[:, :3], stride=stride).repeat_interleave(slots, 0)
            alone = masks.view(batch * slots, 1, self.rows, self.columns)
            seen = of_picture + conv2d(alone, weight[:, 3:], stride=stride) + bias.view(1, -1, 1, 1)
        moments: Tensor = self.encoder(seen).view(batch, slots, -1)
        mean, log_variance = moments.chunk(2, dim=2)
        return mean, log_variance.clamp(-10, 10)

    def decode(self, latents: Float[Tensor, "B S latent"]) -> tuple[Tensor, Tensor]:
        """Colours (B, S, elements, 3p²) and log masks (B, S, elements) that the latents stand for."""
        elements = len(self.places)
        if self.scale > 1:
            painted: Tensor = self.decoder(latents)
            patch, logits = painted[..., :-elements].sigmoid(), painted[..., -elements:]
            colours = patch.unsqueeze(2).expand(-1, -1, elements, -1)
        else:
            wide = latents.unsqueeze(2).expand(-1, -1, elements, -1)
            inputs = torch.cat([wide, self.places.to(latents.dtype).expand(*latents.shape[:2], -1, -1)], dim=3)
            maps = inputs.flatten(0, 1).transpose(1, 2).reshape(-1, inputs.shape[3], self.rows, self.columns)
            painted = self.decoder(maps).flatten(2).transpose(1, 2).view(*latents.shape[:2], elements, -1)
            colours, logits = painted[..., :-1].sigmoid(), painted[..., -1]
        return colours, logits.log_softmax(dim=1)

    def forward(self, pictures: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.training and self.config.erase:
            pictures = erase_cells(pictures, self.spec.grid_pixels, self._erased())
        picture = _channels_first(pictures)
        log_masks = self.log_masks(picture)
        mean, log_variance = self._encode(picture, log_masks)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        colours, log_decoded = self.decode(mean + noise * (log_variance / 2).exp())

        truth = split_cells(unit(pictures), self.scale).unsqueeze(1)
        area = self.scale**2  # an element counts as so many pixels that are alike: those of a cell have its mean
        squared = (colours - truth).square().sum(dim=3) / area
        constant = 3 * (self.deviations.log() + 0.5 * math.log(2 * math.pi))
        log_density = squared / (-2 * self.deviations.square()) - constant
        likelihood = torch.logsumexp(log_masks + log_density, dim=1).sum(dim=1).mean() * area
        latent = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(dim=(1, 2)).mean()
        masks = (log_masks.exp() * (log_masks - log_decoded)).sum(dim=(1, 2)).mean() * area
        loss = -likelihood + self.config.beta * latent + self.config.gamma * masks
        with torch.no_grad():
            drawn = torch.einsum("bse,bsec->bec", log_masks.exp(), colours)
            error = (drawn - truth.squeeze(1)).square().mean()
        return loss, {"reconstruction": error, "latent_kl": latent.detach(), "mask_kl": masks.detach()}

    def _erased(self) -> float:
        """The share of cells to erase now; a training step is counted."""
        if not self.config.erase_steps:
            return self.config.erase
        self.trained += 1
        return self.config.erase * max(0.0, 1 - int(self.trained) / self.config.erase_steps)

    def attention_masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        """How much of each pixel each slot explains."""
        return self._in_pixels(self.log_masks(_channels_first(pictures)).exp())

    def masks(self, slots: Float[Tensor, "B S latent"]) -> Float[Tensor, "B S H W"]:
        """The masks that the decoder reads off the latents, which follow those of the attention."""
        return self._in_pixels(self.decode(slots)[1].exp())

    def draw(self, slots: Float[Tensor, "B S latent"]) -> Float[Tensor, "B H W 3"]:
        colours, log_masks = self.decode(slots)
        drawn = torch.einsum("bse,bsec->bec", log_masks.exp(), colours)
        return join_cells(drawn, self.spec.height, self.spec.width, self.scale)

    def _in_pixels(self, masks: Float[Tensor, "B S elements"]) -> Float[Tensor, "B S H W"]:
        grid = masks.view(*masks.shape[:2], self.rows, self.columns)
        return grid.repeat_interleave(self.scale, 2).repeat_interleave(self.scale, 3)


def _channels_first(pictures: Tensor) -> Float[Tensor, "B 3 H W"]:
    return unit(pictures).permute(0, 3, 1, 2)
