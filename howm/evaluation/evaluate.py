"""k-step prediction ranked among reference states, in the paper's pool and in the hard pool, beside four controls.

The paper's pool holds frame k of every episode. It asks little of the dynamics: random states are far apart, so a
good encoder alone scores high. The hard pool adds near misses that only a model of the dynamics can tell from the
truth: the query's own frames 0 ... k-1 and the ends of other k-step action sequences from its own start.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from howm.data.rollouts import Rollouts
from howm.errors import HowmError
from howm.evaluation.controls import control_ranks
from howm.evaluation.embedding import compare, predict
from howm.evaluation.metrics import summarise
from howm.evaluation.near_misses import _STREAM
from howm.evaluation.pools import NEAR_MISSES, Compared, _Pool
from howm.evaluation.ranking import ranks_in_both_pools
from howm.models.world_model import WorldModel, evaluating
from howm.progress import progress as bar
from howm.runs.result import Pool, Scores

CONTROLS = ("do_nothing", "random", "constant", "oracle")


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model and of the controls, by pool and number of steps."""

    model: Scores
    controls: dict[str, Scores]
    hard_pool: str = "near misses"  # or "earlier frames only", where the world cannot be simulated
    # Of the model: pool → number of steps → the rank of each query, in the order of the episodes.
    ranks: dict[Pool, dict[str, np.ndarray]] = field(default_factory=dict, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "hard_pool": self.hard_pool,
            "model": _plain(self.model),
            "controls": {name: _plain(scores) for name, scores in self.controls.items()},
        }


def _plain(scores: Scores) -> dict[Pool, dict[str, Any]]:
    return {pool: {k: metrics.to_json() for k, metrics in by_step.items()} for pool, by_step in scores.items()}


@torch.no_grad()
def evaluate(
    model: WorldModel,
    rollouts: Rollouts,
    steps: Sequence[int] = (1, 5, 10),
    *,
    queries: int | None = None,
    controls: bool = True,
    seed: int = 0,
    chunk: int = 512,
    progress: bool | Callable[[int], object] = False,
) -> Evaluation:
    """Rank the k-step prediction of every episode, from its first frame, for each k of ``steps``.

    ``queries`` limits how many predictions are ranked; they are spread evenly over the scenes. Each is ranked among all
    references and has the rank that it has without the limit, at a fraction of the cost.
    ``progress`` shows a bar with the time left; or it is called with the number of frames that were embedded.
    """
    if not isinstance(rollouts, Rollouts):
        raise HowmError(f"{type(rollouts).__name__} cannot be evaluated, Rollouts can; wrap it: Rollouts(episodes)")
    for k in steps:
        if not 1 <= k <= rollouts.steps:
            raise HowmError(f"{k} steps cannot be evaluated on episodes of {rollouts.steps} steps; make longer ones")
    with evaluating(model), ExitStack() as stack:
        advance = progress if callable(progress) else None
        if progress is True:
            advance = stack.enter_context(bar(frames_to_embed(rollouts, steps, queries), "evaluate")).update
        scores, ranks = _evaluate(model, rollouts, steps, queries, controls, seed, chunk, advance)
    hard_pool = "earlier frames only" if rollouts.episodes.states is None else "near misses"
    shown = {name: scores[name] for name in CONTROLS if name in scores}
    return Evaluation(scores.pop("model"), shown, hard_pool, ranks)


def frames_to_embed(rollouts: Rollouts, steps: Sequence[int], queries: int | None = None) -> int:
    """How much work an evaluation is; what it will take is nearly proportional."""
    return len(rollouts) * _frames_of_episode(rollouts, steps, queries)


def _frames_of_episode(rollouts: Rollouts, steps: Sequence[int], queries: int | None) -> int:
    """On average: those of a query, with its near misses, or of a mere reference."""
    of_query, of_reference = max(steps) + 1 + NEAR_MISSES * len(steps), 1 + len(steps)
    share = 1 if queries is None else queries / len(rollouts)
    return round(share * of_query + (1 - share) * of_reference)


def _evaluate(
    model: WorldModel, rollouts: Rollouts, steps: Sequence[int], queries: int | None, controls: bool, seed: int,
    chunk: int, advance: Callable[[int], object] | None,
) -> tuple[dict[str, Scores], dict[Pool, dict[str, np.ndarray]]]:  # fmt: skip
    """The scores of the model and of the controls, by name; and the ranks of the model's predictions."""
    asked = query_rows(rollouts, queries)
    predictions = predict(model, rollouts, steps, chunk)
    nothing = {"do_nothing": predictions[0]} if controls else {}
    pools = {k: _Pool.make(rollouts, k, seed).with_queries(asked) for k in steps}
    predicted = {k: {"model": predictions[k]} | nothing for k in steps}
    found: dict[str, Scores] = {}
    found_ranks: dict[Pool, dict[str, np.ndarray]] = {}

    def embedded(episodes: int) -> None:
        if advance is not None:
            advance(episodes * _frames_of_episode(rollouts, steps, queries))

    for k, compared in compare(model, rollouts, pools, predictions[0], predicted, chunk, embedded).items():
        both = _ranks(compared, pools[k]) | (control_ranks(pools[k], seed) if controls else {})
        for name, ranks in both.items():
            for kind, some in zip(get_args(Pool), ranks, strict=True):
                interval = np.random.default_rng([seed, _STREAM, k])
                metrics = summarise(some[asked], rollouts.scene_index[asked], interval)
                found.setdefault(name, {}).setdefault(kind, {})[str(k)] = metrics
                if name == "model":
                    found_ranks.setdefault(kind, {})[str(k)] = some[asked]
    return found, found_ranks


def query_rows(rollouts: Rollouts, queries: int | None) -> Integer[np.ndarray, " Q"]:
    """The episodes whose predictions are ranked: all, or ``queries`` of them."""
    return np.arange(len(rollouts)) if queries is None else rollouts.episodes.spread(queries, "queries")


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
    predictions = predict(model, rollouts, (k,) if predicted is None else (), chunk)
    pools = {k: _Pool.make(rollouts, k, seed)}
    queries = {k: {"": predictions[k] if predicted is None else predicted}}
    return _ranks(compare(model, rollouts, pools, predictions[0], queries, chunk)[k], pools[k])[""][1]


def _ranks(compared: Compared, pool: _Pool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ranks in the paper's pool and in the hard one."""
    return {
        name: ranks_in_both_pools(
            prediction,
            compared.targets,
            np.arange(len(prediction)),
            pool.labels,
            compared.near[name],
            pool.extra_labels,
            distance=compared.distance,
        )
        for name, prediction in compared.predicted.items()
    }
