"""The rank of every query of an evaluation, in a file beside its result: what a paired comparison needs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from howm.config import from_plain
from howm.errors import HowmError, short
from howm.files import atomic_write, read_json, refuse_links
from howm.runs.result import Pool

SUFFIX = ".ranks"  # of a JSON file that is no result: folders of results are searched for *.json
VERSION = 1


@dataclass(frozen=True)
class QueryRanks:
    """Ranks in unseen scenes by pool and number of steps; ``queries`` is equal where the queries were the same."""

    queries: str
    hard_pool: str
    evaluation_version: int
    scene_index: Integer[np.ndarray, " E"]
    ranks: dict[Pool, dict[str, Float[np.ndarray, " E"]]]

    def to_json(self) -> dict[str, Any]:
        ranks = {pool: {k: _numbers(some) for k, some in by.items()} for pool, by in self.ranks.items()}
        return vars(self) | {"version": VERSION, "scene_index": self.scene_index.tolist(), "ranks": ranks}


def _numbers(ranks: Float[np.ndarray, " E"]) -> list[int | float]:
    """Integers where they are some: most ranks are 1, and a tie gives a half."""
    return [int(rank) if rank == int(rank) else rank for rank in ranks.tolist()]


@dataclass(frozen=True)
class _File:
    version: int
    queries: str
    hard_pool: str
    evaluation_version: int
    scene_index: tuple[int, ...]
    ranks: dict[Pool, dict[str, tuple[int | float, ...]]]


def ranks_path(result: Path) -> Path:
    """Where the ranks of a result are."""
    return result.with_suffix(SUFFIX)


def write_ranks(ranks: QueryRanks, path: Path) -> Path:
    refuse_links(path)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(ranks.to_json(), separators=(",", ":")) + "\n", encoding="utf-8")
    return path


def read_ranks(path: Path) -> QueryRanks:
    remedy = "make it again with `howm eval RUN --ranks`"
    values = read_json(path, remedy)
    if not isinstance(values, dict) or values.get("version") != VERSION:
        raise HowmError(f"{path} does not hold ranks of this howm; {remedy}")
    try:
        found = from_plain(_File, values)
        scenes = np.array(found.scene_index, dtype=np.int64)
        ranks = {pool: {k: np.array(some, dtype=float) for k, some in by.items()} for pool, by in found.ranks.items()}
        for by in ranks.values():
            for k, some in by.items():
                if some.shape != scenes.shape or not len(some) or not (some >= 1).all():
                    raise HowmError(f"ranks after {short(k)} steps should be one for each query, 1 or more")
    except HowmError as error:
        raise HowmError(f"{path} does not hold ranks of howm: {error}; {remedy}") from None
    return QueryRanks(found.queries, found.hard_pool, found.evaluation_version, scenes, ranks)
