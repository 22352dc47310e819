"""Where a model's errors come from, by the true masks of the objects, which no model sees.

Extraction: has every object a slot of its own? Binding: do an object's actions go to the slot that holds it?
Transition: what remains with the true binding, in episodes whose slots are right. For any model that has masks and a
binding, in any world that has masks.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from howm.data.privileged import Privileged
from howm.data.rollouts import Rollouts
from howm.errors import HowmError
from howm.evaluation.evaluate import hard_ranks
from howm.evaluation.pools import chunks
from howm.evaluation.positions import count_accuracy, known_objects, position_errors
from howm.models.align import transport
from howm.models.cells import unit
from howm.models.extractors.quality import object_slots, one_slot_each, own_slots
from howm.models.world_model import SlotState, State, WorldModel, device_of, evaluating, slot_state
from howm.runs.result import Diagnosis

_CHUNK = 500
EPISODES = 1_000  # on so many the decomposition is measured


class OracleBinding(WorldModel):
    """A model whose actions and lifts go where the objects truly are. It reads their ids and masks."""

    privileged: ClassVar[bool] = True

    def __init__(self, model: WorldModel) -> None:
        super().__init__(model.spec)
        self.model, self.metric = model, model.metric

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> State:
        assert privileged is not None
        state = self.model.encode(pictures)
        binding, masks, truth = self.model.binding(state), self.model.masks(pictures), _find_masks(privileged)
        if binding is None or masks is None or truth is None:
            raise HowmError("an oracle binding needs a model with masks and a binding, and a world with masks")
        holder = object_slots(masks, truth.to(masks.device))
        ids = privileged.object_ids.long()
        true_binding = torch.zeros_like(binding)
        row, j = (holder >= 0).nonzero(as_tuple=True)  # of what cannot be seen, nothing is known
        true_binding[row, ids[row, j], holder[row, j]] = 1
        return self.model.rebind(state, true_binding)

    def step(self, state: State, action: Int[Tensor, " B"]) -> State:
        return self.model.step(state, action)

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        return self.model.embed(state)

    def forward(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        raise HowmError("an oracle is not trained")


def _find_masks(privileged: Privileged | None) -> Bool[Tensor, "B K H W"] | None:
    return None if privileged is None or privileged.find_masks is None else privileged.find_masks()


def can_diagnose(model: WorldModel, rollouts: Rollouts) -> bool:
    """Whether the model has masks and a binding, and the data true masks."""
    first = slice(0, 1)
    if model.privileged or _find_masks(rollouts.privileged(0, first)) is None:
        return False
    with torch.no_grad(), evaluating(model):
        pictures = rollouts.observe(0, first).to(device_of(model))
        return model.masks(pictures) is not None and model.binding(model.encode(pictures)) is not None


@torch.no_grad()
def diagnose(model: WorldModel, rollouts: Rollouts, steps: int = 5) -> Diagnosis:
    """Measure every stage on (at most 1,000 of) the given episodes."""
    if not can_diagnose(model, rollouts):
        raise HowmError("a diagnosis needs a model with masks and a binding, and data of a world with masks")
    some = Rollouts(rollouts.episodes.subsample(min(EPISODES, len(rollouts))))
    with evaluating(model):
        found = _stages(model, some, steps)
        right = found.pop("right")
        oracle = OracleBinding(model).eval()
        model_mrr, bound = _mrr(hard_ranks(model, some, steps)), hard_ranks(oracle, some, steps)
        # Slots cannot be replaced by true ones; what is left where all of them are right is the transition's error.
        extracted = _mrr(bound[right]) if right.any() else None
        states = _aligned_states(model, some, steps)
        aligned = None if states is None else _mrr(hard_ranks(model, some, steps, states))
        pixel_error = _pixel_errors(model, some, steps)
        count = count_accuracy(model, some)
        memory = known_objects(model, some)
        position_error = position_errors(model, some, tuple(k for k in (1, 5, 10) if k <= some.steps))
    return Diagnosis(
        **found,
        steps=steps,
        hard_mrr={
            "model": model_mrr,
            "oracle_binding": _mrr(bound),
            "oracle_binding_where_extraction_is_right": extracted,
            "states_aligned_not_open_loop": aligned,
        },
        lost_to={
            "binding": _mrr(bound) - model_mrr,
            "extraction": None if extracted is None else extracted - _mrr(bound),
            "transition": None if extracted is None else 100 - extracted,
        },
        pixel_error=pixel_error,
        count=count,
        memory=memory,
        position_error=position_error,
    )


def _mrr(ranks: Float[np.ndarray, " E"]) -> float:
    return 100 * float((1 / ranks).mean())


def _stages(model: WorldModel, rollouts: Rollouts, steps: int) -> dict[str, Any]:
    """Extraction and binding in the first frame and in the last, and which episodes were extracted rightly in both."""
    right = torch.ones(len(rollouts), dtype=torch.bool)
    extracted, alone, bound, weight, absent = [], [], [], [], []
    has_background = model.extractor is not None and model.extractor.has_background
    for time in (0, steps):
        for part in chunks(len(rollouts), _CHUNK):
            pictures, privileged = rollouts.observe(time, part).to(device_of(model)), rollouts.privileged(time, part)
            binding, masks, truth = (
                model.binding(model.encode(pictures)),
                model.masks(pictures),
                _find_masks(privileged),
            )
            assert binding is not None
            assert masks is not None
            assert truth is not None
            assert privileged is not None
            ids, (_, n, slots) = privileged.object_ids.long().to(binding.device), binding.shape
            holder = object_slots(masks, truth.to(masks.device))
            background = slots - 1 if has_background else None
            apart = one_slot_each(holder, background).cpu()
            right[part] &= apart
            extracted.append(apart)
            alone.append(own_slots(holder, background).cpu())
            row, j = (holder >= 0).nonzero(as_tuple=True)
            present, slot = binding[row, ids[row, j]], holder[row, j]
            bound.append((present.argmax(dim=1) == slot).cpu())
            weight.append(present.gather(1, slot.unsqueeze(1)).cpu())
            gone = one_hot(torch.where(ids < 0, n, ids), n + 1)[..., :n].sum(dim=1) == 0
            absent.append(binding.argmax(dim=2)[gone].cpu() == slots - 1)

    def percent(parts: list[Tensor]) -> float:
        return float(100 * torch.cat([part.flatten() for part in parts]).float().mean())

    return {
        "extraction": percent(extracted),
        "visible_objects": percent(alone),
        "binding": percent(bound),
        "weight": percent(weight),
        "absent_to_background": percent(absent) if has_background and any(part.numel() for part in absent) else None,
        "right": right.numpy(),
    }


def _aligned_states(model: WorldModel, rollouts: Rollouts, steps: int) -> Float[Tensor, "E F"] | None:
    """Predictions whose later actions are bound in the *true* later frames and carried back, slot by slot.

    This is the alternative that the paper warns of: it looks at the future, and errors of alignment add up. None for
    models whose states are not SlotStates with a lift.
    """
    found = []
    actions = rollouts.actions(steps)
    for part in chunks(len(rollouts), _CHUNK):
        state = shown = model.encode(rollouts.observe(0, part).to(device_of(model)))
        if not isinstance(shown, SlotState) or shown.lift is None:
            return None
        slots = shown.slots.shape[1]
        back = torch.eye(slots, device=shown.slots.device).expand(len(shown), -1, -1)
        for t in range(steps):
            if t > 0:
                following = slot_state(model.encode(rollouts.observe(t, part).to(device_of(model))))
                back = back @ transport(_lift(shown), _lift(following))
                shown = following
            assert shown.binding is not None
            carried = replace(slot_state(state), binding=shown.binding @ back.transpose(1, 2))
            state = model.step(carried, actions[part, t].to(back.device))
        found.append(model.embed(state).cpu())
    return torch.cat(found)


def _lift(state: SlotState) -> Tensor:
    assert state.lift is not None
    return state.lift


def _pixel_errors(model: WorldModel, rollouts: Rollouts, steps: int) -> dict[str, float]:
    """None of a model that cannot draw."""
    errors: dict[str, list[Tensor]] = {"predicted": [], "reconstructed": [], "first_frame": []}
    actions = rollouts.actions(steps)
    for part in chunks(len(rollouts), _CHUNK):
        first, last = (unit(rollouts.observe(t, part).to(device_of(model))) for t in (0, steps))
        state: State = model.encode(first)
        for t in range(steps):
            state = model.step(state, actions[part, t].to(first.device))
        predicted = model.draw(state)
        if predicted is None:
            return {}
        extractor = model.extractor
        shown = model.draw(model.encode(last)) if extractor is None else extractor.draw(extractor.slots(last))
        assert shown is not None
        for name, picture in {"predicted": predicted, "reconstructed": shown, "first_frame": first}.items():
            errors[name].append((picture - last).square().mean(dim=(1, 2, 3)).cpu())
    return {name: float(torch.cat(parts).mean()) for name, parts in errors.items()}
