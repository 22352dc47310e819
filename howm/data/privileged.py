"""What only models that say so may read: who is in a scene, and where."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor


@dataclass(frozen=True)
class Privileged:
    """The ids of the scenes' objects, ascending, and, where the world can tell, which pixels show each of them
    (none of those that are nearly hidden).

    A model is given this only if it declares ``privileged = True``, which is recorded and shown beside its results.
    """

    object_ids: Integer[Tensor, "B K"]
    find_masks: Callable[[], Bool[Tensor, "B K height width"]] | None = None

    def __getitem__(self, rows: slice) -> "Privileged":
        """The truth about some of the pictures."""
        masks = self.find_masks
        return Privileged(self.object_ids[rows], masks and (lambda: masks()[rows]))

    def to(self, device: torch.device | str) -> "Privileged":
        return Privileged(self.object_ids.to(device), self.find_masks)
