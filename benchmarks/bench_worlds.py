"""Transitions collected and pictures rendered per second in one process, and how much faster than plain Python.

python benchmarks/bench_worlds.py [--json FILE]
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from howm.grid import Grid, random_walk
from howm.library import ObjectLibrary
from howm.render import Renderer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import plain_world

K = 5
MOVING = 0.9
EPISODES, STEPS = 1_000, 100  # the default amount of training data
PLAIN_EPISODES = 10
FRAMES = 2_000
REPEATS = 30

GRID = Grid(5, 5)


def collect(seed: int) -> np.ndarray:
    """The same work as `plain_world.collect`: placements and walks of objects that head north."""
    rng = np.random.default_rng(seed)
    cells = GRID.place(rng, EPISODES, K)
    return random_walk(GRID, np.zeros_like(cells), cells, STEPS, MOVING, rng)[0]


def collect_plainly(seed: int) -> None:
    plain_world.collect(GRID.height, GRID.width, K, PLAIN_EPISODES, STEPS, MOVING, random.Random(seed))


def seconds(work: Callable[[int], object], argument: int) -> float:
    start = time.perf_counter()
    work(argument)
    return time.perf_counter() - start


def measure() -> list[dict[str, Any]]:
    """The best of many short runs: other work on the machine only ever adds time. The collections take turns."""
    trail = collect(seed=0)
    ours, plain = [], []
    for repeat in range(REPEATS):
        ours.append(EPISODES * STEPS / seconds(collect, repeat))
        plain.append(PLAIN_EPISODES * STEPS / seconds(collect_plainly, repeat))

    renderer = Renderer(ObjectLibrary.make("shapes", 10), GRID, cell_pixels=10)
    cells = trail[:, :: STEPS // 2].reshape(-1, K)[:FRAMES]
    scene_ids = np.random.default_rng(0).random((FRAMES, 10)).argsort(axis=1)[:, :K]
    renderer.render(scene_ids, cells)  # draws the sprites once
    frames = [FRAMES / seconds(lambda _: renderer.render(scene_ids, cells), repeat) for repeat in range(REPEATS)]

    return [
        {"what": "transitions collected per second", "target": 1_000_000, "measured": max(ours)},
        {"what": "the same in plain Python", "target": None, "measured": max(plain)},
        {"what": "times faster than plain Python", "target": 100, "measured": max(ours) / max(plain)},
        {"what": "50x50 frames rendered per second", "target": 150_000, "measured": max(frames)},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    rows = measure()
    print(f"{'':34}{'target':>12}{'measured':>12}")
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:,}"
        missed = row["target"] is not None and row["measured"] < row["target"]
        print(f"{row['what']:34}{target:>12}{row['measured']:>12,.0f}{'  missed' if missed else ''}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
