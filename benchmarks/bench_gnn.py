"""A training step (forward and backward) of `GNNTransition` against the edge-list form of the same network.

python benchmarks/bench_gnn.py [--seconds 6] [--compile] [--json FILE]

The steps of the variants alternate in one process; a ratio is one of medians. Peak memory is the growth of the resident
size during one step, as Linux keeps it (VmHWM, reset before the step), in a process of its own for every variant.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from howm.models import product_cpu
from howm.models.transition import GNNTransition

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "oracles"))

from edge_list_gnn import EdgeListGNN

SLOT_SIZE, ACTION_SIZE = 2, 4
CORES = os.cpu_count() or 1
# hidden, batch, slots, threads
CASES = [
    *((512, 256, slots, CORES) for slots in (5, 20)),
    *((128, batch, slots, 1) for batch in (128, 512) for slots in (5, 6, 10, 20, 30)),
]


class PlainAutograd(GNNTransition):
    """The same algebra without blocks: the path of other devices."""

    def forward(self, slots: Tensor, actions: Tensor) -> Tensor:
        with patch.object(torch.compiler, "is_compiling", lambda: True):
            return super().forward(slots, actions)


class ByMKL(GNNTransition):
    """The blocks with the products that torch takes by itself."""


class Halved(GNNTransition):
    """As `train.precision=bf16` runs it."""

    def forward(self, slots: Tensor, actions: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(slots, actions).float()


VARIANTS: dict[str, type[nn.Module]] = {
    "edge list": EdgeListGNN,
    "blocked": GNNTransition,
    "by MKL": ByMKL,
    "autograd": PlainAutograd,
}


def problem(variant: str, hidden: int, batch: int, slots: int) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    weights = GNNTransition(SLOT_SIZE, ACTION_SIZE, hidden).state_dict()
    model = {**VARIANTS, "bf16": Halved}[variant](SLOT_SIZE, ACTION_SIZE, hidden)
    model.load_state_dict(weights)
    torch.manual_seed(1)
    return model, torch.randn(batch, slots, SLOT_SIZE, requires_grad=True), torch.randn(batch, slots, ACTION_SIZE)


def step(model: nn.Module, slots: Tensor, actions: Tensor) -> Tensor:
    slots.grad = None
    model.zero_grad()
    with patch.object(product_cpu, "_ONEDNN", product_cpu._ONEDNN and not isinstance(model, ByMKL)):
        out: Tensor = model(slots, actions)
        out.square().mean().backward()
    return out.detach()


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def peak_memory(variant: str, hidden: int, batch: int, slots: int, threads: int) -> float:
    """Megabytes that one step adds."""
    torch.set_num_threads(threads)
    step(*problem(variant, 8, 2, 3))
    arguments = problem(variant, hidden, batch, slots)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    step(*arguments)
    return resident("VmHWM") - before


def measure(case: tuple[int, int, int, int], seconds: float, compiled: bool) -> list[dict[str, Any]]:
    hidden, batch, slots, threads = case
    torch.set_num_threads(threads)
    problems = {variant: problem(variant, hidden, batch, slots) for variant in VARIANTS}
    if compiled:
        model, *data = problem("blocked", hidden, batch, slots)
        problems |= {"compiled": (torch.compile(model), *data), "bf16": problem("bf16", hidden, batch, slots)}
    outs = {variant: step(*arguments) for variant, arguments in problems.items()}
    for variant, out in outs.items():
        near = 0.1 if variant == "bf16" else 1e-4
        torch.testing.assert_close(out, outs["edge list"], atol=near, rtol=near, msg=f"{variant} differs")

    wall: dict[str, list[float]] = {variant: [] for variant in problems}
    cpu: dict[str, list[float]] = {variant: [] for variant in problems}
    end = time.perf_counter() + seconds
    while len(wall["edge list"]) < 3 or time.perf_counter() < end:
        for variant, arguments in problems.items():
            wall_start, cpu_start = time.perf_counter(), time.process_time()
            step(*arguments)
            wall[variant].append(time.perf_counter() - wall_start)
            cpu[variant].append(time.process_time() - cpu_start)

    memory = {}
    for variant in VARIANTS:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            memory[variant] = pool.submit(peak_memory, variant, *case).result()
    slow, slow_cpu = statistics.median(wall["edge list"]), statistics.median(cpu["edge list"])
    return [
        {
            "variant": variant,
            "slots": slots,
            "hidden": hidden,
            "batch": batch,
            "threads": threads,
            "milliseconds": round(1000 * statistics.median(wall[variant]), 1),
            "times_faster": round(slow / statistics.median(wall[variant]), 2),
            "times_less_cpu": round(slow_cpu / statistics.median(cpu[variant]), 2),
            "peak_mb": round(memory[variant], 1) if variant in memory else None,
            "memory_ratio": round(memory[variant] / memory["edge list"], 2) if variant in memory else None,
            "repetitions": len(wall[variant]),
            "torch": torch.__version__,
        }
        for variant in problems
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=10, help="time for the steps of each case, at least three each"
    )
    parser.add_argument("--compile", action="store_true", help="also time torch.compile and bf16; adds minutes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    columns = ["variant", "slots", "hidden", "batch", "threads", "milliseconds", "times_faster", "times_less_cpu"]
    columns += ["peak_mb", "memory_ratio"]
    print(" ".join(f"{column:>14}" for column in columns))
    figures = []
    for case in CASES:
        rows = measure(case, arguments.seconds, arguments.compile)
        figures += rows
        for row in rows:
            print(" ".join(f"{row[column]!s:>14}" for column in columns), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
