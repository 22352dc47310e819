"""k-step prediction ranked among reference states, in the paper's pool and in the hard pool, beside four controls.

The paper's pool holds frame k of every episode. It asks little of the dynamics: random states are far apart, so a
good encoder alone scores high. The hard pool adds near misses that only a model of the dynamics can tell from the
truth: the query's own frames 0 ... k-1 and the ends of other k-step action sequences from its own start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.batches import Rollouts
from howm.errors import HowmError
from howm.models.worldmodel import State, WorldModel, device_of, evaluating
from howm.ranking import PADDING, Distance, Metrics, euclidean, ranks_in_both_pools, summarise

COUNTERFACTUALS = 20
CONTROLS = ("do_nothing", "random", "constant", "oracle")
RANDOM_SIZE = 8  # dimensions of the control `random`
_STREAM = 200  # of random numbers, apart from those of data and training

Scores = dict[str, dict[str, Metrics]]  # pool ("easy" or "hard") → steps → metrics


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model and of the controls, by pool and number of steps."""

    model: Scores
    controls: dict[str, Scores]

    def to_json(self) -> dict[str, Any]:
        return {
            "model": _plain(self.model),
            "controls": {name: _plain(scores) for name, scores in self.controls.items()},
        }


def _plain(scores: Scores) -> dict[str, dict[str, Any]]:
    return {pool: {k: metrics.to_json() for k, metrics in by_step.items()} for pool, by_step in scores.items()}


@torch.no_grad()
def evaluate(
    model: WorldModel,
    rollouts: Rollouts,
    steps: Sequence[int] = (1, 5, 10),
    *,
    controls: bool = True,
    seed: int = 0,
    chunk: int = 512,
) -> Evaluation:
    """Rank the k-step prediction of every episode, from its first frame, for each k of ``steps``."""
    if not isinstance(rollouts, Rollouts):
        raise HowmError(f"{type(rollouts).__name__} cannot be evaluated, Rollouts can; wrap it: Rollouts(episodes)")
    for k in steps:
        if not 1 <= k <= rollouts.steps:
            raise HowmError(f"{k} steps cannot be evaluated on episodes of {rollouts.steps} steps; make longer ones")
    with evaluating(model):
        scores = _evaluate(model, rollouts, steps, controls, seed, chunk)
    return Evaluation(scores.pop("model"), {name: scores[name] for name in CONTROLS if name in scores})


def _evaluate(
    model: WorldModel, rollouts: Rollouts, steps: Sequence[int], controls: bool, seed: int, chunk: int
) -> dict[str, Scores]:
    """The scores of the model and of the controls, by name."""
    predictions = _predictions(model, rollouts, steps, chunk)
    start = _embed_frames(model, rollouts, 0, chunk)
    found: dict[str, Scores] = {}
    for k in steps:
        pool = _Pool.make(rollouts, k, np.random.default_rng([seed, _STREAM, k]))
        predicted = {"model": predictions[k]} | ({"do_nothing": start} if controls else {})
        views: list[tuple[_View, dict[str, Tensor]]] = [(_ModelView(model, rollouts, pool, chunk), predicted)]
        if controls:
            views += _control_views(rollouts, pool, seed)
        for view, predicted in views:
            for name, scores in _score(view, predicted, pool, rollouts, seed, chunk).items():
                for kind, metrics in scores.items():
                    found.setdefault(name, {}).setdefault(kind, {})[str(k)] = metrics
    return found


@torch.no_grad()
def hard_ranks(
    model: WorldModel,
    rollouts: Rollouts,
    k: int,
    predicted: Float[Tensor, "E F"] | None = None,
    seed: int = 0,
    chunk: int = 512,
) -> Float[np.ndarray, "E"]:
    """Ranks in the hard pool of the k-step predictions of all episodes, or of embeddings predicted in another way."""
    pool = _Pool.make(rollouts, k, np.random.default_rng([seed, _STREAM, k]))
    if predicted is None:
        predicted = _predictions(model, rollouts, (k,), chunk)[k]
    return _ranks(_ModelView(model, rollouts, pool, chunk), {"": predicted}, pool, rollouts, chunk)[""][1]


