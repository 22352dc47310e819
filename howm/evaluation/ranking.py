"""Ranks of predictions among references, made hard to fool.

A rank is the number of references strictly nearer than the target plus the mean place among those exactly
as near, so an encoder that maps everything to one point earns the middle of the pool and not first place.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from howm.evaluation.counting import NearCounts, compare_distances
from howm.models.distance import Distance, euclidean

PADDING = -1
"""The label of an extra reference that is not there."""

# A few megabytes of distances at once: the chunk stays near the cache, and memory does not grow with P.
_CHUNK_ELEMENTS = 1 << 20


def ranks_from_distances(
    distances: Float[np.ndarray, "P T"],
    target_column: Int[np.ndarray, " P"],
    keep: Bool[np.ndarray, "P T"] | None = None,
) -> Float64[np.ndarray, " P"]:
    """Mean rank over ties of each row's target among the kept references (the target is one of them).

    What is not finite never helps: such a target comes last, such a reference counts as nearer.
    """
    if keep is None:
        keep = np.ones(distances.shape, dtype=bool)
    if keep.shape != distances.shape:
        raise ValueError(f"distances are {distances.shape}, keep is {keep.shape}")
    _check_index(target_column, *distances.shape)
    rows = np.arange(len(distances))
    if not keep[rows, target_column].all():
        raise ValueError("a query's own target cannot be left out")
    own = distances[rows, target_column]
    return _place(own, _count(distances, own, keep))


def _count(distances: np.ndarray, own: np.ndarray, keep: np.ndarray) -> Int[np.ndarray, "3 P"]:
    """For each row: how many kept references are nearer than the target, how many as near, and how many there are."""
    groups = [keep & group for group in compare_distances(distances, own[:, None])]
    return np.stack([np.count_nonzero(group, axis=1) for group in (*groups, keep)])


def _place(own: np.ndarray, counts: Int[np.ndarray, "3 P"]) -> Float64[np.ndarray, " P"]:
    nearer, ties, kept = counts
    found: Float64[np.ndarray, " P"] = np.where(np.isfinite(own), nearer + (ties + 1) / 2, kept.astype(np.float64))
    return found


def ranks(
    predictions: Float[Tensor, "P F"],
    targets: Float[Tensor, "T F"],
    target_index: Int[np.ndarray, " P"],
    labels: Int[np.ndarray, " T"] | None = None,
    extra: Float[Tensor, "P X F"] | None = None,
    extra_labels: Int[np.ndarray, "P X"] | None = None,
    chunk: int | None = None,
    distance: Distance = euclidean,
) -> Float64[np.ndarray, " P"]:
    """Rank of each query's target among all targets and the query's own extra references."""
    if (extra is None) != (extra_labels is None):
        raise ValueError("extra references need labels, their own and the targets'")
    private = None if extra is None else private_distances(predictions, extra, distance)
    return ranks_in_both_pools(
        predictions, targets, target_index, labels, private, extra_labels, chunk=chunk, distance=distance
    )[1]


def private_distances(
    predictions: Float[Tensor, "P F"], extra: Float[Tensor, "P X F"], distance: Distance = euclidean
) -> Float64[np.ndarray, "P X"]:
    """The distance of each query to its own extra references."""
    if len(extra) != len(predictions):
        raise ValueError(f"{len(predictions)} queries, but extra references for {len(extra)}")
    found = np.empty(tuple(extra.shape[:2]))
    size = max(1, _CHUNK_ELEMENTS // max(1, extra.shape[1] * extra.shape[2]))
    for start in range(0, len(extra), size):
        part = slice(start, start + size)
        found[part] = distance(_exact(predictions[part])[:, None], _exact(extra[part]))[:, 0].numpy()
    return found


def ranks_in_both_pools(
    predictions: Float[Tensor, "P F"],
    targets: Float[Tensor, "T F"],
    target_index: Int[np.ndarray, " P"],
    labels: Int[np.ndarray, " T"] | None = None,
    private: Float64[np.ndarray, "P X"] | None = None,
    extra_labels: Int[np.ndarray, "P X"] | None = None,
    chunk: int | None = None,
    distance: Distance = euclidean,
) -> tuple[Float64[np.ndarray, " P"], Float64[np.ndarray, " P"]]:
    """Ranks among the targets alone, and among targets and extra references, to which ``private`` are the distances.

    Equal labels mean equal true states: whatever shares the target's label is left out, and of a query's
    extras that share one only the first counts. Without labels no two targets are equal.
    """
    queries, pool = len(predictions), len(targets)
    _check_index(target_index, queries, pool)
    if (private is None) != (extra_labels is None) or (private is not None and labels is None):
        raise ValueError("extra references need labels, their own and the targets'")
    if private is not None and extra_labels is not None and private.shape != extra_labels.shape:
        raise ValueError(f"extra distances are {private.shape}, extra_labels is {extra_labels.shape}")
    labels = np.arange(pool) if labels is None else _check_labels(labels, pool)
    own_label = labels[target_index]
    keep_private = None if extra_labels is None else keep_extra(extra_labels, own_label)
    if chunk is None:
        chunk = max(1, _CHUNK_ELEMENTS // max(1, pool))
    elif chunk < 1:
        raise ValueError(f"chunk must be at least 1, not {chunk}")

    references, kept = _exact(targets), pool_sizes(labels, target_index)
    near_counts = NearCounts(references, labels) if distance is euclidean else None
    shared_ranks, all_ranks = np.empty(queries), np.empty(queries)
    for start in range(0, queries, chunk):
        part = slice(start, start + chunk)
        query = _exact(predictions[part])
        column = target_index[part]
        near = None if near_counts is None else near_counts(query, column)
        if near is not None:
            own, counts = near[0], np.vstack([near[1], kept[part]])
        else:
            distances = distance(query, references).numpy()
            keep = labels != own_label[part, None]
            keep[np.arange(len(column)), column] = True
            own = distances[np.arange(len(column)), column]
            counts = _count(distances, own, keep)
        shared_ranks[part] = _place(own, counts)
        if private is not None and keep_private is not None:
            counts = counts + _count(private[part], own, keep_private[part])
        all_ranks[part] = _place(own, counts)
    return shared_ranks, all_ranks


def pool_sizes(
    labels: Int[np.ndarray, " T"],
    target_index: Int[np.ndarray, " P"],
    extra_labels: Int[np.ndarray, "P X"] | None = None,
) -> Int[np.ndarray, " P"]:
    """How many references `ranks` keeps for each query, the target included."""
    _check_labels(labels, len(labels))
    _check_index(target_index, len(target_index), len(labels))
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sizes = len(labels) + 1 - counts[inverse[target_index]]
    if extra_labels is not None:
        sizes = sizes + np.count_nonzero(keep_extra(extra_labels, labels[target_index]), axis=1)
    return np.asarray(sizes)


def _exact(embeddings: Tensor) -> Tensor:
    """In float64, which rounds no narrower embedding, and on the CPU, whose `cdist` sums in a fixed order."""
    return embeddings.detach().to("cpu", torch.float64)


def keep_extra(extra_labels: Int[np.ndarray, "P X"], own_label: Int[np.ndarray, " P"]) -> Bool[np.ndarray, "P X"]:
    """Extras that are there, are not the target's state, and are the first of their state in the row."""
    if len(extra_labels) != len(own_label):
        raise ValueError(f"{len(own_label)} queries, but extra labels for {len(extra_labels)}")
    order = np.argsort(extra_labels, axis=1, kind="stable")
    ordered = np.take_along_axis(extra_labels, order, axis=1)
    repeated = np.zeros(ordered.shape, dtype=bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    first = np.empty_like(repeated)
    np.put_along_axis(first, order, ~repeated, axis=1)
    return np.asarray(first & (extra_labels != PADDING) & (extra_labels != own_label[:, None]))


def _check_index(index: Int[np.ndarray, " P"], queries: int, pool: int) -> None:
    """Without it a negative index would silently wrap and a single one be broadcast."""
    if index.shape != (queries,) or (queries and not 0 <= index.min() <= index.max() < pool):
        raise ValueError(f"need one index below {pool} for each of {queries} queries")


def _check_labels(labels: Int[np.ndarray, " T"], pool: int) -> Int[np.ndarray, " T"]:
    if labels.shape != (pool,) or (labels == PADDING).any():
        raise ValueError(f"need one label for each of {pool} targets, none of them {PADDING}")
    return labels
