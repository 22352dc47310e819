"""The slots that a frozen extractor makes of frames, computed once."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from howm.data.transitions import Transitions


class FrameCache:
    """The slots of frames: computed once, unless that is too much to keep."""

    KEEP_BYTES = 2**30
    AT_ONCE = 256

    def __init__(self, transitions: Transitions, slots: Callable[[Tensor], Tensor]) -> None:
        self.transitions, self.slots = transitions, slots
        self.kept: Tensor | None = None
        one, count = self(np.arange(1)), transitions.frame_count
        if count * one.nbytes <= self.KEEP_BYTES:
            kept = one.new_empty(count, *one.shape[1:])
            for start in range(0, count, self.AT_ONCE):
                stop = min(start + self.AT_ONCE, count)
                kept[start:stop] = self(np.arange(start, stop))
            self.kept = kept

    def __call__(self, frames: Int[np.ndarray, " B"]) -> Tensor:
        if self.kept is None:
            return self.slots(self.transitions.pictures(frames))
        return self.kept[torch.from_numpy(frames)]
