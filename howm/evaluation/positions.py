"""How far off, in pixels, objects are that a model predicts, where model and world can say where objects are."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from howm.data.rollouts import Rollouts
from howm.evaluation.pools import chunks
from howm.models.world_model import State, WorldModel, device_of

_CHUNK = 500
_Places = Float[Tensor, "E N 2"]


@torch.no_grad()
def position_errors(model: WorldModel, rollouts: Rollouts, steps: tuple[int, ...]) -> dict[str, float]:
    """Mean distances of the objects that are known to be there, in pixels: as seen, after steps, and if nothing moved.

    A model may see an object from another point than its centre, such as its centre of mass: the mean offset of each
    object in first frames is taken off. Empty where model or world cannot tell.
    """
    seen, truth = _predicted(model, rollouts, 0), _true(rollouts, 0)
    if seen is None or truth is None:
        return {}
    offset = (seen - truth).nanmean(dim=0)
    offset = torch.where(offset.isnan(), 0.0, offset)
    errors = {"extracted": _distance(seen - offset, truth)}
    for k in steps:
        later, predicted = _true(rollouts, k), _predicted(model, rollouts, k)
        assert later is not None
        assert predicted is not None
        errors |= {f"after_{k}": _distance(predicted - offset, later), f"idle_{k}": _distance(truth, later)}
    return {name: value for name, value in errors.items() if value is not None}


def _distance(one: _Places, other: _Places) -> float | None:
    apart = (one - other).norm(dim=2)
    known = apart[~apart.isnan()]
    return float(known.mean()) if len(known) else None


def _predicted(model: WorldModel, rollouts: Rollouts, steps: int) -> _Places | None:
    actions, found = rollouts.actions(steps), []
    for part in chunks(len(rollouts), _CHUNK):
        state: State = model.encode(rollouts.observe(0, part).to(device_of(model)))
        for t in range(steps):
            state = model.step(state, actions[part, t].to(device_of(model)))
        places = model.locate(state)
        if places is None:
            return None
        found.append(places.cpu())
    return torch.cat(found)


def _true(rollouts: Rollouts, time: int) -> _Places | None:
    """By library object; NaN of absent ones."""
    if rollouts.episodes.states is None:
        return None
    world, _, states = rollouts.episodes.state()
    ids = rollouts.episodes.ids_at(np.arange(len(rollouts)), time)
    places = world.pixel_positions(ids, states[:, time])
    if places is None:
        return None
    rows = torch.full((len(ids), world.n + 1, 2), torch.nan)
    index = torch.from_numpy(np.where(ids < 0, world.n, ids).astype(np.int64))
    rows.scatter_(1, index.unsqueeze(2).expand(-1, -1, 2), torch.from_numpy(places).float())
    return rows[:, :-1]
