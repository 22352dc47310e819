"""Seconds and peak extra memory of `howm.evaluation.ranking.ranks`, and how much faster than plain Python it is.

python benchmarks/bench_ranking.py [--size 10000] [--width 40] [--extras 30] [--json FILE]
"""

import argparse
import json
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from howm.evaluation.ranking import PADDING, ranks

CASES = ("near", "near+extras", "random", "random+extras", "constant", "constant+extras")
SAMPLE = 20


class PeakMemory:
    """Samples the resident size; `extra` is what the block added to it at most, in megabytes."""

    def __enter__(self) -> "PeakMemory":
        self._process = psutil.Process()
        self._start = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def extra(self) -> float:
        return (self._peak - self._start) / 2**20


def plain_rank(prediction: list[float], target: list[float], rivals: list[list[float]]) -> float:
    """The definition in plain Python: what a reader would write first."""
    own = sum((a - b) ** 2 for a, b in zip(prediction, target, strict=True))
    distances = [sum((a - b) ** 2 for a, b in zip(prediction, rival, strict=True)) for rival in rivals]
    return sum(d < own for d in distances) + (sum(d == own for d in distances) + 2) / 2


def measure(case: str, size: int, width: int, extras: int) -> dict[str, Any]:
    """One case in a process of its own: memory kept by an earlier case would hide what this one needs."""
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    predictions, targets = (torch.randn(size, width, generator=generator) for _ in range(2))
    labels, index = rng.integers(0, size, size), np.arange(size)
    extra = extra_labels = None
    if case.endswith("extras"):
        extra = torch.randn(size, extras, width, generator=generator)
        extra_labels = rng.integers(PADDING, 2 * size, (size, extras))
    if case.startswith("near"):  # as those of a model that is any good
        predictions = targets + 0.1 * predictions
    if case.startswith("constant"):
        for tensor in (predictions, targets, extra):
            if tensor is not None:
                tensor.fill_(0.1)

    # The first call pages in the library and starts its threads, which is not what a larger pool costs.
    ranks(predictions[:50], targets[:50], index[:50])
    with PeakMemory() as memory:
        start = time.perf_counter()
        found = ranks(predictions, targets, index, labels, extra, extra_labels)
        seconds = time.perf_counter() - start

    sample = rng.choice(size, min(SAMPLE, size), replace=False)
    rows = targets.tolist()
    pools = []
    for i in sample:
        rivals = [row for row, label in zip(rows, labels, strict=True) if label != labels[i]]
        if extra is not None and extra_labels is not None:
            first = dict(zip(extra_labels[i][::-1].tolist(), extra[i].flip(0).tolist(), strict=True))
            rivals += [row for label, row in first.items() if label not in (PADDING, labels[i])]
        pools.append(rivals)
    start = time.perf_counter()
    plain = [plain_rank(predictions[i].tolist(), rows[i], pool) for i, pool in zip(sample, pools, strict=True)]
    plain_seconds = (time.perf_counter() - start) * size / len(sample)
    if not np.array_equal(found[sample], plain):
        raise AssertionError(f"{case}: ranks differ from the plain twin's")
    return {
        "case": case,
        "queries": size,
        "references": size + (0 if extra is None else extras),
        "width": width,
        "seconds": round(seconds, 2),
        "peak_extra_mb": round(memory.extra, 1),
        "plain_python_seconds_extrapolated": round(plain_seconds, 1),
        "times_faster_than_plain_python": round(plain_seconds / seconds, 1),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000, help="queries, and shared references")
    parser.add_argument("--width", type=int, default=40, help="dimensions of an embedding")
    parser.add_argument("--extras", type=int, default=30, help="private references of each query")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = []
    for case in CASES:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            row = pool.submit(measure, case, arguments.size, arguments.width, arguments.extras).result()
        figures.append(row)
        print(
            f"{case:16} {row['queries']} x {row['references']} x {row['width']}: {row['seconds']:6.2f} s, "
            f"{row['peak_extra_mb']:6.1f} MB extra, {row['times_faster_than_plain_python']:.0f} times faster "
            f"than plain Python"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
