"""Cost of one training step as the library grows: HOWM's transition phase against Σ_N-CSWM, in one run.

python benchmarks/bench_scaling.py [--json results/scaling.json] [--plot docs/scaling.png]
"""

import argparse
import json
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import process_time
from unittest.mock import patch

import numpy as np
import torch

from howm.data.dataset import Amounts, make_dataset
from howm.data.transitions import PictureBatch, SlotBatch, Transitions
from howm.models.registry import build_model
from howm.models.world_model import WorldModel
from howm.runs.config import configure
from howm.training.costs import peak_memory_mb
from howm.worlds.spec import WorldSpec

EACH_SLOT = "howm, each slot computed"  # also those that are equal, of which small libraries have many
LIBRARIES = {
    "howm": (10, 30, 100, 300, 1_000, 3_000, 10_000),
    EACH_SLOT: (10, 10_000),
    "cswm-n": (5, 10, 20, 30, 40),
}
BATCH = 128


class Stepper:
    """One training step of a method at a library size, on frames as its trainer gives them."""

    def __init__(self, name: str, n: int) -> None:
        self.each_slot = name == EACH_SLOT
        method = name.partition(",")[0]
        config = configure(method, "cpu").model
        self.model: WorldModel = build_model(method, WorldSpec(n, 5), config, seed=0)
        amounts = Amounts(train_episodes=max(100, n), train_steps=20, eval_episodes=10, eval_steps=1)
        self.transitions = Transitions(make_dataset("shapes", n, 5, amounts=amounts).train)
        self.frames = None
        if self.model.frozen_extractor is not None:
            extractor = self.model.frozen_extractor.requires_grad_(False)
            count = min(self.transitions.frame_count, 20_000)
            with torch.no_grad():
                slots = torch.cat([extractor.slots(self.transitions.pictures(some)) for some in
                                   np.array_split(np.arange(count), -(-count // 256))])  # fmt: skip
            self.frames = lambda index: slots[torch.from_numpy(index % count)]
        weights = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(weights, lr=1e-4, fused=True)
        self.rng = np.random.default_rng(0)

    def step(self) -> float:
        began = process_time()
        index = self.transitions.index(self.rng.integers(len(self.transitions), size=BATCH), self.rng)
        if self.frames is None:
            batch: PictureBatch | SlotBatch = self.transitions.load(index)
        else:
            batch = self.transitions.load_slots(index, self.frames)
        with patch("howm.models.distinct.distinct_rows", lambda _: None) if self.each_slot else nullcontext():
            loss, _ = self.model(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return process_time() - began


def measure(rounds: int) -> dict[str, dict[int, float]]:
    """Median CPU seconds of a step; all are measured in turn, so that a busy machine slows all alike, and in another
    order each time, since a step is slower after one that filled the caches."""
    steppers = {(method, n): Stepper(method, n) for method, sizes in LIBRARIES.items() for n in sizes}
    times: dict[tuple[str, int], list[float]] = {key: [] for key in steppers}
    order, rng = list(steppers), np.random.default_rng(0)
    for turn in range(rounds + 2):
        for place in rng.permutation(len(order)):
            key = order[place]
            seconds = steppers[key].step()
            if turn >= 2:  # the first steps warm up
                times[key].append(seconds)
    return {method: {n: median(times[method, n]) for n in sizes} for method, sizes in LIBRARIES.items()}


def plot(found: dict[str, dict[int, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    for method, times in found.items():
        axes.plot(list(times), [1000 * seconds for seconds in times.values()], "o-", label=method)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("library objects N (K=5)")
    axes.set_ylabel("ms of CPU per training step")
    axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, help="also write the numbers")
    parser.add_argument("--plot", type=Path, help="also draw the curves")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(options.rounds)
    print("| method | N | ms per step | against its smallest N |\n|---|---|---|---|")
    for method, times in found.items():
        least = next(iter(times.values()))
        for n, seconds in times.items():
            print(f"| `{method}` | {n:,} | {1000 * seconds:.1f} | {seconds / least:.2f}x |")
    if options.json is not None:
        shown = {method: {str(n): round(1000 * t, 2) for n, t in times.items()} for method, times in found.items()}
        record = {"batch": BATCH, "milliseconds": shown, "peak_memory_mb": round(peak_memory_mb())}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.plot is not None:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
