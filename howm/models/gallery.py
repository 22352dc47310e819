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
    """

    total: Tensor
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
        self.register_buffer("total", torch.zeros(spec.n, size))  # of looks
        self.register_buffer("count", torch.zeros(spec.n))
        self.register_buffer("distance", torch.zeros(2))  # the sum of squared distances, and of how many

    def keys_of(self, objects: Int[Tensor, "*b"] | None = None) -> Float[Tensor, "*n D"]:
        """With a last entry by which the product with a query is -‖look - mean‖² / spread, but for what does not depend
        on the object. What was never seen moving is nobody."""
        total, count = (self.total, self.count) if objects is None else (self.total[objects], self.count[objects])
        mean = total / count.clamp_min(1).unsqueeze(-1)
        bias = -mean.square().sum(dim=-1) / self.spread
        bias = torch.where(count > 0, bias, NEVER)
        return torch.cat([mean * (2 / self.spread), bias.unsqueeze(-1)], dim=-1)

    @property
    def spread(self) -> Tensor:
        total, count = self.distance
        return torch.where(count > 0, total / count.clamp_min(1), _FIRST_SPREAD).clamp_min(1e-6)

    def queries(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        looks = self.looks(slots)
        return torch.cat([looks, torch.ones_like(looks[..., :1])], dim=-1)

    @torch.no_grad()
    def looks(self, slots: Float[Tensor, "*b slot"]) -> Float[Tensor, "*b D"]:
        return self._look(slots) @ self.projection

    @torch.no_grad()
    def observe(
        self, slots: Float[Tensor, "B S D"], following: Float[Tensor, "B S D"], acting: Int[Tensor, " B"]
    ) -> None:
        """Add the looks of what moved, before and after, to those of the objects that acted."""
        if self.background:
            slots, following = slots[:, :-1], following[:, :-1]
        for one, other in ((slots, following), (following, slots)):
            most = unmatched_share(one, other).max(dim=1)
            looks = self.looks(one[torch.arange(len(one), device=one.device), most.indices])
            self._add(from_all_processes(looks), from_all_processes(torch.where(most.values > MOVED, acting, -1)))

    def _add(self, looks: Float[Tensor, "B D"], objects: Int[Tensor, " B"]) -> None:
        looks, objects = looks[objects >= 0], objects[objects >= 0]
        known = self.count[objects] > 0
        apart = looks - self.total[objects] / self.count[objects].clamp_min(1).unsqueeze(1)
        self.distance += torch.stack([apart[known].square().sum(), known.sum().to(apart.dtype)])
        self.total.index_add_(0, objects, looks)
        self.count.index_add_(0, objects, torch.ones_like(self.count[objects]))


def from_all_processes(rows: Tensor) -> Tensor:
    """The rows of all processes that train together, in the same order in each."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, rows.contiguous())
    return torch.cat(parts)
