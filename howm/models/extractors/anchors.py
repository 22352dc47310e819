"""Objects anywhere in the picture: a grid of anchors proposes sprites, and those that explain the picture become slots.

No grid of objects, no label and no action is used: the loss is that of reconstruction.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import interpolate, layer_norm

from howm.config import require_least, require_positive, validate
from howm.errors import HowmError
from howm.models.extractors.base import Extractor
from howm.models.extractors.layout import PIXELS_PER_UNIT, SlotLayout
from howm.models.extractors.memory import carry, match
from howm.models.extractors.placement import Patches, Picture, place
from howm.models.extractors.proposals import sigmoid_with_sum
from howm.models.extractors.pursuit import pursue, refine
from howm.models.extractors.scarcity import WARMUP, counted, emptiest, scarce, totals_at_first
from howm.models.product_cpu import Linear
from howm.worlds.spec import WorldSpec

STRIDE = 4  # pixels between anchors
AT_ONCE = 64  # pictures whose sprites fit into cache


@dataclass(frozen=True)
class AnchorsConfig:
    """``compose``: sprites that never overlap are added up; ``depth`` paints them over each other in a learned order.

    ``background`` is one learned picture, or that and a smooth correction for each ``picture``. The correction is left
    out in the first ``background_warmup`` steps of training and fades in over as many: at once, it would learn to show
    blurred objects, which sprites then never learn. With ``count=infer`` up to ``max_objects`` slots are filled, as
    many as lower the error by more than what `calibrate` found to be an object.

    ``presence=sum`` trains with K known: presences sum to it. With ``prior`` there are ``max_objects`` at most, and an
    object is what lowers the error by more than ``presence_cost``. ``pairs`` trains on two frames in a row: each has to
    be drawn with the codes of the other as well.
    """

    code: int = 16
    hidden: int = 128
    sprite: int = 14  # side of a sprite in pixels: that of the largest object, and a few more
    candidates: int = 16  # proposals that are drawn
    compose: Literal["add", "depth"] = "add"
    background: Literal["learned", "picture"] = "learned"
    background_warmup: int = 0
    count: Literal["given", "infer"] = "given"
    presence: Literal["sum", "prior"] = "sum"
    presence_cost: float = 1e-4  # of mean squared error; the smallest objects lower it by a few times as much
    pairs: bool = False
    max_objects: int = 0  # slots for objects; 0 for K
    explain_away: bool = True  # matching pursuit at inference; else the most present proposals are taken
    refine: int = 2  # steps by which positions are tuned at inference
    coverage_cost: float = 1e-3  # what opaque pixels cost, lest sprites cover what they look like anyway

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 3, "code", "sprite")
        require_least(self, 1, "hidden", "candidates")
        require_least(self, 0, "background_warmup", "max_objects", "refine", "coverage_cost")
        require_positive(self, "presence_cost")


@dataclass(frozen=True)
class _Proposals:
    """What A anchors propose; positions are in pixels, of the sprite's middle."""

    logit: Float[Tensor, "B A"]
    position: Float[Tensor, "B A 2"]
    depth: Float[Tensor, "B A"]
    code: Float[Tensor, "B A code"]

    def take(self, index: Int[Tensor, "B J"]) -> "_Proposals":
        row = torch.arange(len(index), device=index.device)[:, None]
        return _Proposals(*(getattr(self, name)[row, index] for name in ("logit", "position", "depth", "code")))


