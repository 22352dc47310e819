"""CPU seconds from nothing until both pools are exact: at least 99.9 MRR at ten steps in unseen scenes.

python benchmarks/time_to_exact.py --json results/time-to-exact.json [--recipes howm] [--worlds shapes] [--seeds 0 1 2]
python benchmarks/time_to_exact.py --json results/time-to-exact.json --plot docs/time-to-exact.png --only-plot

Each training is a command of its own with one thread; all of its CPU time counts, from the start of Python on. Making
the data and evaluating are timed apart. A schedule that lowers the learning rate has to be run to its end: such recipes
are trained with several lengths, from nothing each. A constant rate is trained on and looked at along the way.
Trainings that are in the file already are not repeated; none begins, or is trained on, that would exceed the limit.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import torch
import yaml

import howm
from howm.files import atomic_write

EXACT = 99.9
TICKS = (10, 20, 50, 100, 200, 500)


@dataclass(frozen=True)
class Recipe:
    """What is trained, and how long: at last as the preset says, or along one run."""

    method: str
    preset: str
    lengths: tuple[int, ...]
    resumes: bool = False
    settings: tuple[str, ...] = ()

    def command(self, data: Path, out: Path, seed: int, steps: int) -> list[str]:
        begun = ["--resume"] if self.resumes and out.exists() else []
        settings = [f"train.steps={steps}", *self.settings]
        if self.resumes:  # its interval of checks divides all lengths
            settings += [f"train.check_every={self.lengths[0]}", f"train.log_every={self.lengths[0]}"]
        return ["train", "--method", self.method, "--preset", self.preset, "--data", str(data), "--out", str(out),
                "--seed", str(seed), *begun, "--set", *settings]  # fmt: skip


def variant(name: str) -> tuple[str, ...]:
    """The settings of a variant of experiments/fast.yaml."""
    path = Path(__file__).parent.parent / "experiments" / "fast.yaml"
    found = yaml.safe_load(path.read_text(encoding="utf-8"))["variants"]
    return tuple(next(one["settings"] for one in found if one["name"] == name))


RECIPES = {
    "howm": Recipe("howm", "cpu", (250, 500, 1_000, 1_500)),
    "cswm-n": Recipe("cswm-n", "cpu", (750, 1_500, 3_000, 6_000)),
    # As C-SWM and the paper train it: hidden 512, embeddings of 2, sigma 0.5, sums of messages, batches of 1,024.
    "C-SWM's recipe": Recipe("cswm-n", "paper", (16, 32, 64, 128, 256, 512, 1_024), resumes=True),
    # What the two last changes are worth: the preset without them.
    **{f"howm {name}": Recipe("howm", "cpu", (1_500,), settings=variant(name.replace(" ", "-")))
       for name in ("without places", "without correction", "without both")},
}  # fmt: skip
CURVES = tuple(RECIPES)[:3]


def run(command: list[str]) -> float:
    """Run a command of howm with one thread; its CPU seconds, with all that it takes to start."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = os.posix_spawn(sys.executable, [sys.executable, "-m", "howm.cli", *command], environment)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"`howm {' '.join(command)}` failed")
    return usage.ru_utime + usage.ru_stime


def curve(
    recipe: Recipe, world: str, n: int, seed: int, limit: float, episodes: int, done: dict[int, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Score against CPU seconds, a row for each length."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.h5"
        made = run(["data", "make", "--env", world, "-n", str(n), "-k", "5", "--seed", str(seed), "-o", str(data)])
        dataset, spent, last = howm.load_dataset(data), 0.0, (0, 0.0)
        for steps in recipe.lengths:
            row = done.get(steps)
            if row is None or recipe.resumes:
                expected = last[1] * steps / last[0] if last[0] else 0.0
                if expected > limit:
                    return
                out = Path(folder) / ("run" if recipe.resumes else f"run-{steps}")
                seconds = run(recipe.command(data, out, seed, steps))
                spent = spent + seconds if recipe.resumes else seconds
                began = process_time()
                scores = howm.evaluate(
                    howm.load(out), howm.Rollouts(dataset.eval.subsample(episodes)), steps=(10,), controls=False
                )
                row = {"steps": steps, "data_cpu_seconds": made, "train_cpu_seconds": spent,
                       "evaluation_cpu_seconds": process_time() - began, "references": episodes,
                       **{pool: by_step["10"].mrr for pool, by_step in scores.model.items()}}  # fmt: skip
            last = steps, row["train_cpu_seconds"]
            yield row


def exact(row: dict[str, Any]) -> bool:
    return min(row["paper"], row["hard"]) >= EXACT


def measure(options: argparse.Namespace) -> None:
    found = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else []
    for seed in options.seeds:
        for world in options.worlds:
            for name in options.recipes:
                about = {"recipe": name, "world": world, "n": options.n, "seed": seed}
                old = [row for row in found if about.items() <= row.items()]
                recipe, done = RECIPES[name], {row["steps"]: row for row in old}
                if recipe.resumes and old:
                    continue
                for row in curve(recipe, world, options.n, seed, options.limit, options.episodes, done):
                    if row["steps"] in done:
                        continue
                    found.append(about | row | {"limit": options.limit})
                    print(json.dumps(found[-1]), flush=True)
                    with atomic_write(options.json) as temporary:
                        temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    worlds = sorted({row["world"] for row in rows}, reverse=True)
    figure = Figure(figsize=(4.2 * len(worlds), 3.2), layout="constrained")
    for axes, world in zip(figure.subplots(1, len(worlds), squeeze=False)[0], worlds, strict=True):
        for colour, name in zip(("C0", "C1", "C2"), CURVES, strict=True):
            for seed in sorted({row["seed"] for row in rows}):
                line = sorted(
                    (row["train_cpu_seconds"] + row["data_cpu_seconds"], row["hard"])
                    for row in rows
                    if (row["recipe"], row["world"], row["seed"]) == (name, world, seed)
                )
                if line:
                    axes.plot(*zip(*line, strict=True), "o-", color=colour, ms=3, lw=1, label=None if seed else name)
        axes.axhline(EXACT, color="grey", lw=0.5)
        axes.set(title=f"{world}, N=10, K=5", xscale="log", xlabel="CPU seconds from nothing")
        axes.set(ylabel="hard pool, MRR at 10 steps", ylim=(0, 102))
        axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
        axes.minorticks_off()
    figure.axes[0].legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="what was found, and is not measured again")
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(CURVES))
    parser.add_argument("--worlds", nargs="+", default=["shapes", "rush_hour"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("-n", type=int, default=10)
    parser.add_argument("--limit", type=float, default=300, help="CPU seconds of a training")
    parser.add_argument("--episodes", type=int, default=10_000, help="queries and references of an evaluation")
    parser.add_argument("--plot", type=Path, help="draw the curves")
    parser.add_argument("--only-plot", action="store_true", help="measure nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.only_plot:
        measure(options)
    if options.plot is not None:
        plot(json.loads(options.json.read_text(encoding="utf-8")), options.plot)


if __name__ == "__main__":
    main()
