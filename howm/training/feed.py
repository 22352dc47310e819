"""What the module of a phase is called with: pictures, or a batch of pictures or of slots."""

import numpy as np
import torch
from torch import Tensor

from howm.data.frame_cache import FrameCache
from howm.data.transitions import FrameIndex, PictureBatch, SlotBatch, Transitions
from howm.models.world_model import WorldModel, full_precision


class Feed:
    """Loads batches for a model; the slots of a frozen extractor are computed once."""

    def __init__(self, model: WorldModel, device: torch.device) -> None:
        self.model, self.device = model, device
        self.caches: dict[Transitions, FrameCache] = {}

    def pictures(self, transitions: Transitions, index: FrameIndex) -> Tensor:
        """For an extractor in training."""
        extractor = self.model.frozen_extractor
        pairs = extractor is not None and extractor.trains_on_pairs
        frames = np.concatenate([index.obs, index.next_obs]) if pairs else index.obs
        return transitions.pictures(frames).to(self.device)

    def batch(self, transitions: Transitions, index: FrameIndex) -> PictureBatch | SlotBatch:
        """For the model: slots where its extractor is frozen, else pictures, and object ids only if it declares so."""
        if self.model.frozen_extractor is not None:
            if transitions not in self.caches:
                self.caches[transitions] = FrameCache(transitions, self._slots)
            return transitions.load_slots(index, self.caches[transitions]).to(self.device)
        batch = transitions.load(index)
        return (batch if self.model.privileged else batch.without_privileged()).to(self.device)

    @torch.no_grad()
    def _slots(self, pictures: Tensor) -> Tensor:
        assert self.model.frozen_extractor is not None
        with torch.autocast(self.device.type, enabled=False):
            return full_precision(self.model.frozen_extractor.slots(pictures.to(self.device)))