def chunks(total: int, size: int) -> list[slice]:
    """0 ... total-1 in slices of at most ``size``."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def _predictions(model: WorldModel, rollouts: Rollouts, steps: Sequence[int], chunk: int) -> dict[int, Tensor]:
    """Embeddings of the model's own open-loop predictions after each number of steps."""
    device = device_of(model)
    found: dict[int, list[Tensor]] = {k: [] for k in steps}
    for rows in chunks(len(rollouts), chunk):
        state = _encode(model, rollouts.observe(0, rows), rollouts.object_ids(rows))
        actions = rollouts.actions(max(steps))[rows].to(device)
        for t in range(max(steps)):
            state = model.step(state, actions[:, t])
            if t + 1 in found:
                found[t + 1].append(model.embed(state).cpu())
    return {k: torch.cat(parts) for k, parts in found.items()}


def _encode(model: WorldModel, obs: Tensor, object_ids: Tensor | None) -> State:
    device = device_of(model)
    return model.encode(obs.to(device), None if object_ids is None else object_ids.to(device))


def _embed_frames(model: WorldModel, rollouts: Rollouts, time: int, chunk: int) -> Float[Tensor, "E F"]:
    parts = [
        model.embed(_encode(model, rollouts.observe(time, rows), rollouts.object_ids(rows))).cpu()
        for rows in chunks(len(rollouts), chunk)
    ]
    return torch.cat(parts)


@dataclass(frozen=True)
class _Pool:
    """Targets (frame k of every episode) and each query's own near misses, labelled by their true state.

    ``ends`` are cells of counterfactual ends; None for imported pictures, whose world cannot be simulated.
    """

    k: int
    labels: Int[np.ndarray, "E"]
    extra_labels: Int[np.ndarray, "E X"]
    ends: Int[np.ndarray, "E C K"] | None

    @classmethod
    def make(cls, rollouts: Rollouts, k: int, rng: np.random.Generator) -> "_Pool":
        episodes = rollouts.episodes
        if episodes.cells is None:
            own = rollouts.picture_labels(k)
            return cls.labelled(k, own[:, k], own[:, :k], None)
        ends = rollouts.counterfactuals(k, COUNTERFACTUALS, rng)
        states = np.concatenate([episodes.cells[:, : k + 1], ends], axis=1)  # (E, k+1+C, K)
        scene = np.broadcast_to(episodes.scene_index[:, None, None], (*states.shape[:2], 1))
        rows = np.concatenate([scene, states], axis=2).astype(np.int32)
        labels = _label_rows(rows.reshape(-1, rows.shape[-1])).reshape(states.shape[:2])
        return cls.labelled(k, labels[:, k], np.delete(labels, k, axis=1), ends)

    @classmethod
    def labelled(cls, k: int, labels: np.ndarray, extra_labels: np.ndarray, ends: np.ndarray | None) -> "_Pool":
        """A near miss that is among the targets already would count twice as a rival: it is left out."""
        return cls(k, labels, np.where(np.isin(extra_labels, labels), PADDING, extra_labels), ends)

    def extra_frames(self, rollouts: Rollouts, rows: slice) -> tuple[Tensor, Tensor | None]:
        """Pictures and object ids of the near misses of some queries, query by query."""
        episode = np.arange(len(rollouts))[rows]
        earlier = np.stack([rollouts.episodes.observe(episode, t) for t in range(self.k)], axis=1)
        frames, count = earlier, self.k
        if self.ends is not None:
            renderer, scene_ids, _ = rollouts.episodes.state()
            ends = self.ends[rows]
            ids = np.repeat(scene_ids[rows], ends.shape[1], axis=0)
            pictures = renderer.render(ids, ends.reshape(-1, ends.shape[-1]))
            frames = np.concatenate([earlier, pictures.reshape(len(ends), -1, *renderer.shape)], axis=1)
            count += ends.shape[1]
        ids_tensor = rollouts.object_ids(rows)
        all_ids = None if ids_tensor is None else ids_tensor.repeat_interleave(count, dim=0)
        return torch.from_numpy(frames).flatten(0, 1), all_ids


def _label_rows(rows: Int[np.ndarray, "R C"]) -> Int[np.ndarray, "R"]:
    """Equal rows get equal numbers."""
    packed = np.ascontiguousarray(rows).view(f"V{rows.dtype.itemsize * rows.shape[1]}").ravel()
    return np.unique(packed, return_inverse=True)[1].reshape(-1)


class _View:
    """Embeddings of a pool: ``targets`` for all queries, ``extras`` of some."""

    distance: Distance = staticmethod(euclidean)

    def targets(self) -> Float[Tensor, "E F"]:
        raise NotImplementedError

    def extras(self, rows: slice) -> Float[Tensor, "P X F"]:
        raise NotImplementedError


