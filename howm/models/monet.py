"""MONet(N)+BM: N slots of a MONet, a Σ_N GNN on its latents, bipartite matching in the loss, and no action binding.

MONet explains a picture slot by slot: an attention network says which part of what is left unexplained (the *scope*)
the next slot takes, and one VAE for all slots encodes and decodes that part. (Tables of "Model Architectures".)
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import interpolate, logsigmoid, pad

from howm.batches import Batch
from howm.errors import HowmError
from howm.losses import energy
from howm.models.align import MATCHED_REFERENCES, matched_distance, matched_to
from howm.models.bind import factored
from howm.models.extract import unit
from howm.models.transition import GNNTransition
from howm.models.worldmodel import State, WorldModel, WorldSpec, full_precision


@dataclass(frozen=True)
class MONetConfig:
    """Defaults are the paper's; ``resolution="cells"`` attends and decodes cell by cell instead of pixel by pixel."""

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

    SIZES = (
        25,
        15,
        10,
        5,
    )  # after each of the first four blocks; the table's bottleneck of 1600 = 64 · 5 · 5 asks for 5

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

    def forward(self, picture: Float[Tensor, "B 3 H W"], log_scope: Float[Tensor, "B 1 H W"]) -> Tensor:
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
    """Attention over cells: what a cell holds, and what its neighbours hold."""

    def __init__(self, spec: WorldSpec, channels: int) -> None:
        super().__init__()
        self.see = nn.Conv2d(3, channels, spec.cell_pixels, stride=spec.cell_pixels)
        self.net = nn.Sequential(_block(channels + 1, 2 * channels), nn.Conv2d(2 * channels, 1, 1))

    def forward(self, picture: Float[Tensor, "B 3 H W"], log_scope: Float[Tensor, "B 1 h w"]) -> Tensor:
        logits: Tensor = self.net(torch.cat([torch.relu(self.see(picture)), log_scope], dim=1))
        return logits


