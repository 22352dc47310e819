"""Where HOWM's errors come from, told by the environment's ground truth, which no model sees.

Extraction: has every object a slot of its own? Binding: do an object's actions go to the slot that holds it?
Transition: what remains with the true binding, in episodes whose slots are right.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from howm.batches import Batch, Rollouts, Transitions
from howm.dataset import Episodes
from howm.errors import HowmError
from howm.evaluation import chunks, hard_ranks
from howm.models.align import transport
from howm.models.bind import bind
from howm.models.extract import split_cells, unit
from howm.models.howm import HOWM, SlotState
from howm.models.slots import Extractor, Proposals
from howm.models.worldmodel import State, WorldModel, device_of, evaluating
from howm.render import Renderer

_CHUNK = 500
EPISODES = 1_000  # on so many the decomposition is measured


@torch.no_grad()
def holders(
    extractor: Extractor, obs: Tensor, slots: Float[Tensor, "B S D"], cells: Int[Tensor, "B K"]
) -> Int[Tensor, "B K"]:
    """The slot that holds each object: whose mask covers most of the object's pixels."""
    cells_of_obs = split_cells(obs, extractor.spec.cell_pixels)
    lit = cells_of_obs.view(*cells_of_obs.shape[:2], -1, 3).amax(dim=3) > 0  # B cells pixels
    masks = extractor.masks(slots)
    batch = torch.arange(len(obs), device=cells.device).unsqueeze(1)
    covered = masks.transpose(1, 2)[batch, cells] * lit[batch, cells].unsqueeze(2)  # B K S pixels
    holder: Tensor = covered.sum(dim=3).argmax(dim=2)
    return holder


def all_apart(extractor: Extractor, holder: Int[Tensor, "B K"]) -> Tensor:
    """Whether the objects of a frame have a slot each, none of them the background's."""
    ordered = holder.sort(dim=1).values
    apart = (ordered[:, 1:] != ordered[:, :-1]).all(dim=1)
    return apart & (ordered[:, -1] < extractor.k) if extractor.has_background else apart


@torch.no_grad()
def judged(extractor: Extractor, held_out: Transitions, frames: int = 500) -> list[str]:
    """How good trained slots are, in a line, and a second one with advice where they look bad.

    The true share of frames in which every object has a slot of its own stands beside it and decides nothing.
    """
    chosen = np.random.default_rng(0).integers(held_out.frame_count, size=frames)
    pictures = held_out.pictures(chosen).to(device_of(extractor))
    with torch.random.fork_rng(), evaluating(extractor):
        _, logs = extractor(pictures)
    error = float(logs["reconstruction"] / unit(pictures).var(dim=0).mean())
    known = held_out.episodes.pictures is None
    truth = f"{extraction_accuracy(extractor, held_out.episodes):.2f} %" if known else "unknown"
    said = (
        f"slots: {error:.2%} of the pictures unexplained, sharpness {float(logs['sharpness']):.4f}; "
        f"frames in which every object has a slot of its own: {truth}"
    )
    if error <= 0.05:
        return [said]
    other = "" if isinstance(extractor, Proposals) else ", or model.extractor.kind=proposals"
    return [said, f"warning: the slots leave {error:.0%} of the pictures unexplained; try more represent.steps{other}"]


