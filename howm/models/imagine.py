"""Imagination: what a model predicts from a picture and actions, as states and, where it can draw, as pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from howm.data.privileged import Privileged
from howm.errors import HowmError
from howm.models.world_model import State, WorldModel, device_of, evaluating


@dataclass(frozen=True)
class Imagined:
    """``states[t]`` is the batch of states after t actions; ``pictures`` is None for models that cannot draw."""

    states: tuple[State, ...]
    pictures: Float[Tensor, "B frames H W 3"] | None


@torch.no_grad()
def imagine(
    model: WorldModel,
    pictures: Tensor | np.ndarray,
    actions: Tensor | np.ndarray | Sequence[int],
    privileged: Privileged | None = None,
) -> Imagined:
    """Predict open-loop from one picture (height, width, 3) or a batch of them, uint8 or float in 0-1.

    ``actions`` (T,) are taken from every picture, ``actions`` (B, T) from picture by picture.
    """
    if not isinstance(pictures, Tensor | np.ndarray):
        raise HowmError(f"pictures must be a tensor or a NumPy array, got {type(pictures).__name__}")
    batch = torch.as_tensor(np.array(pictures) if isinstance(pictures, np.ndarray) else pictures)
    batch = (batch[None] if batch.dim() == 3 else batch).to(device_of(model))
    taken = actions if isinstance(actions, Tensor) else torch.as_tensor(np.array(actions))
    if not taken.numel():
        taken = taken.long()
    if taken.dim() not in (1, 2) or (taken.dim() == 2 and len(taken) != len(batch)):
        raise HowmError(f"actions must be (steps,) or ({len(batch)}, steps), got {tuple(taken.shape)}")
    taken = taken.to(batch.device).expand(len(batch), -1)
    with evaluating(model):
        states = [model.encode(batch, privileged)]
        for t in range(taken.shape[1]):
            states.append(model.step(states[-1], taken[:, t]))
        drawn = [model.draw(state) for state in states]
    found = [picture for picture in drawn if picture is not None]
    return Imagined(tuple(states), torch.stack(found, dim=1) if len(found) == len(states) else None)
