"""The numbers in which planners compare states: a row for each library object, or one row for the whole state."""

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from howm.errors import HowmError
from howm.models.world_model import State, WorldModel

Kind = Literal["objects", "embedding"]
Rows = Float[np.ndarray, "B R D"]
Layout = tuple[Int[np.ndarray, "G M"], Bool[np.ndarray, "G M"], Int[np.ndarray, "G M A"]]


class View(ABC):
    """Axes: B states, R rows of numbers, D numbers of a row, G goals, M rows that matter to a goal, A actions a row."""

    def __init__(self, model: WorldModel) -> None:
        assert model.spec is not None
        self.model, self.n, self.per_object = model, model.spec.n, model.spec.actions_per_object

    @abstractmethod
    def rows(self, state: State) -> Rows:
        """The numbers of each state."""

    @abstractmethod
    def change(self, rows: Rows, after: Rows) -> Float[np.ndarray, " B"]:
        """How far apart two states are: of a move, how large it is."""

    @abstractmethod
    def owner(self, action: Int[np.ndarray, " B"]) -> Int[np.ndarray, " B"]:
        """The row that each library action is about."""

    @abstractmethod
    def apart(self, rows: Rows, others: Rows, unit: Float[np.ndarray, " B"]) -> Bool[np.ndarray, "B N"]:
        """Which library objects are more than half a move away from where they are in the other state."""

    @abstractmethod
    def layout(self, able: Bool[np.ndarray, "G N"], needed: Bool[np.ndarray, "G N"]) -> Layout:
        """The rows that matter, whether each counts, and their actions, filled up with -1: those of able objects."""


class ObjectView(View):
    """The model's rows of objects; an action is about the row of the object that acts."""

    def rows(self, state: State) -> Rows:
        found = self.model.objects(state)
        assert found is not None
        return _numbers(found)

    def change(self, rows: Rows, after: Rows) -> Float[np.ndarray, " B"]:
        return np.asarray(_length(after - rows).max(axis=1, initial=0.0))

    def owner(self, action: Int[np.ndarray, " B"]) -> Int[np.ndarray, " B"]:
        return np.asarray(action // self.per_object)

    def apart(self, rows: Rows, others: Rows, unit: Float[np.ndarray, " B"]) -> Bool[np.ndarray, "B N"]:
        return np.asarray(_length(rows - others) > 0.5 * unit[:, None])

    def layout(self, able: Bool[np.ndarray, "G N"], needed: Bool[np.ndarray, "G N"]) -> Layout:
        rows, counts = _packed(able | needed)
        acts = counts & np.take_along_axis(able, rows, axis=1)
        actions = rows[..., None] * self.per_object + np.arange(self.per_object)
        return rows, counts & np.take_along_axis(needed, rows, axis=1), np.where(acts[..., None], actions, -1)


class EmbeddingView(View):
    """A state's embedding as one row, compared by the model's metric; every action is about it."""

    def rows(self, state: State) -> Rows:
        return _numbers(self.model.embed(state))[:, None]

    def change(self, rows: Rows, after: Rows) -> Float[np.ndarray, " B"]:
        return self.distances(rows, after)[:, 0]

    def distances(
        self, rows: Float[np.ndarray, "B 1 D"], others: Float[np.ndarray, "B P D"]
    ) -> Float[np.ndarray, "B P"]:
        """By the metric, of the one row of each state to several others."""
        found = self.model.metric.pairwise(torch.from_numpy(rows), torch.from_numpy(np.ascontiguousarray(others)))
        return np.asarray(found.numpy()[:, 0])

    def owner(self, action: Int[np.ndarray, " B"]) -> Int[np.ndarray, " B"]:
        return np.zeros_like(action)

    def apart(self, rows: Rows, others: Rows, unit: Float[np.ndarray, " B"]) -> Bool[np.ndarray, "B N"]:
        return np.zeros((len(rows), self.n), dtype=bool)

    def layout(self, able: Bool[np.ndarray, "G N"], needed: Bool[np.ndarray, "G N"]) -> Layout:
        actions, real = _packed(able.repeat(self.per_object, axis=1))
        one = np.zeros((len(able), 1), dtype=np.int64)
        return one, one == 0, np.where(real, actions, -1)[:, None]


def make_view(model: WorldModel, start: State, kind: Kind | None) -> View:
    """Rows of objects where the model has them, unless another view is asked for."""
    if kind not in (None, "objects", "embedding"):
        raise HowmError(f"cost must be objects or embedding, got {kind!r}")
    if model.spec is None:
        raise HowmError(f"{type(model).__name__} has no spec, so its actions are unknown; call super().__init__(spec)")
    has_objects = model.objects(start[:1]) is not None
    if kind == "objects" and not has_objects:
        raise HowmError(
            f"{type(model).__name__} has no row for each object; use cost=embedding, or define objects(state)"
        )
    return ObjectView(model) if has_objects and kind != "embedding" else EmbeddingView(model)


def _numbers(values: Tensor) -> np.ndarray:
    return np.asarray(values.detach().double().cpu().numpy())


def _length(vectors: Float[np.ndarray, "*shape D"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(np.sqrt(np.square(vectors).sum(axis=-1)))


def _packed(chosen: Bool[np.ndarray, "G N"]) -> tuple[Int[np.ndarray, "G M"], Bool[np.ndarray, "G M"]]:
    """The numbers of the chosen columns of each row, and which of them are real: shorter rows are filled up."""
    most = max(1, int(chosen.sum(axis=1).max(initial=0)))
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :most]
    return order, np.take_along_axis(chosen, order, axis=1)