class _ModelView(_View):
    def __init__(self, model: WorldModel, rollouts: Rollouts, pool: _Pool, chunk: int) -> None:
        self.model, self.rollouts, self.pool, self.chunk = model, rollouts, pool, chunk
        # The ranking knows how to be fast with the usual distance, not with what a method hides it in.
        self.distance = euclidean if type(model).distance is WorldModel.distance else model.distance

    def targets(self) -> Float[Tensor, "E F"]:
        return _embed_frames(self.model, self.rollouts, self.pool.k, self.chunk)

    def extras(self, rows: slice) -> Float[Tensor, "P X F"]:
        obs, ids = self.pool.extra_frames(self.rollouts, rows)
        parts = [
            self.model.embed(_encode(self.model, obs[part], None if ids is None else ids[part])).cpu()
            for part in chunks(len(obs), 2 * self.chunk)
        ]
        embedded = torch.cat(parts)
        return embedded.view(-1, self.pool.extra_labels.shape[1], embedded.shape[-1])


class _TableView(_View):
    """Embeddings that are at hand: the controls."""

    def __init__(self, targets: Tensor, extras: Tensor) -> None:
        self._targets, self._extras = targets, extras

    def targets(self) -> Float[Tensor, "E F"]:
        return self._targets

    def extras(self, rows: slice) -> Float[Tensor, "P X F"]:
        return self._extras[rows]


def _control_views(rollouts: Rollouts, pool: _Pool, seed: int) -> list[tuple[_View, dict[str, Tensor]]]:
    queries, extras = pool.extra_labels.shape
    noise = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, RANDOM_SIZE, generator=noise)

    views: list[tuple[_View, dict[str, Tensor]]] = [
        (_TableView(gaussian(queries), gaussian(queries, extras)), {"random": gaussian(queries)}),
        (_TableView(torch.zeros(queries, 1), torch.zeros(queries, extras, 1)), {"constant": torch.zeros(queries, 1)}),
    ]
    if pool.ends is not None:
        _, _, cells = rollouts.episodes.state()
        scene = rollouts.episodes.scene_index[:, None]

        def true_state(states: np.ndarray) -> Tensor:
            scenes = np.broadcast_to(scene.reshape(-1, *[1] * (states.ndim - 1)), (*states.shape[:-1], 1))
            return torch.from_numpy(np.concatenate([states, scenes], axis=-1).astype(np.float64))

        near = np.concatenate([cells[:, : pool.k], pool.ends], axis=1)
        view = _TableView(true_state(cells[:, pool.k]), true_state(near))
        views.append((view, {"oracle": true_state(_simulate(rollouts, pool.k))}))
    return views


def _simulate(rollouts: Rollouts, k: int) -> Int[np.ndarray, "E K"]:
    """Where the true dynamics takes every episode from its first frame."""
    renderer, scene_ids, cells = rollouts.episodes.state()
    state = cells[:, 0].astype(np.int64)
    for action in rollouts.actions(k).numpy().T:
        state, _, _ = renderer.grid.act(renderer.library.headings, scene_ids, state, action)
    return state


def _score(
    view: _View, predicted: dict[str, Tensor], pool: _Pool, rollouts: Rollouts, seed: int, chunk: int
) -> dict[str, dict[str, Metrics]]:
    """Metrics in both pools of some predictions that are compared with the same references."""
    return {
        name: {
            kind: summarise(values, rollouts.scene_index, np.random.default_rng([seed, _STREAM, pool.k]))
            for kind, values in (("easy", easy), ("hard", hard))
        }
        for name, (easy, hard) in _ranks(view, predicted, pool, rollouts, chunk).items()
    }


def _ranks(
    view: _View, predicted: dict[str, Tensor], pool: _Pool, rollouts: Rollouts, chunk: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ranks in the paper's pool and in the hard one."""
    targets = view.targets()
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in predicted}
    for rows in chunks(len(rollouts), chunk):
        extras = view.extras(rows)
        index = np.arange(len(rollouts))[rows]
        for name, prediction in predicted.items():
            found[name].append(
                ranks_in_both_pools(
                    prediction[rows],
                    targets,
                    index,
                    pool.labels,
                    extras,
                    pool.extra_labels[rows],
                    distance=view.distance,
                )
            )
    return {
        name: (np.concatenate([easy for easy, _ in parts]), np.concatenate([hard for _, hard in parts]))
        for name, parts in found.items()
    }
