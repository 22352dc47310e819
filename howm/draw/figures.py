"""Pictures of what a model has learned: bindings, masks, and predictions beside the truth."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from howm.data.episodes import Episodes
from howm.data.privileged import Privileged
from howm.errors import HowmError
from howm.files import atomic_write
from howm.models.binding import bind
from howm.models.cells import unit
from howm.models.imagine import imagine
from howm.models.world_model import SlotState, State, WorldModel, device_of, evaluating, slot_state
from howm.worlds.captions import action_names


@torch.no_grad()
def figures(model: WorldModel, episodes: Episodes, episode: int, steps: int) -> dict[str, Any]:
    """All pictures that can be drawn of a model on one episode, by name: it depends on what the model can show."""
    if not 0 <= episode < len(episodes):
        raise HowmError(f"episode {episode} does not exist; there are {len(episodes)}")
    if not 1 <= steps <= episodes.steps:
        raise HowmError(f"{steps} steps cannot be shown of episodes of {episodes.steps}; give 1 to {episodes.steps}")
    frames = torch.from_numpy(episodes.observe(np.full(steps + 1, episode), np.arange(steps + 1))).to(device_of(model))
    actions = torch.from_numpy(episodes.actions[episode, :steps].astype(np.int64)).to(frames.device)
    privileged = None
    if episodes.scene_ids is not None:
        ids = np.repeat(episodes.scene_ids[episode : episode + 1], steps + 1, axis=0)
        privileged = Privileged(torch.from_numpy(ids)).to(frames.device)
    with evaluating(model):
        shown = Shown(
            frames,
            actions,
            action_names(episodes.world, actions.cpu().numpy()),
            privileged,
            model.encode(frames, privileged),
        )
        found = {"binding": _binding(model, shown), "rollout": _rollout(model, shown)}
        if found["binding"] is None:
            found["masks"] = _masks(model, shown)
    drawn = {name: figure for name, figure in found.items() if figure is not None}
    if not drawn:
        raise HowmError(f"{type(model).__name__} can show nothing; give it a method masks(pictures) or draw(state)")
    return drawn


@dataclass(frozen=True)
class Shown:
    """An episode that is drawn, and its states as the model encodes them."""

    frames: Tensor
    actions: Tensor
    names: list[str]
    privileged: Privileged | None
    states: State


def save_figure(figure: Any, path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(as_png(figure))


def as_png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise HowmError("matplotlib is not installed; pip install 'howm[viz]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _picture(axes: Any, picture: Tensor, title: str = "") -> None:
    axes.imshow(picture.cpu().numpy(), interpolation="nearest")
    axes.set_title(title, fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])


def _matrix(
    figure: Any, axes: Any, values: Tensor, title: str, names: tuple[str, str], limits: tuple[float, float]
) -> None:
    low, high = limits
    image = axes.imshow(
        values.cpu().numpy(), vmin=low, vmax=high, cmap="viridis" if low == 0 else "RdBu_r", aspect="auto"
    )
    axes.set_title(title, fontsize=8)
    axes.set_ylabel(names[0], fontsize=7)
    axes.set_xlabel(names[1], fontsize=7)
    axes.tick_params(labelsize=6)
    figure.colorbar(image, ax=axes, fraction=0.08).ax.tick_params(labelsize=6)


def _binding(model: WorldModel, shown: Shown) -> Any:
    """The paper's figure of Action Attention: slots in their order, M_t, M_t+1, ā_t, lifted embeddings, difference.

    None for models without an extractor, a binding and a lift of their slots.
    """
    now, then, extractor = shown.states[0], shown.states[1], model.extractor
    if extractor is None or not isinstance(now, SlotState) or not isinstance(then, SlotState):
        return None
    if model.binding(now) is None or now.lift is None or now.source_slots is None:
        return None
    predicted = slot_state(model.step(now, shown.actions[:1]))
    figure = _figure(14, 6.5)
    rows = figure.subfigures(3, 1, height_ratios=(1, 1, 1.6))
    for row, frame, state, time in ((rows[0], shown.frames[0], now, "t"), (rows[1], shown.frames[1], then, "t+1")):
        axes = row.subplots(1, now.slots.shape[1] + 2)
        assert state.source_slots is not None
        drawn, masks = extractor.draw(state.source_slots)[0], extractor.masks(state.source_slots)[0]
        _picture(axes[0], unit(frame), f"frame {time}")
        _picture(axes[1], drawn, "all slots")
        for s, mask in enumerate(masks):
            _picture(axes[2 + s], mask.unsqueeze(-1) * drawn, f"slot {s}")
    axes = rows[2].subplots(1, 6)
    assert now.binding is not None
    assert then.binding is not None
    each = 1 if model.spec is None else model.spec.actions_per_object
    bound = bind(now.binding, shown.actions[:1], each)[0]
    lifted, target = _lifted(predicted), _lifted(then)
    size = float(torch.maximum(lifted.abs().max(), target.abs().max())) or 1.0
    _matrix(rows[2], axes[0], now.binding[0], "M_t", ("object", "slot"), (0, 1))
    _matrix(rows[2], axes[1], then.binding[0], "M_t+1", ("object", "slot"), (0, 1))
    _matrix(rows[2], axes[2], bound, f"bound action: {shown.names[0]}", ("slot", "direction"), (0, 1))
    _matrix(rows[2], axes[3], lifted, "lifted prediction", ("object", "embedding"), (-size, size))
    _matrix(rows[2], axes[4], target, "lifted frame t+1", ("object", "embedding"), (-size, size))
    _matrix(rows[2], axes[5], lifted - target, "difference", ("object", "embedding"), (-size, size))
    return figure


def _lifted(state: SlotState) -> Tensor:
    """The slots of one state as library objects."""
    assert state.lift is not None
    return (state.lift @ state.slots)[0]


def _rollout(model: WorldModel, shown: Shown) -> Any:
    """Truth above, the model's open-loop prediction from the first frame below; None for models that cannot draw."""
    start = None if shown.privileged is None else Privileged(shown.privileged.object_ids[:1])
    drawn = imagine(model, shown.frames[:1], shown.actions, start).pictures
    if drawn is None:
        return None
    steps = len(shown.actions)
    figure = _figure(1.25 * (steps + 1), 2.9)
    axes = figure.subplots(2, steps + 1, squeeze=False)
    for t, (frame, picture) in enumerate(zip(shown.frames, drawn[0], strict=True)):
        _picture(axes[0, t], unit(frame), "start" if t == 0 else f"{t}: {shown.names[t - 1]}")
        error = float((picture - unit(frame)).square().mean())
        _picture(axes[1, t], picture.clamp(0, 1), f"error {error:.0e}")
    axes[0, 0].set_ylabel("truth", fontsize=9)
    axes[1, 0].set_ylabel("predicted", fontsize=9)
    return figure


