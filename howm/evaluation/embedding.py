"""Embeddings of predictions and of frames, taken so that a model cannot tell a target from a near miss.

A model gets copies, and copies are kept of what it gives. Targets and near misses of many queries come in one shuffled
order, each frame once. Some first frames come twice, before the predictions and among the others: only a model whose
embedding of a frame depends on that frame alone gives the same both times.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from howm.data.privileged import Privileged
from howm.data.rollouts import Rollouts, privileged_of
from howm.errors import HowmError
from howm.evaluation.pools import Compared, _Pool, chunks
from howm.evaluation.ranking import private_distances
from howm.models.distance import guarded
from howm.models.world_model import State, WorldModel, device_of

_TWICE = 0.25  # of the first frames are embedded twice, or 64 where there are few
_ROUNDING = 1e-4  # which may depend on the batch, as a share of an embedding's length
_MOVED = 0.01  # and as a share of the distance between different frames
_FLIPS = 0.01  # of all frames: where rounding tips a decision of an honest model


def encode(model: WorldModel, pictures: Tensor, privileged: Privileged | None) -> State:
    """The state of pictures, on the model's device; the model may write into what it is given.

    Pictures are no one else's, since a world draws new ones and imported ones are picked, which copies them.
    """
    if privileged is not None and model.privileged:
        known = Privileged(privileged.object_ids.clone(), privileged.find_masks)
        return model.encode(pictures.to(device_of(model)), known)
    return model.encode(pictures.to(device_of(model)))


def embed(model: WorldModel, state: State, name: Callable[[int], str]) -> Float[Tensor, "B F"]:
    """A copy on the CPU of the embeddings, which must be finite; ``name`` says what a row is."""
    found = model.embed(state).detach().to("cpu", copy=True)
    if found.dim() != 2 or len(found) != len(state) or not found.is_floating_point():
        raise HowmError(f"embed must give floats (batch of {len(state)}, size), got {found.dtype} {tuple(found.shape)}")
    if not math.isfinite(float(found.sum(dtype=torch.float64))):  # cheaper than to look at each
        bad = (~found.isfinite().all(dim=1)).nonzero()
        if len(bad):
            raise HowmError(f"the embedding of {name(int(bad[0]))} is NaN or infinite; it has no rank")
    return found


def _name(what: str, first: int, row: int) -> str:
    return f"{what} of episode {first + row}"


@torch.no_grad()
def predict(model: WorldModel, rollouts: Rollouts, steps: Sequence[int], chunk: int) -> dict[int, Tensor]:
    """Embeddings of the model's own open-loop predictions after each number of steps, and after none."""
    found: dict[int, list[Tensor]] = {k: [] for k in (0, *steps)}
    last = max(found)
    for rows in chunks(len(rollouts), chunk):
        state = encode(model, rollouts.observe(0, rows), rollouts.privileged(0, rows))
        actions = rollouts.actions(last)[rows].to(device_of(model))
        for t in range(last + 1):
            if t > 0:
                state = model.step(state, actions[:, t - 1].clone())
            if t in found:
                what = "frame 0" if t == 0 else f"the prediction {t} step{'s' * (t > 1)} ahead"
                found[t].append(embed(model, state, partial(_name, what, rows.start)))
    return {k: torch.cat(parts) for k, parts in found.items()}


@torch.no_grad()
def compare(
    model: WorldModel,
    rollouts: Rollouts,
    pools: Mapping[int, _Pool],
    start: Float[Tensor, "E F"],
    predicted: Mapping[int, dict[str, Float[Tensor, "E F"]]],
    chunk: int,
    advance: Callable[[int], object] | None = None,
) -> dict[int, Compared]:
    """Embed all frames of some pools, each once, and measure how far predictions are from their near misses.

    ``start`` are the embeddings of frame 0 from which the predictions began. As a near miss, frame 0 is just that.
    ``advance`` is called with the number of queries that are done.
    """
    distance = guarded(model.metric)
    again = torch.full_like(start, torch.nan)
    targets = {k: torch.empty_like(start) for k in pools}
    near = {k: {name: np.empty(pool.extra_labels.shape) for name in predicted[k]} for k, pool in pools.items()}
    for rows in chunks(len(rollouts), chunk):
        frames, ends = _embed_shuffled(model, rollouts, pools, rows, start, chunk)
        again[rows] = frames[:, 0]
        frames[:, 0] = start[rows]
        for k in pools:
            targets[k][rows] = frames[:, k]
            extras = torch.cat([frames[:, :k], ends[k]], dim=1) if k in ends else frames[:, :k]
            for name, prediction in predicted[k].items():
                near[k][name][rows] = private_distances(prediction[rows], extras, distance)
        if advance is not None:
            advance(rows.stop - rows.start)
    _require_pure(model, rollouts, start, again, chunk)
    return {k: Compared(predicted[k], targets[k], near[k], distance) for k in pools}


