"""Pictures of what a model has learned: bindings, masks, and predictions beside the truth."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from howm.dataset import Episodes
from howm.errors import HowmError
from howm.models.bind import bind
from howm.models.cswm import CSWM
from howm.models.extract import join_cells, unit
from howm.models.howm import HOWM
from howm.models.worldmodel import State, WorldModel, device_of
from howm.storage import written_whole

_ARROWS = "↑→↓←"  # of directions 0-3; in Rush Hour relative to the car


@torch.no_grad()
def figures(model: WorldModel, episodes: Episodes, episode: int, steps: int) -> dict[str, Any]:
    """All pictures that can be drawn of a model on one episode, by name."""
    if not 0 <= episode < len(episodes):
        raise HowmError(f"episode {episode} does not exist; there are {len(episodes)}")
    if not 1 <= steps <= episodes.steps:
        raise HowmError(f"{steps} steps cannot be shown of episodes of {episodes.steps}; give 1 to {episodes.steps}")
    model.eval()
    frames = torch.from_numpy(episodes.observe(np.full(steps + 1, episode), np.arange(steps + 1))).to(device_of(model))
    actions = torch.from_numpy(episodes.actions[episode, :steps].astype(np.int64)).to(frames.device)
    if isinstance(model, HOWM):
        names = [_named(action, episodes.renderer is not None) for action in actions.tolist()]
        return {
            "binding": _binding(model, frames, actions, names[0]),
            "rollout": _rollout(model, frames, actions, names),
        }
    masks = model.masks(frames[[0, -1]])
    if masks is None:
        raise HowmError(f"{type(model).__name__} has no masks that could be drawn; give it a method masks(obs)")
    return {"masks": _masks(model, frames, masks, episodes, episode)}


def save_figure(figure: Any, path: Path) -> None:
    with written_whole(path) as temporary:
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


def _named(action: int, known: bool) -> str:
    """What a direction means is known of our worlds only."""
    return f"object {action // 4} {_ARROWS[action % 4]}" if known else f"object {action // 4}, {action % 4}"


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


def _slot_pictures(model: HOWM, slots: Tensor) -> Tensor:
    """What each slot contributes to the picture, (S, H, W, 3)."""
    extractor, spec = model.extractor, model.extractor.spec
    masks = extractor.masks(slots)[0]
    pixels = join_cells(masks, spec.height, spec.width, spec.cell_pixels)
    return pixels * extractor.draw(slots)


def _binding(model: HOWM, frames: Tensor, actions: Tensor, name: str) -> Any:
    """The paper's figure of Action Attention: slots in their order, M_t, M_t+1, ā_t, lifted embeddings, difference."""
    now, then = model.encode(frames[:1]), model.encode(frames[1:2])
    predicted = model.step(now, actions[:1])
    slots = now.slots.shape[1]
    figure = _figure(14, 6.5)
    rows = figure.subfigures(3, 1, height_ratios=(1, 1, 1.6))
    for row, frame, state, time in ((rows[0], frames[0], now, "t"), (rows[1], frames[1], then, "t+1")):
        axes = row.subplots(1, slots + 2)
        assert state.seen is not None
        _picture(axes[0], unit(frame), f"frame {time}")
        _picture(axes[1], model.extractor.draw(state.seen)[0], "all slots")
        for s, picture in enumerate(_slot_pictures(model, state.seen)):
            _picture(axes[2 + s], picture, f"slot {s}")
    axes = rows[2].subplots(1, 6)
    assert now.binding is not None
    assert then.binding is not None
    told = bind(now.binding, actions[:1])[0]
    lifted, target = model.lifted(predicted)[0], model.lifted(then)[0]
    size = float(torch.maximum(lifted.abs().max(), target.abs().max())) or 1.0
    _matrix(rows[2], axes[0], now.binding[0], "M_t", ("object", "slot"), (0, 1))
    _matrix(rows[2], axes[1], then.binding[0], "M_t+1", ("object", "slot"), (0, 1))
    _matrix(rows[2], axes[2], told, f"bound action: {name}", ("slot", "direction"), (0, 1))
    _matrix(rows[2], axes[3], lifted, "lifted prediction", ("object", "embedding"), (-size, size))
    _matrix(rows[2], axes[4], target, "lifted frame t+1", ("object", "embedding"), (-size, size))
    _matrix(rows[2], axes[5], lifted - target, "difference", ("object", "embedding"), (-size, size))
    return figure


def _rollout(model: HOWM, frames: Tensor, actions: Tensor, names: list[str]) -> Any:
    """Truth above, the model's open-loop prediction from the first frame below."""
    state: State = model.encode(frames[:1])
    steps = len(actions)
    figure = _figure(1.25 * (steps + 1), 2.9)
    axes = figure.subplots(2, steps + 1, squeeze=False)
    for t in range(steps + 1):
        _picture(axes[0, t], unit(frames[t]), "start" if t == 0 else f"{t}: {names[t - 1]}")
        picture = model.draw(state)[0]
        error = float((picture - unit(frames[t])).square().mean())
        _picture(axes[1, t], picture, f"error {error:.0e}")
        if t < steps:
            state = model.step(state, actions[t : t + 1])
    axes[0, 0].set_ylabel("truth", fontsize=9)
    axes[1, 0].set_ylabel("predicted", fontsize=9)
    return figure


def _masks(model: WorldModel, frames: Tensor, masks: Tensor, episodes: Episodes, episode: int) -> Any:
    """The paper's figure of Σ_N-CSWM: masks (of the first and the last frame), and where all frames' embeddings lie."""
    ids = None
    if episodes.scene_ids is not None:
        ids = torch.from_numpy(np.repeat(episodes.scene_ids[episode : episode + 1], len(frames), axis=0))
    embeddings = model.encode(frames, ids).slots.cpu().numpy()
    slots = masks.shape[1]
    own = isinstance(model, CSWM) and model.slots == model.n  # the mask of an object has the object's number
    present = set(ids[0].tolist()) if ids is not None and own else set()
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
    for s in range(embeddings.shape[1]):
        scatter.plot(embeddings[:, s, 0], embeddings[:, s, -1], ".-", lw=0.6, label=str(s))
    scatter.set_title("embeddings of all frames (first and last dimension)", fontsize=8)
    scatter.legend(fontsize=6, ncols=2, title="slot", title_fontsize=6)
    return figure
