"""How far off, in pixels, objects are that a model predicts, where model and world can say where objects are."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from howm.data.rollouts import Rollouts
from howm.evaluation.pools import chunks
from howm.models.world_model import State, WorldModel, device_of

_CHUNK = 500
WATCHED = 5  # frames that a memory is judged after
_NEAR = 2.5  # pixels within which the place of an object is known
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
    offset = torch.nan_to_num((seen - truth).nanmean(dim=0))
    errors = {"extracted": _distance(seen - offset, truth)}
    for k in steps:
        later, predicted = _true(rollouts, k), _predicted(model, rollouts, k)
        assert later is not None
        assert predicted is not None
        errors |= {f"after_{k}": _distance(predicted - offset, later), f"idle_{k}": _distance(truth, later)}
    return {name: value for name, value in errors.items() if value is not None}


@torch.no_grad()
def count_accuracy(model: WorldModel, rollouts: Rollouts) -> float | None:
    """The share, in percent, of first frames in which a model names as many objects as there are."""
    seen, truth = _predicted(model, rollouts, 0), _true(rollouts, 0)
    if seen is None or truth is None:
        return None
    named, there = ((~places[..., 0].isnan()).sum(dim=1) for places in (seen, truth))
    return 100 * float((named == there).float().mean())


@torch.no_grad()
def known_objects(model: WorldModel, rollouts: Rollouts) -> dict[str, float]:
    """The share, in percent, of all objects of a frame, hidden or not, of which a model knows which they are and where:
    from that frame alone, and from all so far. Empty where model or world cannot tell."""
    last = WATCHED - 1
    first, truth = _true(rollouts, 0), None if rollouts.steps < last else _true(rollouts, last)
    seen = _predicted(model, rollouts, 0)
    if first is None or truth is None or seen is None:
        return {}
    offset = torch.nan_to_num((seen - first).nanmean(dim=0))
    alone, together = [], []
    for part in chunks(len(rollouts), _CHUNK // WATCHED):
        frames = torch.stack([rollouts.observe(t, part) for t in range(WATCHED)], dim=1).to(device_of(model))
        remembered = model.encode_frames(frames)
        places = None if remembered is None else model.locate(remembered)
        single = model.locate(model.encode(frames[:, -1]))
        if places is None or single is None:
            return {}
        alone.append(single.cpu())
        together.append(places.cpu())
    there = ~truth[..., 0].isnan()

    def known(found: _Places) -> float:
        return 100 * float(((found - offset - truth).norm(dim=2) < _NEAR)[there].float().mean())

    return {"one_frame": known(torch.cat(alone)), f"{WATCHED}_frames": known(torch.cat(together))}


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
