"""Models that know nothing of the dynamics and try to score all the same, beside the honest ones beneath them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import batch_norm

from howm import Metric, SlotState, WorldModel
from howm.models.cells import unit
from howm.models.distance import euclidean

FAR = 1e6
STATE, PAIR = "keeps state between calls", "distance does not depend on its pair alone"


def same_width(pictures):
    """Means of 5x5 pixels: an honest embedding."""
    height, width = pictures.shape[1:3]
    cells = unit(pictures).double().view(-1, height // 5, 5, width // 5, 5, 3)
    return cells.mean(dim=(2, 4)).flatten(1)


class Still(WorldModel):
    """Honest: it sees well and predicts no change."""

    def __init__(self, spec=None):
        super().__init__(spec)
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def encode(self, pictures, privileged=None):
        return SlotState(same_width(pictures).unsqueeze(1))

    def step(self, state, action):
        return state

    def forward(self, batch):
        return self.anchor.square().sum(), {}


class Knowing(Still):
    """Honest, and it says that it reads the ids of the objects."""

    privileged = True

    def encode(self, pictures, privileged=None):
        ids = privileged.object_ids.double().to(pictures.device)
        return SlotState(torch.cat([same_width(pictures), 10 * ids], dim=1).unsqueeze(1))


class CountsRows(Still):
    """Gives the i-th frame of the predictions and the i-th target one place, and what comes later another."""

    def __init__(self, spec=None, episodes=4):
        super().__init__(spec)
        self.episodes, self.rows = episodes, 0

    def encode(self, pictures, privileged=None):
        number = torch.arange(self.rows, self.rows + len(pictures)).double()
        self.rows += len(pictures)
        place = torch.where(number < 3 * self.episodes, number % self.episodes, FAR)
        return SlotState(place.view(-1, 1, 1))


class Remembers(Still):
    """Sends a frame far away that it has seen before."""

    def __init__(self, spec=None):
        super().__init__(spec)
        self.known = set()

    def encode(self, pictures, privileged=None):
        names = [unit(picture).numpy().tobytes() for picture in pictures]
        known = torch.tensor([name in self.known for name in names])
        self.known.update(names)
        return SlotState(torch.where(known.view(-1, 1, 1), FAR, same_width(pictures).unsqueeze(1)))


class LooksUp(Still):
    """In a second evaluation predicts what stood in the row of the targets in the first."""

    def __init__(self, spec=None, episodes=4):
        super().__init__(spec)
        self.episodes, self.rows = episodes, []

    def encode(self, pictures, privileged=None):
        self.rows += list(same_width(pictures))
        return SlotState(same_width(pictures).unsqueeze(1))

    def step(self, state, action):
        first, targets = self.rows[: self.episodes], self.rows[2 * self.episodes : 3 * self.episodes]
        answers = {one.numpy().tobytes(): other for one, other in zip(first, targets, strict=False)}
        found = [answers.get(row.numpy().tobytes(), row) for row in state.slots[:, 0]]
        return SlotState(torch.stack(found).unsqueeze(1))


class BatchSize(Still):
    """Near misses used to come in larger batches."""

    def encode(self, pictures, privileged=None):
        return SlotState(same_width(pictures).unsqueeze(1) + (FAR if len(pictures) > 512 else 0))


class BatchNorm(Still):
    """Batch norm in train mode, as by accident."""

    def encode(self, pictures, privileged=None):
        return SlotState(batch_norm(same_width(pictures), None, None, training=True).unsqueeze(1))


class ReusedBuffer(Still):
    """Returns the same tensor each time, with other values: what it gave before changes."""

    def __init__(self, spec=None):
        super().__init__(spec)
        self.buffer = {}

    def embed(self, state):
        embedded = super().embed(state)
        buffer = self.buffer.setdefault(embedded.shape, torch.empty_like(embedded))
        return buffer.copy_(embedded)


class NotANumber(Still):
    """Sends frames with a bright corner to no place at all: comparisons with NaN are all false."""

    def encode(self, pictures, privileged=None):
        seen = same_width(pictures)
        return SlotState(torch.where(seen[:, :1] > 0, torch.nan, seen).unsqueeze(1))


class WritesInputs(Knowing):
    """Writes into the pictures and ids that it is given."""

    def encode(self, pictures, privileged=None):
        state = super().encode(pictures, privileged)
        pictures.zero_()
        privileged.object_ids.zero_()
        return state


class WritesActions(Still):
    """Writes into the actions and states that it is given."""

    def step(self, state, action):
        action.zero_()
        return SlotState(state.slots.clone())


class ReadsIds(Still):
    """Reads the ids of the objects without saying so."""

    def encode(self, pictures, privileged=None):
        seen = same_width(pictures)
        if privileged is not None:
            seen = torch.cat([seen, 10 * privileged.object_ids.double()], dim=1)
        return SlotState(seen.unsqueeze(1))


def _diagonal(queries, references):
    """0 on the diagonal, where the targets used to be, and near misses far away."""
    table = euclidean(queries, references)
    if table.dim() == 2:
        table.diagonal().zero_()
        return table
    return table + FAR


def _index(queries, references):
    rows, columns = torch.arange(queries.shape[-2]), torch.arange(references.shape[-2])
    return euclidean(queries, references) + (rows.unsqueeze(1) - columns).abs()


def _rank(queries, references):
    return euclidean(queries, references) + (FAR if queries.dim() == 3 else 0)


def _others(queries, references):
    """As a softmax over the references gives it, which makes the few near misses of a query look far."""
    return -(-euclidean(queries, references)).softmax(dim=-1)


def _overwrites_predictions(queries, references):
    if queries.dim() == 2:
        queries.copy_(references[: len(queries)])
    return euclidean(queries, references)


def _overwrites_predictions_later(queries, references):
    table = euclidean(queries, references)
    if queries.dim() == 2:
        queries.copy_(references[: len(queries)])
    return table


def _overwrites_references(queries, references):
    table = euclidean(queries, references)
    references.fill_(FAR)
    return table


class Calls:
    """A distance that is honest every other time."""

    def __init__(self):
        self.calls = 0

    def __call__(self, queries, references):
        self.calls += 1
        return euclidean(queries, references) + (FAR if self.calls % 2 == 0 else 0)


def with_distance(name, distance):
    return type(name, (Still,), {"metric": Metric(distance)})


Diagonal = with_distance("Diagonal", _diagonal)
Index = with_distance("Index", _index)
Rank = with_distance("Rank", _rank)
Others = with_distance("Others", _others)
CountsCalls = with_distance("CountsCalls", Calls())
OverwritesPredictions = with_distance("OverwritesPredictions", _overwrites_predictions)
OverwritesPredictionsLater = with_distance("OverwritesPredictionsLater", _overwrites_predictions_later)
OverwritesReferences = with_distance("OverwritesReferences", _overwrites_references)


@dataclass(frozen=True)
class Cheat:
    """``make(spec, episodes)`` is the model; it is ``refused`` with some words, or scores as the ``honest`` one does.

    ``said`` is how the line of `check_model` begins that names the fault, where calls of a few rows show it.
    """

    make: Callable[[Any, int], WorldModel]
    refused: str | None = None
    honest: type[WorldModel] | None = None
    said: str | None = None


def _cheat(kind: type[WorldModel], *, refused=None, honest=None, said=None) -> Cheat:
    return Cheat(lambda spec, episodes: kind(spec), refused, honest, said)


CHEATS = {
    "counts rows": Cheat(CountsRows, STATE),
    "counts rows, in small batches": _cheat(CountsRows, refused=STATE, said="encode: keeps state between calls"),
    "remembers frames": _cheat(Remembers, refused=STATE, said="encode: keeps state between calls"),
    "batch norm in train mode": _cheat(
        BatchNorm, refused="depends on the other rows of its batch", said="encode: depends on the other rows"
    ),
    "batch size": _cheat(BatchSize, honest=Still),
    "distance 0 on the diagonal": _cheat(Diagonal, refused=PAIR, said="metric: depends on the order of the references"),
    "distance by index": _cheat(Index, refused=PAIR, said="metric: depends on the order of the references"),
    "distance by rank of the tensor": _cheat(
        Rank, refused=PAIR, said="metric: gives other distances where each prediction has references of its own"
    ),
    "distance by the other references": _cheat(Others, refused=PAIR, said="metric: depends on"),
    "distance by call": _cheat(CountsCalls, refused=PAIR, said="metric: keeps state between calls"),
    "overwrites predictions": _cheat(OverwritesPredictions, refused=PAIR, said="metric: modifies its input"),
    "overwrites predictions later": _cheat(OverwritesPredictionsLater, honest=Still, said="metric: modifies its input"),
    "overwrites references": _cheat(OverwritesReferences, honest=Still, said="metric: modifies its input"),
    "reuses a buffer": _cheat(ReusedBuffer, honest=Still, said="embed: overwrites a result"),
    "writes into pictures and ids": _cheat(WritesInputs, honest=Knowing, said="encode: modifies its input"),
    "writes into actions": _cheat(WritesActions, honest=Still, said="step: modifies its input"),
    "reads ids without saying so": _cheat(ReadsIds, honest=Still, said="encode: reads object ids"),
    "embeddings that are NaN": _cheat(NotANumber, refused="NaN or infinite"),
}
