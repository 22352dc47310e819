"""Predictions that no learning is needed for, ranked in the same pools."""

from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from howm.evaluation.pools import _Pool
from howm.evaluation.ranking import pool_sizes, private_distances, ranks_in_both_pools

RANDOM_SIZE = 8  # dimensions of the control `random`
Ranks: TypeAlias = tuple[Float64[np.ndarray, " E"], Float64[np.ndarray, " E"]]


def control_ranks(pool: _Pool, seed: int) -> dict[str, Ranks]:
    """Of `random`, `constant` and, where the world can be simulated, `oracle`, in the paper's pool and the hard one."""
    found = {"random": _random(pool, seed), "constant": _constant(pool)}
    return found if pool.simulated is None else found | {"oracle": _oracle(pool, pool.simulated)}


def _random(pool: _Pool, seed: int) -> Ranks:
    queries, extras = pool.extra_labels.shape
    noise = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, RANDOM_SIZE, generator=noise)

    targets, near, predicted = gaussian(queries), gaussian(queries, extras), gaussian(queries)
    return _rank(pool, targets, near, predicted, np.arange(queries))


def _constant(pool: _Pool) -> Ranks:
    """All at one point: each is as near as any other, and the target has the middle place."""
    own = np.arange(len(pool.labels))
    sizes = (pool_sizes(pool.labels, own), pool_sizes(pool.labels, own, pool.extra_labels))
    shared, every = ((size + 1) / 2 for size in sizes)
    return shared, every


def _oracle(pool: _Pool, simulated: np.ndarray) -> Ranks:
    """Equal states at one point, different ones apart: first wherever the simulation ends in the target's state."""
    shared, every = (np.ones(len(pool.labels)) for _ in range(2))
    wrong = np.flatnonzero(simulated != pool.labels)
    if len(wrong):

        def place(labels: np.ndarray) -> Tensor:
            return torch.from_numpy(labels[..., None].astype(np.float64))

        found = _rank(pool, place(pool.labels), place(pool.extra_labels[wrong]), place(simulated[wrong]), wrong)
        shared[wrong], every[wrong] = found
    return shared, every


def _rank(pool: _Pool, targets: Tensor, near: Tensor, predicted: Tensor, rows: np.ndarray) -> Ranks:
    """Of the queries in some rows."""
    private = private_distances(predicted, near)
    return ranks_in_both_pools(predicted, targets, rows, pool.labels, private, pool.extra_labels[rows])
