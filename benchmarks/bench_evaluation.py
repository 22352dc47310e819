"""What the checks of an evaluation cost, and what it costs to draw near misses by query, as ratios within one run.

python benchmarks/bench_evaluation.py [--episodes 1000] [--method cswm-n] [--json FILE]
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from howm import METHODS, Rollouts, WorldModel, evaluate, make_dataset
from howm.config import from_plain
from howm.data.dataset import Amounts
from howm.evaluation.embedding import compare, predict
from howm.evaluation.near_misses import draw_near_misses
from howm.evaluation.pools import NEAR_MISSES, _Pool, chunks
from howm.evaluation.ranking import private_distances
from howm.models.distance import EUCLIDEAN, Metric, euclidean, guarded
from howm.models.world_model import evaluating
from howm.training.run import keep_freed_memory

STEPS, CHUNK = (1, 5, 10), 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1_000)
    parser.add_argument("--method", default="cswm-n")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    keep_freed_memory()
    data = make_dataset("shapes", 10, 5, amounts=Amounts(100, 2, options.episodes, max(STEPS)))
    rollouts = Rollouts(data.eval)
    pools = {k: _Pool.make(rollouts, k) for k in STEPS}
    method = METHODS[options.method]
    torch.manual_seed(0)
    preset = method.presets["cpu"].get("model", {})
    model = method.build(data.spec, from_plain(method.model_config, preset, "model."))
    if model.metric != EUCLIDEAN:
        parser.error("the twin has plain distances; choose another method")

    with torch.no_grad(), evaluating(model):
        embedding: dict[str, float] = ratio(
            lambda: checked(model, rollouts, pools), lambda: plain(model, rollouts, pools), options.repeats
        )
        whole = median(seconds(lambda: evaluate(model, rollouts, STEPS)) for _ in range(options.repeats))
    share = (embedding["ratio"] - 1) * embedding["plain"] / whole
    points = torch.randn(2_000, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    own = guarded(Metric(lambda a, b: euclidean(a, b)))
    distances = ratio(lambda: own(points[:500], points), lambda: euclidean(points[:500], points), 5 * options.repeats)
    many = Rollouts(data.eval.select(np.arange(10_000) % options.episodes))
    drawing = ratio(
        lambda: draw_near_misses(many, 10, NEAR_MISSES, 0),
        lambda: many.near_misses(10, NEAR_MISSES, np.random.default_rng(0)),
        options.repeats,
    )
    figures = {
        "checks_share_of_evaluation": share,
        "embedding_with_checks": embedding,
        "own_distance_with_checks": distances,
        "near_misses_by_query": drawing,
        "method": options.method,
        "episodes": options.episodes,
        "repeats": options.repeats,
        "steps": STEPS,
        "torch": torch.__version__,
    }
    for name in ("embedding_with_checks", "own_distance_with_checks", "near_misses_by_query"):
        found: Any = figures[name]
        print(f"{name}: {found['ratio']:.3f} of the plain way ({found['seconds']:.2f} s and {found['plain']:.2f} s)")
    print(f"checks: {100 * share:.1f} % of an evaluation of {whole:.2f} s")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def seconds(work: Callable[[], Any]) -> float:
    """Of the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(one: Callable[[], Any], other: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Processor seconds of both, in turn, and the median of their ratios."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for work, found in zip((one, other), times, strict=True):
            found.append(seconds(work))
    ratios = [a / b for a, b in zip(*times, strict=True)]
    return {"ratio": median(ratios), "seconds": median(times[0]), "plain": median(times[1])}


def checked(model: WorldModel, rollouts: Rollouts, pools: dict[int, _Pool]) -> None:
    predictions = predict(model, rollouts, STEPS, CHUNK)
    predicted = {k: {"model": predictions[k], "do_nothing": predictions[0]} for k in STEPS}
    compare(model, rollouts, pools, predictions[0], predicted, CHUNK)


def plain(model: WorldModel, rollouts: Rollouts, pools: dict[int, _Pool]) -> None:
    """The same frames once each, in their order, without a copy or a check."""
    world, scene_ids, states = rollouts.episodes.state()
    for rows in chunks(len(rollouts), CHUNK):
        state = model.encode(rollouts.observe(0, rows))
        predictions = {0: model.embed(state)}
        for t, action in enumerate(rollouts.actions(max(STEPS))[rows].T, start=1):
            state = model.step(state, action)
            predictions |= {t: model.embed(state)} if t in STEPS else {}
        needed = np.zeros((rows.stop - rows.start, max(STEPS) + 1), dtype=bool)
        for k, pool in pools.items():
            needed[:, k] = True
            needed[:, 1:k] |= pool.kept[rows, 1:k]

        def embedded(shown: np.ndarray, need: np.ndarray, rows: slice = rows) -> torch.Tensor:
            query, column = np.nonzero(need)
            ids, flat = scene_ids[rows][query], shown[query, column]
            parts = [
                model.embed(model.encode(torch.from_numpy(world.render(ids[part], flat[part]))))
                for part in chunks(len(flat), CHUNK)
            ]
            table = torch.zeros(*need.shape, parts[0].shape[1])
            table[query, column] = torch.cat(parts)
            return table

        frames = embedded(states[rows], needed)
        frames[:, 0] = predictions[0]
        for k, pool in pools.items():
            assert pool.ends is not None
            extras = torch.cat([frames[:, :k], embedded(pool.ends[rows], pool.kept[rows, k:])], dim=1)
            for prediction in (predictions[k], predictions[0]):
                private_distances(prediction, extras)


if __name__ == "__main__":
    main()
