"""Who is who in a large library: each object is known by how it looked when it moved."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed

from howm.models.binding import NEVER, ActionAttention, unmatched_share
from howm.models.extractors.base import Extractor
from howm.worlds.spec import WorldSpec

MOVED = 0.5  # the share of a frame's change that makes a slot the one that moved
_FIRST_SPREAD = 1e-2  # until looks of one object were compared


class Gallery(ActionAttention):
    """Action Attention whose keys are not learned: the key of an object is the mean look of the slots that moved when
    it acted, and a slot is the object whose look is nearest.

    Learned keys need many steps for each object, and in a library of thousands each has few. A mean needs one frame.
    A look is what the extractor draws for a slot, wherever that lies, projected to ``size`` numbers. ``spread``, the
    mean squared distance of a look from its object's key, is the unit of the scores.

    The last entry of a key is -‖mean‖², so that its product with a query is -‖look - mean‖² / spread, but for what does
    not depend on the object. No slot is ever taken for an object that was not seen moving.
    """

    keys: Tensor
    count: Tensor
    distance: Tensor
    projection: Tensor

    def __init__(self, spec: WorldSpec, size: int, extractor: Extractor) -> None:
        super().__init__(spec, "objects", extractor.has_background)
        self._look = extractor.look
        values = extractor.look(torch.zeros(1, extractor.slot_size)).shape[1]
        size = min(size, values)
        basis = torch.linalg.qr(torch.randn(values, size)).Q
        self.register_buffer("projection", basis * (values / size) ** 0.5)  # keeps distances, on average
        self.register_buffer("keys", torch.cat([torch.zeros(spec.n, size), torch.full((spec.n, 1), NEVER)], dim=1))
        self.register_buffer("count", torch.zeros(spec.n))  # of looks
        self.register_buffer("distance", torch.zeros(2))  # the sum of squared distances, and of how many

    def keys_of(self, objects: Int[Tensor, "*b"] | None = None) -> Float[Tensor, "*n D"]:
        return self.keys if objects is None else self.keys[objects]

    @property
    def spread(self) -> Tensor:
        total, count = self.distance
        return torch.where(count > 0, total / count.clamp_min(1), _FIRST_SPREAD).clamp_min(1e-6)

    def queries(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        looks = self.looks(slots)
        return torch.cat([2 * looks, torch.ones_like(looks[..., :1])], dim=-1) / self.spread

    @torch.no_grad()
    def looks(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        return self._look(slots, self.projection)

    @torch.no_grad()
    def observe(
        self, slots: Float[Tensor, "B S D"], following: Float[Tensor, "B S D"], acting: Int[Tensor, " B"]
    ) -> None:
        """Add the looks of what moved, before and after, to those of the objects that acted."""
        if self.background:
            slots, following = slots[:, :-1], following[:, :-1]
        here, there = torch.cat([slots, following]), torch.cat([following, slots])
        most = unmatched_share(here, there).max(dim=1)
        looks = self.looks(here[torch.arange(len(here), device=here.device), most.indices])
        moved = torch.where(most.values > MOVED, acting.repeat(2), -1)
        self._add(from_all_processes(looks), from_all_processes(moved))

    def _add(self, looks: Float[Tensor, "B D"], objects: Int[Tensor, " B"]) -> None:
        """Add looks to those of their objects; -1 marks looks to leave out."""
        looks, objects = looks[objects >= 0], objects[objects >= 0]
        known = self.count[objects] > 0
        apart = (looks - self.keys[objects, :-1])[known].square().sum()
        self.distance += torch.stack([apart, known.sum().to(apart.dtype)])
        seen, which = torch.unique(objects, return_inverse=True)
        before = self.count[seen].unsqueeze(1)
        total = (before * self.keys[seen, :-1]).index_add(0, which, looks)
        self.count.index_add_(0, objects, torch.ones_like(looks[:, 0]))
        mean = total / self.count[seen].unsqueeze(1)
        self.keys[seen] = torch.cat([mean, -mean.square().sum(dim=1, keepdim=True)], dim=1)


def from_all_processes(rows: Tensor) -> Tensor:
    """The rows of all processes that train together, in the same order in each."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, rows.contiguous())
    return torch.cat(parts)