def _embed_shuffled(
    model: WorldModel, rollouts: Rollouts, pools: Mapping[int, _Pool], rows: slice, like: Tensor, chunk: int
) -> tuple[Float[Tensor, "P frames F"], dict[int, Float[Tensor, "P C F"]]]:
    """Frames 0, 1, ... of some episodes and the ends of their near misses, as far as they are needed.

    What no pool keeps is 0; frame 0 is NaN where the start is enough.
    """
    queries, last = rows.stop - rows.start, max(pools)
    needed = {0: np.zeros((queries, last + 1), dtype=bool)}  # frames; and under k the ends of k steps
    content = blake2b(digest_size=16)
    for k, pool in pools.items():
        kept = pool.kept[rows]
        needed[0][:, k] = True
        needed[0][:, :k] |= kept[:, :k]
        if pool.ends is not None:
            needed[k] = kept[:, k:]
        content.update(np.ascontiguousarray(pool.extra_labels[rows]).tobytes())
    # The order follows from frames that the model has not seen: it cannot be known, and is the same every time.
    dice = np.random.default_rng(list(content.digest()))
    needed[0][:, 0] = dice.random(queries) < max(_TWICE, 64 / len(rollouts))
    items = np.concatenate([np.insert(np.argwhere(need), 0, k, axis=1) for k, need in needed.items()])
    items = dice.permutation(items)  # (kind, query, column)
    parts = []
    for part in chunks(len(items), chunk):
        pictures, shown = _show(rollouts, pools, rows, items[part])
        state = encode(model, pictures, shown() if model.privileged else None)

        def name(i: int, first: int = part.start) -> str:
            kind, query, column = items[first + i]
            what = f"frame {column}" if kind == 0 else f"a near miss {kind} steps ahead"
            return f"{what} of episode {rows.start + query}"

        parts.append(embed(model, state, name))
    embedded = torch.cat(parts)
    found = {k: like.new_zeros(*need.shape, like.shape[1]) for k, need in needed.items()}
    found[0][~needed[0][:, 0], 0] = torch.nan
    for kind, table in found.items():
        here = np.flatnonzero(items[:, 0] == kind)
        table[items[here, 1], items[here, 2]] = embedded[here]
    return found.pop(0), found


def _show(
    rollouts: Rollouts, pools: Mapping[int, _Pool], rows: slice, items: Integer[np.ndarray, "B 3"]
) -> tuple[Tensor, Callable[[], Privileged | None]]:
    """The pictures of some items, and what tells the truth about them."""
    kind, episode, column = items[:, 0], items[:, 1] + rows.start, items[:, 2]
    episodes = rollouts.episodes
    if episodes.states is None:
        ids = None if episodes.scene_ids is None else Privileged(torch.from_numpy(episodes.scene_ids[episode]))
        return torch.from_numpy(episodes.observe(episode, column)), lambda: ids
    world, scene_ids, states = episodes.state()
    shown = states[episode, np.where(kind == 0, column, 0)]
    for k, pool in pools.items():
        assert pool.ends is not None
        here = kind == k
        shown[here] = pool.ends[episode[here], column[here]]
    scenes = scene_ids[episode]
    return torch.from_numpy(world.render(scenes, shown)), lambda: privileged_of(world, scenes, shown)


def _require_pure(
    model: WorldModel, rollouts: Rollouts, start: Float[Tensor, "E F"], again: Float[Tensor, "E F"], chunk: int
) -> None:
    """Refuse a model that gave frame 0 another embedding ``again``, which is NaN where it was not asked again."""
    moved = _moved(start, again)
    if int(moved.sum()) <= _FLIPS * int((~again[:, 0].isnan()).sum()):
        return
    episode = int(moved.nonzero()[0])
    rows = chunks(len(rollouts), chunk)[episode // chunk]
    third = embed(model, encode(model, rollouts.observe(0, rows), rollouts.privileged(0, rows)), str)
    why = (
        "keeps state between calls, or is random"
        if bool(_moved(start, third, rows)[episode - rows.start])
        else "depends on the other rows of its batch"
    )
    raise HowmError(
        f"{type(model).__name__}.encode {why}: frame 0 of episode {episode} got two embeddings; see howm.check_model"
    )


def _moved(start: Float[Tensor, "E F"], again: Float[Tensor, "P F"], rows: slice = slice(None)) -> Tensor:
    """Whose embedding is another one, beyond rounding."""
    apart = (start - start.roll(1, dims=0)).norm(dim=1).median()
    allowed = _MOVED * apart + _ROUNDING * start[rows].norm(dim=1)
    return torch.gt((start[rows] - again).norm(dim=1), allowed)
