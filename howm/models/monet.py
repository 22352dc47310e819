"""MONet(N)+BM: N slots of a MONet, a Σ_N GNN on its latents, bipartite matching in the loss, and no action binding.

MONet explains a picture slot by slot: an attention network says which part of what is left unexplained (the *scope*)
the next slot takes, and one VAE for all slots encodes and decodes that part. (Tables of "Model Architectures".)
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate, logsigmoid, pad

from howm.batches import Batch
from howm.errors import HowmError
from howm.losses import energy
from howm.models.align import Matching, matched_to
from howm.models.bind import factored
from howm.models.extract import split_cells, unit
from howm.models.transition import GNNTransition
from howm.models.worldmodel import State, WorldModel, WorldSpec, full_precision


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

    def __post_init__(self) -> None:
        for name in ("latent", "channels", "hidden"):
            if getattr(self, name) < 1:
                raise HowmError(f"{name}={getattr(self, name)} is too small; give 1 or more")
        for name in ("beta", "gamma"):
            if not 0 <= getattr(self, name) < math.inf:
                raise HowmError(f"{name}={getattr(self, name)} is no weight; give 0 or more")
        for name in ("background_deviation", "object_deviation"):
            if not 0 < getattr(self, name) < math.inf:
                raise HowmError(f"{name}={getattr(self, name)} is no deviation; give a number above 0")


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
            nn.Linear(flat, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, flat), nn.ReLU()
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
        self.see = nn.Conv2d(3, channels, spec.cell_pixels, stride=spec.cell_pixels)
        self.down = nn.Conv2d(channels + 1, wide, 1)
        self.middle = nn.Sequential(
            nn.Linear(wide * cells, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, wide * cells)
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


class MONet(nn.Module):
    """Masks, latents and reconstruction; ``forward`` gives the loss by which it is trained.

    A mask has one number for each *element* of a picture: a pixel, or a cell of p × p pixels. Colours have the shape
    (B, slots, elements, 3p²), pictures likewise.
    """

    def __init__(self, spec: WorldSpec, config: MONetConfig) -> None:
        super().__init__()
        self.spec, self.config = spec, config
        self.slots = spec.n + config.background_slot
        pixels = spec.cell_pixels
        whole = config.resolution == "pixels"
        self.scale = 1 if whole else pixels  # pixels along an element
        self.rows, self.columns = spec.height // self.scale, spec.width // self.scale
        self.attention: UNet | CellAttention
        self.attention = UNet(config.channels) if whole else CellAttention(spec, config.channels, self.slots)
        # The encoder's first layer. It sees a slot's mask beside the picture; a mask of cells also covers the picture.
        self.see = nn.Conv2d(4, 32, pixels, stride=pixels)
        channels = spec.n if whole else config.channels
        self.encoder = nn.Sequential(
            nn.ReLU(),
            nn.BatchNorm2d(32),
            nn.Conv2d(32, channels, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * spec.cells, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, 2 * config.latent),
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
                nn.Linear(config.latent, config.hidden),
                nn.ReLU(),
                nn.Linear(config.hidden, config.hidden),
                nn.ReLU(),
                nn.Linear(config.hidden, 3 * pixels**2 + spec.cells),
            )
        places = torch.meshgrid(torch.linspace(-1, 1, self.rows), torch.linspace(-1, 1, self.columns), indexing="ij")
        self.register_buffer("places", torch.stack(places, dim=2).flatten(0, 1))
        deviations = [config.background_deviation] + [config.object_deviation] * (self.slots - 1)
        self.register_buffer("deviations", torch.tensor(deviations).view(1, -1, 1))

    places: Float[Tensor, "elements 2"]
    deviations: Tensor

    def log_masks(self, picture: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B S elements"]:
        """Slot by slot, each takes a part of what is left; the last takes all the rest."""
        log_scope = torch.zeros(len(picture), 1, self.rows, self.columns, device=picture.device, dtype=picture.dtype)
        seen = self.attention.look(picture)
        masks = []
        for slot in range(self.slots - 1):
            logits = self.attention(seen, log_scope, slot)
            masks.append(log_scope + logsigmoid(logits))
            log_scope = log_scope + logsigmoid(-logits)
        return torch.cat([*masks, log_scope], dim=1).flatten(2)

    def latents(self, obs: Tensor) -> Float[Tensor, "B S latent"]:
        """The mean latent of every slot."""
        picture = _channels_first(obs)
        return self._encode(picture, self.log_masks(picture))[0]

    def _encode(self, picture: Tensor, log_masks: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log variances of the latents, (B, S, latent) each."""
        batch, slots = log_masks.shape[:2]
        masks = log_masks.exp().view(batch * slots, 1, self.rows, self.columns)
        weight, bias, stride = self.see.weight, self.see.bias, self.spec.cell_pixels
        assert bias is not None
        # The first layer is linear, so all slots share its view of the picture; one number per cell needs no filter.
        of_picture = conv2d(picture, weight[:, :3], stride=stride).repeat_interleave(slots, 0)
        if self.scale > 1:
            seen = masks * (of_picture + weight[:, 3:].sum(dim=(2, 3)).view(1, -1, 1, 1))
        else:
            seen = of_picture + conv2d(masks, weight[:, 3:], stride=stride)
        seen = seen + bias.view(1, -1, 1, 1)
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

    def forward(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        picture = _channels_first(obs)
        log_masks = self.log_masks(picture)
        mean, log_variance = self._encode(picture, log_masks)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        colours, log_decoded = self.decode(mean + noise * (log_variance / 2).exp())

        truth = split_cells(unit(obs), self.scale).unsqueeze(1)
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

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        """How much of each pixel each slot explains."""
        masks = self.log_masks(_channels_first(obs)).exp().view(len(obs), self.slots, self.rows, self.columns)
        return masks.repeat_interleave(self.scale, 2).repeat_interleave(self.scale, 3)


def _channels_first(obs: Tensor) -> Float[Tensor, "B 3 H W"]:
    return unit(obs).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class MONetBMConfig:
    monet: MONetConfig = field(default_factory=MONetConfig)
    hidden: int = 512
    matching: ClassVar[bool] = True  # slots with slots, which makes each reference dear

    def __post_init__(self) -> None:
        if self.hidden < 1:
            raise HowmError(f"hidden={self.hidden} is too small; give 1 or more")


class MONetBM(Matching, WorldModel):
    """Slot n is told the actions of object n, whatever it holds: slots are matched to slots, never to actions."""

    def __init__(self, spec: WorldSpec, config: MONetBMConfig) -> None:
        super().__init__()
        self.n = spec.n
        self.monet = MONet(spec, config.monet)
        self.slots = self.monet.slots
        self.transition = GNNTransition(config.monet.latent, 4, config.hidden)

    @property
    def representation(self) -> nn.Module | None:
        return self.monet

    def represent(self, obs: Tensor) -> Float[Tensor, "B S latent"]:
        return obs if obs.dim() == 3 else full_precision(self.monet.latents(obs))

    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> State:
        return State(self.represent(obs))

    def step(self, state: State, action: Int[Tensor, "B"]) -> State:
        told = pad(factored(action, self.n), (0, 0, self.slots - self.n, 0))  # a background slot comes first
        return State(state.slots + full_precision(self.transition(state.slots, told.to(state.slots.dtype))))

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        return self.monet.masks(obs)

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The latents are frozen, so nothing can collapse and no negatives are needed: matched prediction error."""
        current, following = self.represent(batch.obs), self.represent(batch.next_obs)
        predicted = self.step(State(current), batch.action).slots
        positive = energy(predicted, matched_to(predicted, following)).mean()
        return positive, {"positive": positive.detach()}
