"""How little data HOWM needs: its score at ten steps over the number of training transitions and of training scenes.

python benchmarks/data_efficiency.py --json results/data-efficiency.json [--seeds 0 1 2]
python benchmarks/data_efficiency.py --json results/data-efficiency.json --plot docs/data-efficiency.png --only-plot

Shapes N=10, K=5, the `cpu` preset as it is. Transitions are varied in up to 100 scenes, of two episodes or more each;
scenes at 100,000 transitions. What is in the file already is not measured again.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import torch

import howm
from howm.files import atomic_write
from howm.training.run import keep_freed_memory

TRANSITIONS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
SCENES = (2, 4, 8, 16, 32, 64, 100)
STEPS = 100  # of an episode, where there are enough transitions


def amounts() -> Iterator[dict[str, Any]]:
    """What is varied, and the numbers of scenes, episodes and steps; two episodes a scene: one is held out."""
    for transitions in TRANSITIONS:
        steps = min(STEPS, max(5, transitions // 20))
        episodes = transitions // steps
        yield {"varied": "transitions", "scenes": min(100, episodes // 2), "episodes": episodes, "steps": steps}
    for scenes in SCENES:
        yield {"varied": "scenes", "scenes": scenes, "episodes": 100_000 // STEPS, "steps": STEPS}


def measure(amount: dict[str, Any], seed: int, queries: int) -> dict[str, Any]:
    sizes = howm.Amounts(amount["episodes"], amount["steps"], queries, 10)
    data = howm.make_dataset("shapes", 10, 5, seed, amounts=sizes, train_scenes=amount["scenes"])
    began = process_time()
    with tempfile.TemporaryDirectory() as folder:
        howm.train_run(howm.configure("howm", "cpu", spec=data.spec), data, Path(folder) / "run", seed)
        seconds, model = process_time() - began, howm.load(Path(folder) / "run")
    found = howm.evaluate(model, howm.Rollouts(data.eval), steps=(10,), controls=False).model
    scores = {pool: by_step["10"].mrr for pool, by_step in found.items()}
    transitions = amount["episodes"] * amount["steps"]
    return {**amount, "transitions": transitions, "seed": seed, "cpu_seconds": seconds, "references": queries, **scores}


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    for axes, varied in zip(figure.subplots(1, 2), ("transitions", "scenes"), strict=True):
        for seed in sorted({row["seed"] for row in rows}):
            line = sorted((row[varied], row["hard"]) for row in rows if (row["varied"], row["seed"]) == (varied, seed))
            axes.plot(*zip(*line, strict=True), "o-", ms=3, lw=1, label=f"seed {seed}")
        axes.set(xscale="log", xlabel=f"training {varied}", ylabel="hard pool, MRR at 10 steps", ylim=(0, 102))
    figure.axes[0].legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="what was found, and is not measured again")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=10_000, help="queries and references of an evaluation")
    parser.add_argument("--plot", type=Path, help="draw the curves")
    parser.add_argument("--only-plot", action="store_true", help="measure nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    found = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else []
    for seed in [] if options.only_plot else options.seeds:
        for amount in amounts():
            about = amount | {"seed": seed}
            if any(about.items() <= row.items() for row in found):
                continue
            found.append(measure(amount, seed, options.episodes))
            print(json.dumps(found[-1]), flush=True)
            with atomic_write(options.json) as temporary:
                temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
