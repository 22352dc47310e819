"""Embeddings that list the few objects which are present, and their distance, as if every library object had a row."""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from howm.models.distance import Metric, euclidean

NOBODY = -1
_UNIT = 2.0**-24  # of an id: exact in float32, and small beside what it stands with


def pack(ids: Int[Tensor, "B S"], rows: Float[Tensor, "B S D"]) -> Float[Tensor, "B F"]:
    """Objects by their ids, each as its id and its row; rows of one id are added up, those of none dropped.

    All library objects in N rows of D, but without the zeros of those that are absent.
    """
    same = (ids.unsqueeze(2) == ids.unsqueeze(1)) & (ids != NOBODY).unsqueeze(2)
    first = same.to(torch.int8).argmax(dim=2) == torch.arange(ids.shape[1], device=ids.device)
    kept = first & (ids != NOBODY)
    with torch.autocast(rows.device.type, enabled=False):
        total = (same & kept.unsqueeze(2)).to(rows.dtype) @ rows
    ids = torch.where(kept, ids, NOBODY)
    order = ids.argsort(dim=1, descending=True)
    named = (ids.gather(1, order) + 1).unsqueeze(2).to(rows.dtype) * _UNIT
    listed = total.gather(1, order.unsqueeze(2).expand_as(total))
    return torch.cat([named, listed], dim=2).flatten(1)


def unpack(embeddings: Float[Tensor, "*b F"], size: int) -> tuple[Int[Tensor, "*b S"], Float[Tensor, "*b S D"]]:
    """The ids and rows, of ``size`` entries each, that `pack` wrote."""
    listed = embeddings.reshape(*embeddings.shape[:-1], embeddings.shape[-1] // (1 + size), 1 + size)
    return (listed[..., 0] / _UNIT).round().long() - 1, listed[..., 1:]


def union(
    ids: Int[Tensor, "B R"], others: Int[Tensor, "B Q"]
) -> tuple[Float[Tensor, "B R+Q R"], Float[Tensor, "B R+Q Q"]]:
    """Matrices that write rows of ``ids`` and rows of ``others`` as rows of all objects of both, each object once.

    An id of `NOBODY` is an object of its own.
    """
    same = ((ids.unsqueeze(2) == others.unsqueeze(1)) & (ids != NOBODY).unsqueeze(2)).to(torch.get_default_dtype())
    alone = torch.diag_embed(1 - same.amax(dim=1))
    own = torch.eye(ids.shape[1], others.shape[1] + ids.shape[1], device=ids.device, dtype=same.dtype)
    return own.t().expand(len(ids), -1, -1), torch.cat([same, alone], dim=1)


def aligned_distance(
    queries: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"], size: int
) -> Float[Tensor, "*b P T"]:
    """The L2 distances of packed embeddings, object by object; what only one of two has counts with its length."""
    found = queries.new_empty(*queries.shape[:-1], references.shape[-2])
    their_ids, their_rows = unpack(references, size)
    ids, rows = unpack(queries, size)
    if queries.dim() == 2:  # all queries that list the same objects at once
        lists, which = torch.unique(ids, dim=0, return_inverse=True)
        for number, some in enumerate(lists):
            here = (which == number).nonzero()[:, 0]
            found[here] = euclidean(_extended(rows[here]), _onto(some, their_ids, their_rows))
        return found
    for p in range(queries.shape[-2]):
        seen = _onto(ids[..., p, :], their_ids, their_rows)
        found[..., p, :] = euclidean(_extended(rows[..., p : p + 1, :, :]), seen)[..., 0, :]
    return found


def _extended(rows: Float[Tensor, "*b P S D"]) -> Float[Tensor, "*b P SD1"]:
    return torch.cat([rows.flatten(-2), torch.zeros_like(rows[..., 0, :1])], dim=-1)


def _onto(
    ids: Int[Tensor, "*b S"], their_ids: Int[Tensor, "*b T Q"], their_rows: Float[Tensor, "*b T Q D"]
) -> Float[Tensor, "*b T SD1"]:
    """The rows of some objects in each of T states, zero where absent, and the length of all that is left."""
    same = (ids[..., None, :, None] == their_ids[..., None, :]) & (ids != NOBODY)[..., None, :, None]
    place, here = same.max(dim=-1).indices, same.any(dim=-1)
    chosen = their_rows.gather(-2, place.unsqueeze(-1).expand(*place.shape, their_rows.shape[-1]))
    rest = (their_rows.square().sum(dim=-1) * ~same.any(dim=-2)).sum(dim=-1, keepdim=True).sqrt()
    return torch.cat([(chosen * here.unsqueeze(-1)).flatten(-2), rest], dim=-1)


def aligned(size: int) -> Metric:
    """The metric of packed embeddings with rows of ``size`` entries."""
    return Metric(partial(aligned_distance, size=size))
