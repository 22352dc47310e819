"""Transitions collected and pictures rendered per second in one process, and how much faster than plain Python.

python benchmarks/bench_worlds.py [--data] [--json FILE]

With --data, also seconds, memory and size of `howm data make` of every world at the paper's amounts. Rates and times
are given by the wall clock and by the processor's clock: on a machine that does other work at the same time the first
tells what was had, the second what an idle machine would give.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from howm.worlds.envs.registration import register_envs
from howm.worlds.grid import Grid, random_walk
from howm.worlds.library import ObjectLibrary
from howm.worlds.object_world import ObjectWorld
from howm.worlds.registry import WORLDS, make_world
from howm.worlds.render import Renderer
from howm.worlds.traits import CLASSES

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "oracles"))
import plain_boxes
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


def scenes_of(world: ObjectWorld, episodes: int, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.random((episodes, world.n)).argsort(axis=1)[:, :K], axis=1)


def play(world: ObjectWorld, episodes: int, steps: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scenes = scenes_of(world, episodes, rng)
    return world.play(scenes, world.reset(scenes, rng), steps, MOVING, rng)[0]


def play_plainly(world: ObjectWorld, steps: int, seed: int) -> None:
    """One episode with the rules of the plain twin: every move is tried, and one is chosen."""
    rng, choice = np.random.default_rng(seed), random.Random(seed)
    scene = scenes_of(world, 1, rng)
    state = world.reset(scene, rng)[0]
    grid = world.space == "grid"
    sides, stride = (world.cells, 1.0) if grid else ((1.0, 1.0), world.step_size)
    boxes = [
        plain_boxes.Box(float(row) + 0.5 * grid, float(column) + 0.5 * grid, float(world.half[i]),
                        CLASSES[world.object_classes[i]], int(world.object_teams[i]))
        for i, (row, column) in zip(scene[0], state[:, :2], strict=True)
    ]  # fmt: skip
    rule = plain_boxes.RULES[world.contact]
    for _ in range(steps):
        tried = [rule(boxes, mover, direction, stride, *sides) for mover in range(K) for direction in range(4)]
        moving = [after for after in tried if after != boxes]
        if moving and choice.random() < MOVING:
            boxes = choice.choice(moving)


def measure_parts(repeats: int = 5) -> list[dict[str, Any]]:
    """Worlds made of parts: transitions, pictures and the vector environment."""
    rows: list[dict[str, Any]] = []
    for name, target in (("free", 500_000), ("push", 300_000), ("team", 300_000)):
        world = make_world(name)
        assert isinstance(world, ObjectWorld)
        ours, plain = [], []
        for repeat in range(repeats):
            ours.append(rate(EPISODES * 20, lambda seed, world=world: play(world, EPISODES, 20, seed), repeat))
            plain.append(rate(40, lambda seed, world=world: play_plainly(world, 40, seed), repeat))
        rows.append(row(f"{name}: transitions per second", target, best(ours)))
        rows.append(row(f"{name}: times the plain twin", None, ratio(best(ours), best(plain))))
    world = ObjectWorld(background="texture")
    scenes = scenes_of(world, 100, np.random.default_rng(0)).repeat(FRAMES // 100, axis=0)
    states = world.reset(scenes, np.random.default_rng(0))
    world.render(scenes, states)
    frames = [rate(FRAMES, lambda _: world.render(scenes, states), 0) for _ in range(repeats)]
    rows.append(row("50x50 frames per second, texture", 60_000, best(frames)))
    register_envs()
    envs = gym.make_vec("howm/Free-v0", num_envs=1024, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(10, 1024))
    steps = [rate(10 * 1024, lambda _: [envs.step(action) for action in actions], 0) for _ in range(repeats)]
    rows.append(row("vector env steps per second, free", 50_000, best(steps)))
    return rows


def measure_data() -> list[dict[str, Any]]:
    """`howm data make` of every world, N = 10, at the paper's amounts; the targets are upper bounds."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in WORLDS:
            path = Path(folder) / f"{name}.h5"
            command = [sys.executable, "-m", "howm.cli", "data", "make", "--world", name, "-n", "10", "-o", str(path)]
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            took = time.perf_counter() - start
            assert process.returncode == 0, f"{name} failed"
            memory, size = usage.ru_maxrss / 1000, path.stat().st_size / 1e6
            for what, most, value in (
                ("seconds", 20, (took, usage.ru_utime + usage.ru_stime)),
                ("MB of memory", 1_000, (memory, memory)), ("MB on disk", 12, (size, size)),
            ):  # fmt: skip
                rows.append(row(f"data make {name}: {what}", most, value, most=True))
    return rows


Clocks = tuple[float, float]  # what was measured by the wall clock and by the processor's


def rate(amount: float, work: Callable[[int], object], argument: int) -> Clocks:
    """How much is done in a second."""
    wall, processor = time.perf_counter(), time.process_time()
    work(argument)
    return amount / (time.perf_counter() - wall), amount / (time.process_time() - processor)


def best(rates: list[Clocks]) -> Clocks:
    """Of many short runs: other work on the machine only ever adds time."""
    return max(wall for wall, _ in rates), max(processor for _, processor in rates)


def ratio(ours: Clocks, plain: Clocks) -> Clocks:
    return ours[0] / plain[0], ours[1] / plain[1]


def row(what: str, target: float | None, measured: Clocks, most: bool = False) -> dict[str, Any]:
    """A figure and the least, or with ``most`` the most, that it should be."""
    return {"what": what, "target": target, "wall": measured[0], "processor": measured[1], "most": most}


def measure() -> list[dict[str, Any]]:
    """The best of many short runs. The collections take turns."""
    trail = collect(seed=0)
    ours, plain = [], []
    for repeat in range(REPEATS):
        ours.append(rate(EPISODES * STEPS, collect, repeat))
        plain.append(rate(PLAIN_EPISODES * STEPS, collect_plainly, repeat))

    renderer = Renderer(ObjectLibrary.make("shapes", 10), GRID, cell_pixels=10)
    cells = trail[:, :: STEPS // 2].reshape(-1, K)[:FRAMES]
    scene_ids = np.random.default_rng(0).random((FRAMES, 10)).argsort(axis=1)[:, :K]
    renderer.render(scene_ids, cells)  # draws the sprites once
    frames = [rate(FRAMES, lambda _: renderer.render(scene_ids, cells), repeat) for repeat in range(REPEATS)]

    return [
        row("transitions collected per second", 1_000_000, best(ours)),
        row("the same in plain Python", None, best(plain)),
        row("times faster than plain Python", 100, ratio(best(ours), best(plain))),
        row("50x50 frames rendered per second", 150_000, best(frames)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--data", action="store_true", help="also measure `howm data make` of every world")
    arguments = parser.parse_args()
    rows = measure() + measure_parts() + (measure_data() if arguments.data else [])
    print(f"{'':44}{'target':>12}{'wall clock':>14}{'processor':>14}")
    for found in rows:
        target = "" if found["target"] is None else f"{found['target']:,}"
        print(f"{found['what']:44}{target:>12}{entry(found, 'wall'):>14}{entry(found, 'processor'):>14}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


def entry(found: dict[str, Any], clock: str) -> str:
    """A figure, with a mark if it misses its target."""
    value, target = found[clock], found["target"]
    missed = target is not None and (value > target) == found["most"]
    return f"{value:,.{0 if value >= 100 else 1}f}{' !' if missed else ''}"


if __name__ == "__main__":
    main()
