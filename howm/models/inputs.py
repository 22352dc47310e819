"""What people give to encode and step, as the tensors that models compute with, or an error of one line."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from howm.errors import HowmError
from howm.worlds.spec import WorldSpec

_ROUNDING = 1e-4  # by which resized pictures may leave 0-1


def checked_verb(verb: Callable[..., Any], check: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """A method whose arguments pass through ``check`` first."""

    @functools.wraps(verb)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        return verb(self, *check(self, *arguments, **named))

    return checked


def as_pictures(pictures: Any, spec: WorldSpec | None, model: nn.Module) -> Tensor:
    """Pictures (B, height, width, 3) of uint8, or floats in 0-1 in the model's precision."""
    found = _tensor("pictures", pictures, model)
    shape = tuple(found.shape)
    if len(shape) == 3:
        raise HowmError(f"pictures must be (batch, height, width, 3), got {shape}; add a batch axis: picture[None]")
    if len(shape) != 4 or shape[3] != 3:
        raise HowmError(f"pictures must be (batch, height, width, 3), got {shape}")
    if spec is not None and shape[1:3] != (spec.height, spec.width):
        raise HowmError(f"pictures must have {spec.height}x{spec.width} pixels, got {shape[1]}x{shape[2]}")
    if found.dtype == torch.uint8:
        return found
    if not found.is_floating_point():
        raise HowmError(f"pictures must be uint8, or floats in 0-1, got {found.dtype}; convert them to uint8")
    if found.numel() and _may_look(found, model):
        low, high = (float(bound) for bound in found.aminmax())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise HowmError("pictures must be finite, got NaN or infinity")
        if low < -_ROUNDING or high > 1 + _ROUNDING:
            raise HowmError(f"float pictures must be in 0-1, got {low:g} to {high:g}; divide by 255 or pass uint8")
    parameter = next(model.parameters(), None)
    return found if parameter is None else found.to(parameter.dtype)


def as_actions(actions: Any, batch: int, spec: WorldSpec | None, model: nn.Module) -> Tensor:
    """Library actions (B,) of int64."""
    found = _tensor("actions", actions, model)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise HowmError(f"actions must be integers, got {found.dtype}")
    if tuple(found.shape) != (batch,):
        raise HowmError(f"actions must have the shape ({batch},), one for each state, got {tuple(found.shape)}")
    if batch and _may_look(found, model):
        low, high = (int(bound) for bound in found.aminmax())
        if low < 0 or (spec is not None and high >= spec.actions):
            limit = "0 or more" if spec is None else f"in 0-{spec.actions - 1}"
            raise HowmError(f"actions must be {limit}, got {low if low < 0 else high}")
    return found.long()


def _tensor(name: str, values: Any, model: nn.Module) -> Tensor:
    if isinstance(values, Tensor):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        parameter = next(model.parameters(), None)
        return torch.tensor(values, device=None if parameter is None else parameter.device)
    kind = f"{values.dtype} array" if isinstance(values, np.ndarray) else type(values).__name__
    raise HowmError(f"{name} must be a tensor or a NumPy array of numbers, got {kind}")


def _may_look(values: Tensor, model: nn.Module) -> bool:
    """Whether looking at values costs little: on a GPU it would make training wait for all that is queued."""
    return not torch.compiler.is_compiling() and (values.device.type == "cpu" or not model.training)
