"""How many references are nearer than a target, and how many as near, without measuring every distance.

A matrix product tells squared distances up to rounding, for which there is a bound. What the bound leaves in doubt is
measured exactly. The counts are those from all distances, to the last one.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from howm.models.distance import euclidean

_MOST_MEASURED = 1 << 22  # numbers of embeddings that are measured exactly for one chunk of queries
_LEAST = 1e-30  # of squares of numbers below 1: what underflow in float32 can do is far less
_AT_ONCE = 1 << 20  # pairs of equal labels that are looked at for one chunk of queries


def compare_distances(distances: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is nearer than its target, and what is as near."""
    # NaN compares false with everything, so left alone it would never count as a rival.
    own = np.where(np.isfinite(own), own, 0.0)
    distances = np.where(np.isfinite(distances), distances, -np.inf)
    return distances < own, distances == own


class NearCounts:
    """Counts among one set of references, given in float64, for chunk after chunk of queries.

    What shares the target's label does not count, but for the target itself.
    """

    def __init__(self, references: Float[Tensor, "T F"], labels: Int[np.ndarray, " T"]) -> None:
        self.references, self.labels = references, labels
        self.by_label = np.argsort(labels, kind="stable")
        ordered = labels[self.by_label]
        self.first, self.last = (np.searchsorted(ordered, labels, side) for side in ("left", "right"))
        largest = float(references.abs().max()) if references.numel() else 0.0
        self.usable = np.isfinite(largest) and 1e-100 < largest < 1e100
        # A power of two, by which numbers are multiplied exactly, so that no square overflows in float32.
        self.scale = 2.0 ** -np.ceil(np.log2(largest)) if self.usable else 1.0
        self.rough: dict[torch.dtype, tuple[Tensor, Tensor]] = {}
        self.buffer: dict[torch.dtype, Tensor] = {}

    def __call__(
        self, queries: Float[Tensor, "P F"], target: Int[np.ndarray, " P"]
    ) -> tuple[Float[np.ndarray, " P"], Int[np.ndarray, "2 P"]] | None:
        """Each query's distance to its target, and how many references are nearer and as near; None where it would not
        pay, or where some number is not finite."""
        if not self.usable or not bool((queries.abs().max() < 4 / self.scale).all()):
            return None
        own = pair_distances(queries, self.references[torch.from_numpy(target)])
        for dtype in (torch.float32, torch.float64):
            found = self._split(queries, own, target, dtype)
            if found is None:
                continue
            nearer, row, column = found
            distances = pair_distances(queries[row], self.references[column]).numpy()
            rows, columns = row.numpy(), column.numpy()
            rival = (self.labels[columns] != self.labels[target][rows]) | (columns == target[rows])
            less, same = compare_distances(distances, own.numpy()[rows])
            counts = [np.bincount(rows[rival & group], minlength=len(queries)) for group in (less, same)]
            return own.numpy(), np.stack([counts[0] + nearer, counts[1]])
        return None

    def _split(
        self, queries: Float[Tensor, "P F"], own: Float[Tensor, " P"], target: Int[np.ndarray, " P"], dtype: torch.dtype
    ) -> tuple[Int[np.ndarray, " P"], Int[Tensor, " D"], Int[Tensor, " D"]] | None:
        """How many rivals are surely nearer than the target, and the pairs that are in doubt; None if too many are."""
        # |q|² + |r|² − 2qr ± slack ≷ own², where slack is a share of |q|² + |r|² + own²; what is q's alone is on the
        # right. The share is several times the bound of a sum of F products, in any order, of rounded numbers.
        share = 4 * (queries.shape[1] + 8) * float(torch.finfo(dtype).eps)
        if dtype not in self.rough:
            scaled = self.references * self.scale
            self.rough[dtype] = (scaled.to(dtype).t(), ((1 - share) * scaled.square().sum(dim=1)).to(dtype))
            self.longest = float(scaled.square().sum(dim=1).max())
        references, lengths = self.rough[dtype]
        scaled = queries * self.scale
        length, square = scaled.square().sum(dim=1), (own * self.scale).square()
        limits = (1 + share) * square - (1 - share) * length + _LEAST
        if self.buffer.get(dtype, limits[:0]).numel() < len(queries) * len(lengths):
            self.buffer[dtype] = torch.empty(len(queries) * len(lengths), dtype=dtype)
        rough = self.buffer[dtype][: len(queries) * len(lengths)].view(len(queries), -1)
        torch.addmm(lengths, scaled.to(dtype), references, alpha=-2, out=rough)
        near = torch.le(rough, limits.to(dtype).unsqueeze(1))
        most = _MOST_MEASURED // max(1, queries.shape[1])
        nearer = np.zeros(len(queries), dtype=np.int64)
        if int(np.count_nonzero(near.numpy())) > most // 8:  # not a good model: many references are surely nearer
            surely = limits - 3 * share * (length + self.longest + square) - 3 * _LEAST
            sure = torch.lt(rough, surely.to(dtype).unsqueeze(1))
            equal = self._equal_labels(sure.numpy(), target)
            if equal is None:
                return None
            nearer = np.count_nonzero(sure.numpy(), axis=1) - equal
            near &= ~sure
        if int(np.count_nonzero(near.numpy())) > most:
            return None
        place = torch.from_numpy(find_true(near.numpy().reshape(-1)))
        return nearer, place // len(lengths), place % len(lengths)

    def _equal_labels(
        self, sure: Bool[np.ndarray, "P T"], target: Int[np.ndarray, " P"]
    ) -> Int[np.ndarray, " P"] | None:
        """How many of each row are no rivals, because they share the target's label; None where very many may be."""
        first, count = self.first[target], (self.last - self.first)[target]
        if count.sum() > _AT_ONCE:
            return None
        row = np.repeat(np.arange(len(target)), count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]
        return np.bincount(row[sure[row, self.by_label[place]]], minlength=len(target))


def pair_distances(a: Float[Tensor, "M F"], b: Float[Tensor, "M F"]) -> Float[Tensor, " M"]:
    return euclidean(a.unsqueeze(1), b.unsqueeze(1))[:, 0, 0]


def find_true(flags: Bool[np.ndarray, " size"]) -> Int[np.ndarray, " found"]:
    """As `np.flatnonzero`, many times faster where few are true: eight are looked at together."""
    whole = len(flags) // 8 * 8
    words = np.flatnonzero(flags[:whole].view(np.uint64))
    places = (8 * words[:, None] + np.arange(8)).reshape(-1)
    return np.concatenate([places[flags[places]], whole + np.flatnonzero(flags[whole:])])
