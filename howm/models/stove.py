"""STOVE (Kossen et al., 2020), conditioned on actions: attend, infer, repeat; graph dynamics; filtering over frames.

What differs from the published model: the appearance of an object is a Gaussian code that a shared decoder draws as a
sprite, with a Gaussian likelihood of pixels, instead of a sum-product network; objects have no velocity, because one
picture says nothing of it and nothing here moves by itself; the recurrence is that of the unexplained rest.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import conv2d, softplus

from howm.config import require_least, require_positive, validate
from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch
from howm.models.binding import broadcast_actions
from howm.models.cells import unit
from howm.models.distance import assignment, matched
from howm.models.extractors.placement import Patches, Picture, place
from howm.models.product_cpu import Linear
from howm.models.transition import GNNTransition
from howm.models.world_model import Logs, SlotState, State, WorldModel, full_precision, slot_state
from howm.worlds.spec import WorldSpec

FEATURES = 64  # that are seen from a place
STRIDE = 4  # pixels between the places that can be attended
PIXELS_PER_UNIT = 2.5  # of positions in a slot


@dataclass(frozen=True)
class STOVEConfig:
    """``deviation`` is the standard deviation of a pixel."""

    hidden: int = 512
    code: int = 8
    sprite: int = 14  # side in pixels
    deviation: float = 0.1
    matching: ClassVar[bool] = True  # slots with slots, which limits the references

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "hidden", "code")
        require_least(self, 3, "sprite")
        require_positive(self, "deviation")


@dataclass(frozen=True)
class _Gaussian:
    """Independent Gaussians of all numbers of the slots."""

    mean: Float[Tensor, "B K D"]
    deviation: Float[Tensor, "B K D"]

    def sample(self) -> Float[Tensor, "B K D"]:
        return self.mean + self.deviation * torch.randn_like(self.mean)

    def times(self, other: "_Gaussian") -> "_Gaussian":
        """The normalised product of two densities: what both know."""
        one, two = self.deviation**-2, other.deviation**-2
        return _Gaussian((one * self.mean + two * other.mean) / (one + two), (one + two) ** -0.5)

    def divergence(self, other: "_Gaussian") -> Float[Tensor, "B K D"]:
        """KL(self || other)."""
        ratio = (self.deviation / other.deviation).square()
        return 0.5 * (ratio + ((self.mean - other.mean) / other.deviation).square() - 1 - ratio.log())


class STOVE(WorldModel):
    """K objects, each a position and a code; every object receives all actions, since nothing binds them."""

    spec: WorldSpec

    def __init__(self, spec: WorldSpec, config: STOVEConfig) -> None:
        super().__init__(spec)
        self.config, self.size = config, (spec.height, spec.width)
        self.metric = matched(spec.k)
        hidden, code = config.hidden, config.code
        self.glimpse = nn.Sequential(  # what is seen from each place: 26 x 26 pixels
            nn.Conv2d(3, 32, 4, 2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 48, 4, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, FEATURES, 3, padding=1),
            nn.ReLU(),
        )
        self.infer = nn.Sequential(Linear(FEATURES, hidden), nn.ReLU(), Linear(hidden, 2 * (2 + code)))
        texels = config.sprite**2
        self.sprite = nn.Sequential(Linear(code, hidden), nn.ReLU(), Linear(hidden, 4 * texels))
        self.background = nn.Parameter(torch.zeros(1, 3, *self.size))
        self.transition = GNNTransition(2 + code, spec.actions, hidden)
        self.noise = nn.Parameter(torch.full((2 + code,), -1.0))  # of the dynamics, before softplus

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> SlotState:
        return SlotState(full_precision(self._infer(unit(pictures).movedim(-1, 1))[0].mean))

    def step(self, state: State, action: Int[Tensor, " B"]) -> SlotState:
        state = slot_state(state)
        return replace(state, slots=self._predict(state.slots, action))

    def draw(self, state: State) -> Float[Tensor, "B H W 3"]:
        slots = slot_state(state).slots
        return self._paint(self._sprites(slots)).movedim(1, -1)

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"]:
        slots = self._infer(unit(pictures).movedim(-1, 1))[0].mean
        left = torch.ones(len(slots), 1, *self.size, device=slots.device)
        shown = []
        for alpha in reversed(self._sprites(slots).pictures()[:, :, 3:].unbind(1)):  # the last one lies on top
            shown.append(alpha * left)
            left = left * (1 - alpha)
        return torch.cat(shown[::-1], dim=1)

    def forward(self, batch: PictureBatch) -> tuple[Tensor, Logs]:
        """The negative ELBO of two frames, per number that describes a pixel."""
        pictures = unit(torch.cat([batch.obs, batch.next_obs])).movedim(-1, 1)
        seen, first_drawing = self._infer(pictures)
        (mean, next_mean), (deviation, next_deviation) = seen.mean.chunk(2), seen.deviation.chunk(2)
        now, then = _Gaussian(mean, deviation), _Gaussian(next_mean, next_deviation)
        start = now.sample()
        expected = _Gaussian(self._predict(start, batch.action), self._noise().expand_as(start))
        then = self._in_order_of(expected, then)
        filtered = then.times(expected)
        drawn = torch.cat([first_drawing[: len(start)], self._paint(self._sprites(filtered.sample()))])
        scale = 2 * self.config.deviation**2
        reconstruction = ((drawn - pictures).square() / scale).mean()
        # The first frame's own drawing was made of samples as well; positions have a flat prior.
        prior = _Gaussian(torch.zeros_like(now.mean), torch.ones_like(now.mean))
        numbers = pictures[0].numel() * 2
        appearance = now.divergence(prior)[..., 2:].sum(dim=(1, 2)).mean() / numbers
        dynamics = filtered.divergence(expected).sum(dim=(1, 2)).mean() / numbers
        loss = reconstruction + appearance + dynamics
        logs = {"reconstruction": reconstruction, "appearance": appearance, "dynamics": dynamics}
        return loss, {name: value.detach() for name, value in logs.items()}

    def _infer(self, pictures: Picture) -> tuple[_Gaussian, Picture]:
        """Attend to the least explained place, infer what is there, draw it, and repeat for each of K objects."""
        batch = len(pictures)
        features = self.glimpse(pictures)
        height, width = features.shape[2:]
        features = features.flatten(2).transpose(1, 2)
        window = pictures.new_ones(1, 1, 2 * STRIDE + 1, 2 * STRIDE + 1)
        canvas = self.background.expand(batch, -1, -1, -1)
        found: list[tuple[Tensor, Tensor]] = []
        for _ in range(self.spec.k):
            rest = (pictures - canvas.detach()).square().sum(dim=1, keepdim=True)
            local = conv2d(rest, window, stride=STRIDE, padding=STRIDE)[:, 0, :height, :width].flatten(1)
            least_explained = local.argmax(dim=1)
            centre = torch.stack([least_explained // width, least_explained % width], dim=1) * STRIDE + 0.5
            described = self.infer(features[torch.arange(batch, device=features.device), least_explained])
            offset, code, spread = described.split([2, self.config.code, 2 + self.config.code], dim=1)
            position = centre + STRIDE * torch.tanh(offset)
            mean = torch.cat([position / PIXELS_PER_UNIT, code], dim=1)
            deviation = softplus(spread - 2) + 1e-3
            found.append((mean, deviation))
            one = _Gaussian(mean.unsqueeze(1), deviation.unsqueeze(1))
            sprites = self._sprites(one.sample() if self.training else one.mean)
            canvas = sprites.painted(canvas, torch.zeros(batch, 1, device=canvas.device))
        means, deviations = (torch.stack(parts, dim=1) for parts in zip(*found, strict=True))
        return _Gaussian(means, deviations), canvas

    def _sprites(self, slots: Float[Tensor, "B K D"]) -> Patches:
        q = self.config.sprite
        colour, opacity = self.sprite(slots[..., 2:]).view(*slots.shape[:2], 4, q, q).split([3, 1], dim=2)
        alpha = torch.sigmoid(opacity - 1)
        limit = torch.tensor(self.size, device=slots.device)
        centre = torch.minimum((slots[..., :2] * PIXELS_PER_UNIT).clamp_min(0), limit)
        return place(torch.cat([torch.sigmoid(colour) * alpha, alpha], dim=2), centre, self.size)

    def _paint(self, sprites: Patches) -> Picture:
        batch = len(sprites.values)
        order = torch.arange(self.spec.k, 0, -1, device=self.background.device, dtype=self.background.dtype)
        return sprites.painted(self.background.expand(batch, -1, -1, -1), order.expand(batch, -1))

    def _predict(self, slots: Float[Tensor, "B K D"], action: Int[Tensor, " B"]) -> Float[Tensor, "B K D"]:
        actions = broadcast_actions(action, self.spec, slots.shape[1]).to(slots.dtype)
        return slots + full_precision(self.transition(slots, actions))

    def _noise(self) -> Float[Tensor, " D"]:
        return softplus(self.noise) + 1e-3

    def _in_order_of(self, expected: _Gaussian, seen: _Gaussian) -> _Gaussian:
        """What is seen in a frame, in the order of the objects that are expected there."""
        apart = torch.cdist(expected.mean.detach(), seen.mean.detach()).square()
        index = assignment(apart).unsqueeze(-1).expand_as(seen.mean)
        return _Gaussian(seen.mean.gather(1, index), seen.deviation.gather(1, index))