class Anchors(Extractor):
    """Every anchor proposes presence, offset, code and depth; a shared decoder draws one sprite for each code.

    In training presences sum to K, and the picture is drawn twice: softly, by the most present as much as they are
    present, and by the K most present in full. At inference matching pursuit chooses among the most present.
    """

    Config: ClassVar[type[Any]] = AnchorsConfig
    of_inference: ClassVar[frozenset[str]] = frozenset({"count", "max_objects", "explain_away", "refine"})
    has_background = True
    any_scene_size = True  # no weight depends on K
    layout: SlotLayout
    gain_threshold: Tensor
    anchors: Tensor
    trained: Tensor

    def __init__(self, spec: WorldSpec, config: AnchorsConfig) -> None:
        super().__init__()
        self.spec, self.config, self.k = spec, config, spec.k
        self.layout = SlotLayout(config.code)
        self.size = (spec.height, spec.width)
        self.max_objects = config.max_objects or spec.k
        self.slot_size, self.num_slots = self.layout.size, self.max_objects + 1
        self.trains_on_pairs = config.pairs
        self.candidates = max(config.candidates, self.max_objects, spec.k)
        shape = tuple((side // 2 - 1) // 2 + 1 for side in self.size)
        if self.candidates > shape[0] * shape[1]:
            raise HowmError(
                f"candidates={self.candidates} must be at most {shape[0] * shape[1]}, the anchors of a picture"
            )
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 48, 4, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 96, 3, padding=1),
            nn.ReLU(),
        )
        hidden = config.hidden
        self.head = nn.Sequential(
            nn.LayerNorm(96),
            Linear(96, hidden),
            nn.ReLU(),
            nn.LayerNorm(hidden),
            Linear(hidden, hidden),
            nn.ReLU(),
            Linear(hidden, 4 + config.code),
        )
        texels = config.sprite**2
        last = Linear(hidden, 4 * texels)
        self.sprite = nn.Sequential(Linear(config.code, hidden), nn.ReLU(), last)
        with torch.no_grad():
            last.bias[3 * texels :] = -1.0  # hardly opaque
        self.learned_background = nn.Parameter(torch.zeros(1, 3, *self.size))
        if config.background == "picture":
            points = nn.Conv2d(32, 3, 1)
            self.correction = nn.Sequential(nn.Conv2d(96, 32, 3, 2, padding=1), nn.ReLU(), points)
            nn.init.zeros_(points.weight)
        rows, columns = (STRIDE * torch.arange(count) + 1.0 for count in shape)
        self.register_buffer("anchors", torch.cartesian_prod(rows, columns), persistent=False)
        self.register_buffer("gain_threshold", torch.tensor(0.0))
        if config.background_warmup or config.presence == "prior":
            # Training steps so far. They are saved with the weights, so that a run resumes exactly.
            self.register_buffer("trained", torch.zeros((), dtype=torch.int64))

    def propose(self, pictures: Picture) -> tuple[_Proposals, Picture]:
        """What all anchors propose, and the background."""
        features = self.trunk(pictures)
        out = self.head(features.flatten(2).transpose(1, 2))
        position = self.anchors + 0.75 * STRIDE * torch.tanh(out[..., 1:3])
        code = layer_norm(out[..., 4:], (self.config.code,))
        background: Tensor = self.learned_background
        if self.config.background == "picture":
            coarse = self.correction(features)
            if self.config.background_warmup:
                coarse = coarse * (self.trained / self.config.background_warmup - 1).clamp(0, 1)
            background = background + interpolate(coarse, self.size, mode="bicubic", align_corners=True)
        return _Proposals(out[..., 0], position, out[..., 3], code), background.expand(len(pictures), -1, -1, -1)

    def rgba(self, code: Float[Tensor, "B M code"]) -> Float[Tensor, "B M 4 q q"]:
        """The sprite of each code: premultiplied colours and coverage."""
        q = self.config.sprite
        out = torch.sigmoid(self.sprite(code)).view(*code.shape[:-1], 4, q, q)
        alpha = out[..., 3:, :, :]
        return torch.cat([out[..., :3, :, :] * alpha, alpha], dim=-3)

    def _compose(self, patches: Patches, background: Picture, depth: Float[Tensor, "B M"]) -> Picture:
        if self.config.compose == "add":
            return patches.added(background)
        return patches.painted(background, depth)

    def forward(self, pictures: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Of pictures; with ``pairs``, of as many pictures and then those that follow them."""
        if self.training and "trained" in self._buffers:
            self.trained += 1
        x = _channels_first(pictures)
        proposals, background = self.propose(x)
        best = proposals.logit.topk(self.candidates, dim=1).indices
        drawn = proposals.take(best)
        patches = place(self.rgba(drawn.code), drawn.position, self.size)
        most, certain = self.k, None
        total: int | Tensor = self.k
        if self.config.presence == "prior":
            most = self.max_objects
            total, count = self._totals(x, background, patches, drawn.depth)
            certain = (torch.arange(most, device=x.device) < count).to(x.dtype)
        presence = sigmoid_with_sum(proposals.logit, total).gather(1, best)
        soft = self._compose(patches.weighted(presence), background, drawn.depth)
        chosen, depth = patches.first(most), drawn.depth[:, :most]
        chosen = chosen if certain is None else chosen.weighted(certain)
        error = (self._blend(chosen, background, depth) - x).square().mean()
        coverage = chosen.values[:, :, 3].sum(dim=(1, 2)).mean() / (self.size[0] * self.size[1])
        loss = (soft - x).square().mean() + error + self.config.coverage_cost * coverage
        logs = {"reconstruction": error.detach(), "sharpness": presence[:, :most].mean().detach()}
        if certain is not None:
            logs["count"] = certain.sum(dim=1).mean()
        if self.config.pairs:
            there = torch.ones_like(depth) if certain is None else certain
            slots = self.layout.join(drawn.code[:, :most], drawn.position[:, :most], depth, there)
            swapped = self._swapped(slots, background)
            pairs = (swapped - x).square().mean()
            loss, logs["pairs"] = loss + pairs, pairs.detach()
        return loss, logs

    @torch.no_grad()
    def _totals(
        self, x: Picture, background: Picture, patches: Patches, depth: Float[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B 1"], Int[Tensor, "B 1"]]:
        """What the presences of each picture sum to, and how many objects it seems to have."""
        if self.training and self.trained <= WARMUP:
            total = torch.full_like(depth[:, :1], totals_at_first(int(self.trained), self.max_objects))
            return total, total.round().long()
        found = pursue(x, background, patches, depth if self.config.compose == "depth" else None, self.max_objects)
        count = counted(found[1], self._cost)
        return (scarce(count, self.max_objects) if self.training else count.to(x.dtype)), count

    @property
    def _cost(self) -> float:
        """Of a presence, as squared error of a picture."""
        return self.config.presence_cost * 3 * self.size[0] * self.size[1]

    def _blend(self, patches: Patches, background: Picture, depth: Float[Tensor, "B M"]) -> Picture:
        """As `_compose`, but depths get a gradient."""
        return patches.added(background) if self.config.compose == "add" else patches.blended(background, depth)

    def _swapped(self, slots: Float[Tensor, "B M D"], background: Picture) -> Picture:
        """Both halves of some pictures, each drawn where its objects are, with the codes that the other half has."""
        first, second = slots.chunk(2)
        codes = []
        for here, there in ((first, second), (second, first)):
            index, sure = match(self.layout, here.detach(), there.detach())
            code, other = self.layout.split(here)[0], self.layout.split(there)[0]
            found = other.gather(1, index.unsqueeze(2).expand_as(other))
            codes.append(torch.where(sure.unsqueeze(2), found, code))
        _, position, depth, presence = self.layout.split(slots)
        patches = place(self.rgba(torch.cat(codes)), position, self.size).weighted(presence)
        return self._blend(patches, background, depth)

    @torch.no_grad()
    def slots(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        """Slots of objects in the order in which they were found, then empty ones and that of the background."""
        infer = self.config.count == "infer"
        starts = range(0, max(1, len(pictures)), AT_ONCE)
        return torch.cat([self._slots(_channels_first(pictures[i : i + AT_ONCE]), infer) for i in starts])

    @torch.no_grad()
    def track(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        """An object that is not found again stays where it was seen last. Those of a frame are counted: what K slots
        are filled with where fewer objects can be seen should not be remembered."""
        slots = self._slots(_channels_first(pictures[:, 0]), infer=True)
        for t in range(1, pictures.shape[1]):
            now = self._slots(_channels_first(pictures[:, t]), infer=True)
            slots = torch.cat([carry(self.layout, slots[:, :-1], now[:, :-1]), now[:, -1:]], dim=1)
        return slots

    def _slots(self, x: Picture, infer: bool) -> Float[Tensor, "B S D"]:
        candidates, background, chosen, gains = self._pursue(x, self.max_objects)
        found = candidates.take(chosen)
        presence = torch.ones_like(gains)
        if infer:  # gains need not fall from one to the next: the first small one is the end
            presence = (gains > self.gain_threshold).to(gains.dtype).cumprod(dim=1)
        rgba = self.rgba(found.code)
        position = found.position
        if self.config.refine:
            depth = found.depth if self.config.compose == "depth" else None
            there = rgba * presence[:, :, None, None, None]
            position = refine(x, background, there, position, depth, self.config.refine)
        middle = (position + self._centre_of_mass(rgba) - self._centre) / PIXELS_PER_UNIT
        slots = self.layout.join(found.code, middle, found.depth, presence)
        return torch.cat([slots, torch.zeros_like(slots[:, :1])], dim=1)

    def _pursue(self, x: Picture, rounds: int) -> tuple[_Proposals, Picture, Tensor, Tensor]:
        proposals, background = self.propose(x)
        candidates = proposals.take(proposals.logit.topk(self.candidates, dim=1).indices)
        patches = place(self.rgba(candidates.code), candidates.position, self.size)
        if not self.config.explain_away:  # the most present stand first
            chosen = torch.arange(rounds, device=x.device).expand(len(x), -1)
            return candidates, background, chosen, torch.sigmoid(candidates.logit[:, :rounds])
        depth = candidates.depth if self.config.compose == "depth" else None
        chosen, gains = pursue(x, background, patches, depth, rounds)
        return candidates, background, chosen, gains

    @torch.no_grad()
    def calibrate(self, pictures: Tensor) -> float | None:
        """Set how much an object lowers the error at least, from training frames of K objects; gives the share of them
        whose count is then right. Where K was not used in training, it is where fewest gains lie."""
        if self.config.presence == "prior":
            gains = self._pursue(_channels_first(pictures), self.max_objects)[3]
            self.gain_threshold.fill_(emptiest(gains.flatten(), self._cost))
            return None
        rounds = min(self.k + 1, self.candidates)
        gains = self._pursue(_channels_first(pictures), rounds)[3].clamp_min(0)
        ends = torch.cat([gains[:, self.k - 1], gains[:, -1]]).sort().values
        between = (ends[1:] + ends[:-1]) / 2
        running = gains.cummin(dim=1).values  # as in `slots`: nothing is found after the first small gain
        right = ((running[:, self.k - 1] > between[:, None]) & (running[:, -1] <= between[:, None])).float().mean(dim=1)
        best = between[right == right.max()]
        self.gain_threshold.fill_(float((best[0] + best[-1]) / 2))
        return float(right.max())

    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S H W"]:
        """How much of each pixel each slot shows; the background has the rest."""
        patches, depth = self._placed(slots)
        cover = patches.pictures()[:, :, 3]
        if self.config.compose == "depth":
            nearer = (depth[:, None, :] < depth[:, :, None])[..., None, None]  # [i, j]: j hides i
            cover = cover * torch.where(nearer, 1 - cover[:, None], 1.0).prod(dim=2)
        cover = cover / cover.sum(dim=1, keepdim=True).clamp_min(1)
        return torch.cat([cover, (1 - cover.sum(dim=1, keepdim=True)).clamp_min(0)], dim=1)

    def draw(self, slots: Float[Tensor, "B S D"], background: Picture | None = None) -> Float[Tensor, "B H W 3"]:
        """The picture that slots stand for, in 0-1; slots say nothing of a background that differs between pictures."""
        patches, depth = self._placed(slots)
        ground = self.learned_background.expand(len(slots), -1, -1, -1) if background is None else background
        return self._compose(patches, ground, depth).clamp(0, 1).permute(0, 2, 3, 1)

    def _placed(self, slots: Float[Tensor, "B S D"]) -> tuple[Patches, Float[Tensor, "B M"]]:
        code, position, depth, presence = self.layout.split(slots[:, :-1])
        rgba = self.rgba(code)
        middle = position * PIXELS_PER_UNIT + self._centre - self._centre_of_mass(rgba)
        inside = torch.minimum(middle.clamp_min(-3.0), 2 * self._centre + 3)
        return place(rgba, inside, self.size).weighted(presence), depth

    @property
    def _centre(self) -> Float[Tensor, " 2"]:
        return torch.tensor(self.size, dtype=self.anchors.dtype, device=self.anchors.device) / 2

    def _centre_of_mass(self, rgba: Float[Tensor, "B M 4 q q"]) -> Float[Tensor, "B M 2"]:
        """Of what a sprite changes, from its middle: codes of one object need not draw it at the same place."""
        ground = self.learned_background.mean(dim=(2, 3))[:, None, :, None, None]
        weight = (rgba[:, :, :3] - rgba[:, :, 3:] * ground).abs().sum(dim=2)
        weight = weight / weight.sum(dim=(2, 3), keepdim=True).clamp_min(1e-6)
        q = self.config.sprite
        offset = torch.arange(q, device=rgba.device) - (q - 1) / 2
        return torch.stack([(weight.sum(dim=3) * offset).sum(dim=2), (weight.sum(dim=2) * offset).sum(dim=2)], dim=2)


def _channels_first(pictures: Tensor) -> Picture:
    """Pictures (B, H, W, 3), bytes or numbers in 0-1, as convolutions want them."""
    x = pictures.permute(0, 3, 1, 2)
    return x.float() / 255 if x.dtype == torch.uint8 else x
