"""A model as planners use it: its verbs on many states at once, without gradients, and counted."""

import numpy as np
import torch
from jaxtyping import Int

from howm.models.world_model import State, WorldModel, device_of

AT_ONCE = 2048  # states: larger batches are no faster


class Imagination:
    """``calls[g]`` is how many states went through ``step`` for goal g."""

    def __init__(self, model: WorldModel, goals: int) -> None:
        self.model = model
        self.calls = np.zeros(goals, dtype=np.int64)
        self._device = device_of(model)

    def step(self, state: State, action: Int[np.ndarray, " B"], goal: Int[np.ndarray, " B"]) -> State:
        """One imagined step of each state, on the account of its goal."""
        self.calls += np.bincount(goal, minlength=len(self.calls))
        taken = torch.from_numpy(np.ascontiguousarray(action)).to(self._device)
        if len(action) <= AT_ONCE:
            return self.model.step(state, taken)
        parts = (slice(i, i + AT_ONCE) for i in range(0, len(action), AT_ONCE))
        return State.join([self.model.step(state[part], taken[part]) for part in parts])

    def rows(self, index: Int[np.ndarray, " B"]) -> torch.Tensor:
        """Numbers of rows, as states are indexed by; an index on the CPU fits tensors on any device."""
        return torch.from_numpy(np.ascontiguousarray(index, dtype=np.int64))