class MONet(nn.Module):
    """Masks, latents and reconstruction; ``forward`` gives the loss by which it is trained."""

    def __init__(self, spec: WorldSpec, config: MONetConfig) -> None:
        super().__init__()
        self.spec, self.config = spec, config
        self.slots = spec.n + config.background_slot
        pixels = spec.cell_pixels
        self.rows, self.columns = spec.height // pixels, spec.width // pixels
        whole = config.resolution == "pixels"
        self.scale = 1 if whole else pixels  # pixels along a mask's element
        self.attention: nn.Module = UNet(config.channels) if whole else CellAttention(spec, config.channels)
        self.encoder = nn.Sequential(
            nn.Conv2d(4, 32, pixels, stride=pixels),
            nn.ReLU(),
            nn.BatchNorm2d(32),
            nn.Conv2d(32, spec.n, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(spec.n * spec.cells, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, 2 * config.latent),
        )
        inputs = config.latent + 2
        self.decoder: nn.Module
        if whole:
            self.decoder = nn.Sequential(
                nn.Conv2d(inputs, 16, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 16, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 4, 1),
            )
        else:  # 1x1 convolutions on the grid: every cell is painted from the latent and its place
            self.decoder = nn.Sequential(
                nn.Conv2d(inputs, 64, 1),
                nn.ReLU(),
                nn.Conv2d(64, 64, 1),
                nn.ReLU(),
                nn.Conv2d(64, 3 * pixels**2 + 1, 1),
            )
        rows, columns = spec.height // self.scale, spec.width // self.scale
        places = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
        self.register_buffer("places", torch.stack(places))
        deviations = [config.background_deviation] + [config.object_deviation] * (self.slots - 1)
        self.register_buffer("deviations", torch.tensor(deviations).view(1, -1, 1, 1))

    places: Tensor
    deviations: Tensor

    def log_masks(self, picture: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B S h w"]:
        """Slot by slot, each takes a part of what is left; the last takes all the rest."""
        log_scope = torch.zeros(len(picture), 1, *self.places.shape[1:], device=picture.device)
        masks = []
        for _ in range(self.slots - 1):
            logits = self.attention(picture, log_scope)
            masks.append(log_scope + logsigmoid(logits))
            log_scope = log_scope + logsigmoid(-logits)
        return torch.cat([*masks, log_scope], dim=1)

    def latents(self, obs: Tensor) -> Float[Tensor, "B S latent"]:
        """The mean latent of every slot."""
        picture = _channels_first(obs)
        return self._encode(picture, self.log_masks(picture))[0]

    def _encode(self, picture: Tensor, log_masks: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log variances of the latents, (B, S, latent) each."""
        batch, slots = log_masks.shape[:2]
        masks = log_masks.exp().repeat_interleave(self.scale, 2).repeat_interleave(self.scale, 3)
        seen = torch.cat([picture.unsqueeze(1).expand(-1, slots, -1, -1, -1), masks.unsqueeze(2)], dim=2)
        moments: Tensor = self.encoder(seen.flatten(0, 1)).view(batch, slots, -1)
        mean, log_variance = moments.chunk(2, dim=2)
        return mean, log_variance.clamp(-10, 10)

    def decode(self, latents: Float[Tensor, "B S latent"]) -> tuple[Tensor, Tensor]:
        """Colours (B, S, 3, H, W) and log masks (B, S, h, w) that the latents stand for."""
        batch, slots, _ = latents.shape
        _, rows, columns = self.places.shape
        wide = latents.flatten(0, 1)[:, :, None, None].expand(-1, -1, rows, columns)
        painted: Tensor = self.decoder(torch.cat([wide, self.places.expand(len(wide), -1, -1, -1)], dim=1))
        colours, logits = painted[:, :-1], painted[:, -1]
        if self.scale > 1:
            p = self.scale
            colours = (
                colours.view(-1, p, p, 3, rows, columns).permute(0, 3, 4, 1, 5, 2).reshape(-1, 3, rows * p, columns * p)
            )
        logits = logits.view(batch, slots, rows, columns)
        return torch.sigmoid(colours).view(batch, slots, 3, *colours.shape[2:]), logits.log_softmax(dim=1)

    def forward(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        picture = _channels_first(obs)
        log_masks = self.log_masks(picture)
        mean, log_variance = self._encode(picture, log_masks)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        colours, log_decoded = self.decode(mean + noise * (log_variance / 2).exp())

        wide = log_masks.repeat_interleave(self.scale, 2).repeat_interleave(self.scale, 3)
        squared = (colours - picture.unsqueeze(1)).square().sum(dim=2)
        constant = 3 * (self.deviations.log() + 0.5 * math.log(2 * math.pi))
        log_density = squared / (-2 * self.deviations.square()) - constant
        likelihood = torch.logsumexp(wide + log_density, dim=1).sum(dim=(1, 2)).mean()
        latent = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(dim=(1, 2)).mean()
        masks = (log_masks.exp() * (log_masks - log_decoded)).sum(dim=(1, 2, 3)).mean() * self.scale**2
        loss = -likelihood + self.config.beta * latent + self.config.gamma * masks
        with torch.no_grad():
            drawn = (wide.exp().unsqueeze(2) * colours).sum(dim=1)
            error = (drawn - picture).square().mean()
        return loss, {"reconstruction": error, "latent_kl": latent.detach(), "mask_kl": masks.detach()}

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        """How much of each pixel each slot explains."""
        masks = self.log_masks(_channels_first(obs)).exp()
        return masks.repeat_interleave(self.scale, 2).repeat_interleave(self.scale, 3)


def _channels_first(obs: Tensor) -> Float[Tensor, "B 3 H W"]:
    return unit(obs).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class MONetBMConfig:
    monet: MONetConfig = field(default_factory=MONetConfig)
    hidden: int = 512

    def __post_init__(self) -> None:
        if self.hidden < 1:
            raise HowmError(f"hidden={self.hidden} is too small; give 1 or more")


class MONetBM(WorldModel):
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

    @property
    def most_references(self) -> int:
        return MATCHED_REFERENCES

    def distance(
        self, predictions: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"]
    ) -> Float[Tensor, "*b P T"]:
        return matched_distance(predictions, references, self.slots)

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"]:
        return self.monet.masks(obs)

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The latents are frozen, so nothing can collapse and no negatives are needed: matched prediction error."""
        current, following = self.represent(batch.obs), self.represent(batch.next_obs)
        predicted = self.step(State(current), batch.action).slots
        positive = energy(predicted, matched_to(predicted, following)).mean()
        return positive, {"positive": positive.detach()}