@torch.no_grad()
def extraction_accuracy(extractor: Extractor, episodes: Episodes, frames: int = 2_000) -> float:
    """The share, in percent, of frames in which every object has a slot of its own."""
    _, _, cells = episodes.state()
    rng = np.random.default_rng(0)
    episode, time = rng.integers(len(episodes), size=frames), rng.integers(episodes.steps + 1, size=frames)
    right = 0
    with evaluating(extractor):
        for part in np.array_split(np.arange(frames), max(1, frames // 500)):
            obs = torch.from_numpy(episodes.observe(episode[part], time[part])).to(device_of(extractor))
            where = torch.from_numpy(cells[episode[part], time[part]].astype(np.int64)).to(obs.device)
            holder = holders(extractor, obs, extractor.slots(obs), where)
            right += int(all_apart(extractor, holder).sum())
    return 100 * right / frames


class OracleBinding(WorldModel):
    """A HOWM whose actions and lifts go where the objects truly are. It reads object ids, as no honest model may."""

    sprites: Tensor

    def __init__(self, model: HOWM, renderer: Renderer) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("sprites", torch.from_numpy(renderer.sprites).flatten(1))

    def locate(self, obs: Tensor, object_ids: Int[Tensor, "B K"]) -> Int[Tensor, "B K"]:
        """The cells of the objects, read off the picture."""
        cells = split_cells(obs, self.model.extractor.spec.cell_pixels)
        return (cells.unsqueeze(1) == self.sprites[object_ids].unsqueeze(2)).all(dim=3).int().argmax(dim=2)

    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> State:
        if object_ids is None:
            raise HowmError("an oracle needs the object ids of the scene; this data gives none")
        object_ids = object_ids.long()
        state = self.model.encode(obs)
        assert state.binding is not None
        assert state.seen is not None
        holder = holders(self.model.extractor, obs, state.seen, self.locate(obs, object_ids))
        batch = torch.arange(len(obs), device=obs.device).unsqueeze(1)
        lift = torch.zeros_like(state.binding)
        lift[batch, object_ids, holder] = 1
        return replace(state, binding=lift, lift=lift)

    def step(self, state: State, action: Int[Tensor, "B"]) -> State:
        return self.model.step(state, action)

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        return self.model.embed(state)

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        raise HowmError("an oracle is not trained")


@dataclass(frozen=True)
class Diagnosis:
    """All in percent, but for pixel errors, which are mean squares of colours in 0-1."""

    extraction: float  # frames in which every object has a slot of its own
    binding: float  # present objects whose actions go to the slot that holds them
    weight: float  # how much of an action arrives there, on average
    absent_to_background: float | None  # absent objects whose actions go to the background; None where there is none
    steps: int  # of prediction, for all below
    hard_mrr: dict[str, float | None]  # in the hard pool: of the model, with oracles, and by states aligned
    lost_to: dict[str, float | None]  # 100 minus the model's, split by stage
    pixel_error: dict[str, float]  # of predicted frames; of the slots' own picture; of showing frame 0 again

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@torch.no_grad()
def diagnose(model: HOWM, rollouts: Rollouts, steps: int = 5) -> Diagnosis:
    """Measure every stage on (at most 1,000 of) the given episodes."""
    some = Rollouts(rollouts.episodes.some(min(EPISODES, len(rollouts))))
    renderer, _, _ = some.episodes.state()
    with evaluating(model):
        found = _stages(model, some, steps)
        right = found.pop("right")
        oracle = OracleBinding(model, renderer).to(device_of(model)).eval()
        model_mrr, bound = _mrr(hard_ranks(model, some, steps)), hard_ranks(oracle, some, steps)
        # Slots cannot be replaced by true ones; what is left where all of them are right is the transition's error.
        extracted = _mrr(bound[right]) if right.any() else None
        aligned = hard_ranks(model, some, steps, _aligned_states(model, some, steps))
        pixel_error = _pixel_errors(model, some, steps)
    return Diagnosis(
        **found,
        steps=steps,
        hard_mrr={
            "model": model_mrr,
            "oracle_binding": _mrr(bound),
            "oracle_binding_where_extraction_is_right": extracted,
            "states_aligned_not_open_loop": _mrr(aligned),
        },
        lost_to={
            "binding": _mrr(bound) - model_mrr,
            "extraction": None if extracted is None else extracted - _mrr(bound),
            "transition": None if extracted is None else 100 - extracted,
        },
        pixel_error=pixel_error,
    )


def _mrr(ranks: Float[np.ndarray, "E"]) -> float:
    return 100 * float((1 / ranks).mean())


def _stages(model: HOWM, rollouts: Rollouts, steps: int) -> dict[str, Any]:
    """Extraction and binding in the first frame and in the last, and which episodes were extracted rightly in both."""
    _, scene_ids, cells = rollouts.episodes.state()
    ids = torch.from_numpy(scene_ids.astype(np.int64))
    right = torch.ones(len(rollouts), dtype=torch.bool)
    extracted, bound, weight, absent = [], [], [], []
    for time in (0, steps):
        for part in chunks(len(rollouts), _CHUNK):
            obs = rollouts.observe(time, part).to(device_of(model))
            state = model.encode(obs)
            assert state.binding is not None
            assert state.seen is not None
            where = torch.from_numpy(cells[part, time].astype(np.int64)).to(obs.device)
            holder = holders(model.extractor, obs, state.seen, where)
            apart = all_apart(model.extractor, holder).cpu()
            right[part] &= apart
            extracted.append(apart)
            batch = torch.arange(len(obs)).unsqueeze(1)
            present = state.binding[batch, ids[part]]  # B K S
            bound.append((present.argmax(dim=2) == holder).cpu())
            weight.append(present.gather(2, holder.unsqueeze(2)).cpu())
            gone = one_hot(ids[part], model.n).sum(dim=1) == 0
            absent.append(state.binding.argmax(dim=2)[gone].cpu() == model.k)

    def percent(parts: list[Tensor]) -> float:
        return float(100 * torch.cat([part.flatten() for part in parts]).float().mean())

    return {
        "extraction": percent(extracted),
        "binding": percent(bound),
        "weight": percent(weight),
        "absent_to_background": percent(absent) if model.extractor.has_background and model.n > model.k else None,
        "right": right.numpy(),
    }


def _aligned_states(model: HOWM, rollouts: Rollouts, steps: int) -> Float[Tensor, "E F"]:
    """Predictions whose later actions are bound in the *true* later frames and carried back, slot by slot.

    This is the alternative that the paper warns of: it looks at the future, and errors of alignment add up.
    """
    found = []
    actions = rollouts.actions(steps)
    for part in chunks(len(rollouts), _CHUNK):
        state = shown = model.encode(rollouts.observe(0, part).to(device_of(model)))
        assert state.binding is not None
        back = torch.eye(state.slots.shape[1], device=state.slots.device).expand(len(state.slots), -1, -1)
        for t in range(steps):
            if t > 0:
                following = model.encode(rollouts.observe(t, part).to(device_of(model)))
                back = back @ transport(_lift(shown), _lift(following))
                shown = following
            assert shown.binding is not None
            told = back @ bind(shown.binding, actions[part, t].to(back.device))
            state = model.advance(state, told)
        found.append(model.embed(state).cpu())
    return torch.cat(found)


def _lift(state: SlotState) -> Tensor:
    assert state.lift is not None
    return state.lift


def _pixel_errors(model: HOWM, rollouts: Rollouts, steps: int) -> dict[str, float]:
    errors: dict[str, list[Tensor]] = {"predicted": [], "reconstructed": [], "first_frame": []}
    actions = rollouts.actions(steps)
    for part in chunks(len(rollouts), _CHUNK):
        first, last = (unit(rollouts.observe(t, part).to(device_of(model))) for t in (0, steps))
        state: State = model.encode(first)
        for t in range(steps):
            state = model.step(state, actions[part, t].to(first.device))
        pictures = {
            "predicted": model.draw(state),
            "reconstructed": model.extractor.draw(model.represent(last)),
            "first_frame": first,
        }
        for name, picture in pictures.items():
            errors[name].append((picture - last).square().mean(dim=(1, 2, 3)).cpu())
    return {name: float(torch.cat(parts).mean()) for name, parts in errors.items()}
