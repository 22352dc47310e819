"""Predictions that no learning is needed for, ranked in the same pools."""

import numpy as np
import torch
from torch import Tensor

from howm.evaluation.pools import Compared, _Pool
from howm.evaluation.ranking import private_distances
from howm.models.distance import euclidean

RANDOM_SIZE = 8  # dimensions of the control `random`


def control_predictions(pool: _Pool, seed: int) -> list[Compared]:
    """`random`, `constant` and, where the world can be simulated, `oracle`."""
    queries, extras = pool.extra_labels.shape
    noise = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, RANDOM_SIZE, generator=noise)

    found = [
        _compare("random", gaussian(queries), gaussian(queries, extras), gaussian(queries)),
        _compare("constant", torch.zeros(queries, 1), torch.zeros(queries, extras, 1), torch.zeros(queries, 1)),
    ]
    if pool.simulated is not None:

        def place(labels: np.ndarray) -> Tensor:  # equal states at one point, different ones apart
            return torch.from_numpy(labels[..., None].astype(np.float64))

        found.append(_compare("oracle", place(pool.labels), place(pool.extra_labels), place(pool.simulated)))
    return found


def _compare(name: str, targets: Tensor, extras: Tensor, predicted: Tensor) -> Compared:
    near = private_distances(predicted, extras, euclidean)
    return Compared({name: predicted}, targets, {name: near}, euclidean)
