"""Transitions collected and pictures rendered per second in one process, and how much faster than plain Python.

python benchmarks/bench_worlds.py [--data] [--json FILE]

With --data, also seconds, memory and size of `howm data make` of every world at the paper's amounts.
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
            ours.append(EPISODES * 20 / seconds(lambda seed, world=world: play(world, EPISODES, 20, seed), repeat))
            plain.append(40 / seconds(lambda seed, world=world: play_plainly(world, 40, seed), repeat))
        rows.append({"what": f"{name}: transitions per second", "target": target, "measured": max(ours)})
        rows.append({"what": f"{name}: times the plain twin", "target": None, "measured": max(ours) / max(plain)})
    world = ObjectWorld(background="texture")
    scenes = scenes_of(world, 100, np.random.default_rng(0)).repeat(FRAMES // 100, axis=0)
    states = world.reset(scenes, np.random.default_rng(0))
    world.render(scenes, states)
    frames = max(FRAMES / seconds(lambda _: world.render(scenes, states), 0) for _ in range(repeats))
    rows.append({"what": "50x50 frames per second, texture", "target": 60_000, "measured": frames})
    register_envs()
    envs = gym.make_vec("howm/Free-v0", num_envs=1024, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(10, 1024))
    rate = max(10 * 1024 / seconds(lambda _: [envs.step(action) for action in actions], 0) for _ in range(repeats))
    rows.append({"what": "vector env steps per second, free", "target": 50_000, "measured": rate})
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
            for what, most, value in (
                ("seconds", 20, took), ("processor seconds", 20, usage.ru_utime + usage.ru_stime),
                ("MB of memory", 1_000, usage.ru_maxrss / 1000), ("MB on disk", 12, path.stat().st_size / 1e6),
            ):  # fmt: skip
                rows.append({"what": f"data make {name}: {what}", "target": most, "measured": value, "most": True})
    return rows


def seconds(work: Callable[[int], object], argument: int) -> float:
    """Of the processor: other work on the machine does not count."""
    start = time.process_time()
    work(argument)
    return time.process_time() - start


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
    parser.add_argument("--data", action="store_true", help="also measure `howm data make` of every world")
    arguments = parser.parse_args()
    rows = measure() + measure_parts() + (measure_data() if arguments.data else [])
    print(f"{'':44}{'target':>12}{'measured':>12}")
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:,}"
        missed = row["target"] is not None and (row["measured"] > row["target"]) == row.get("most", False)
        digits = 0 if row["measured"] >= 100 else 1
        print(f"{row['what']:44}{target:>12}{row['measured']:>12,.{digits}f}{'  missed' if missed else ''}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