def _masks(model: WorldModel, shown: Shown) -> Any:
    """The paper's figure of Σ_N-CSWM: masks (of the first and the last frame), and where all frames' embeddings lie.

    None for models without masks.
    """
    frames = shown.frames
    masks = model.masks(frames[[0, -1]])
    if masks is None:
        return None
    slots = masks.shape[1]
    # With a slot for each library object, and actions that go to them in their order, the mask has the object's number.
    own = model.spec is not None and slots == model.spec.n and model.extractor is None
    present = set(shown.privileged.object_ids[0].tolist()) if shown.privileged is not None and own else set()
    columns = min(10, slots)
    rows = -(-slots // columns)
    figure = _figure(1.1 * (columns + 6), max(3.0, 2.5 * rows))
    left, right = figure.subfigures(1, 2, width_ratios=(columns + 1.5, 4.5))
    axes = left.subplots(2 * rows, columns + 1, squeeze=False)
    for place in axes.flat:
        place.axis("off")
    for time, above, some in zip((0, len(frames) - 1), (0, rows), masks, strict=True):
        axes[above, 0].axis("on")
        _picture(axes[above, 0], unit(frames[time]), f"frame {time}")
        for s, mask in enumerate(some):
            place = axes[above + s // columns, 1 + s % columns]
            place.axis("on")
            place.imshow(mask.cpu().numpy(), vmin=0, vmax=1, cmap="gray")
            place.set_title(f"mask {s}" + (" (present)" if s in present else ""), fontsize=7)
            place.set_xticks([])
            place.set_yticks([])
    scatter = right.subplots(1, 1)
    if isinstance(shown.states, SlotState):
        embeddings = shown.states.slots.cpu().numpy()
    else:
        embeddings = model.embed(shown.states).unsqueeze(1).cpu().numpy()
    for s in range(embeddings.shape[1]):
        scatter.plot(embeddings[:, s, 0], embeddings[:, s, -1], ".-", lw=0.6, label=str(s))
    scatter.set_title("embeddings of all frames (first and last dimension)", fontsize=8)
    scatter.legend(fontsize=6, ncols=2, title="slot", title_fontsize=6)
    return figure
