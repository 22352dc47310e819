"""Render results/ as Markdown tables: mean ± spread over seeds, beside the paper's numbers.

python benchmarks/table.py results
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ablation import VARIANTS, file_name

from howm.models.methods import METHODS
from howm.published import published

Results = dict[tuple[str, int, str], list[dict[str, Any]]]

WORLDS = {"shapes": "Shapes", "rush_hour": "Rush Hour"}
COLUMNS = ("eval", "eval_hard", "train_hard")
STEPS = ("1", "5", "10")
ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results -->", "<!-- /results -->"


def load(folder: Path) -> Results:
    """Results by world, N and method, of the paper's five objects in a scene and up to 30 in the library."""
    found: Results = {}
    for result in read(folder):
        if result["k"] == 5 and result["n"] <= 30:
            found.setdefault((result["env"], result["n"], result["method"]), []).append(result)
    return found


def read(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("*-n*-k*/*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def spread(values: list[float]) -> str:
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def by_steps(runs: list[dict[str, Any]], pool: str, steps: Sequence[str]) -> str:
    return " / ".join(spread([run[pool][k]["mrr"] for run in runs]) for k in steps)


def costs(runs: list[dict[str, Any]]) -> str:
    minutes = mean([run["train_cpu_seconds"] / 60 for run in runs])
    return f"{minutes:.1f} | {max(run['peak_memory_mb'] for run in runs):.0f}"


def papers(env: str, method: str, n: int) -> str:
    found = published(env, method, n, k=5)
    return "OM" if found is None and n > 20 and method == "cswm-n" else "-" if found is None else str(found.mrr_5)


def table(results: Results, world: str) -> str:
    """All methods on one world."""
    lines = [
        "| method | N | seeds | paper, 5 steps | unseen, paper's pool, 1 / 5 / 10 steps | unseen, hard pool "
        "| training scenes, hard pool | CPU minutes | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = list(METHODS)
    for (env, n, method), runs in sorted(results.items(), key=lambda item: (order.index(item[0][2]), item[0][1])):
        if env == world:
            cells = [by_steps(runs, column, STEPS) for column in COLUMNS]
            lines.append(
                f"| `{method}` | {n} | {len(runs)} | {papers(env, method, n)} | {' | '.join(cells)} | {costs(runs)} |"
            )
    return "\n".join(lines)


def howm_table(results: Results) -> str:
    """HOWM in full: long rollouts, the worst seed, the gap, and what the ground truth says of slots and bindings."""
    lines = [
        "| world | N | seeds | paper, 5 steps | paper's pool, 1 / 5 / 10 / 50 steps | hard pool, 1 / 5 / 10 / 50 steps "
        "| worst seed, hard, 5 steps | gap, 5 steps | extraction / binding % | CPU minutes | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (env, n, method), runs in sorted(results.items(), key=lambda item: (item[0][0] != "shapes", item[0][1])):
        if method != "howm":
            continue
        steps = [k for k in (*STEPS, "50") if all(k in run["eval"] for run in runs)]
        worst = min(run["eval_hard"]["5"]["mrr"] for run in runs)
        gap = max((run["gap"]["5"] for run in runs), key=abs)
        stages = " / ".join(f"{min(run['binding'][stage] for run in runs):.2f}" for stage in ("extraction", "binding"))
        lines.append(
            f"| {WORLDS[env]} | {n} | {len(runs)} | {papers(env, method, n)} | {by_steps(runs, 'eval', steps)} "
            f"| {by_steps(runs, 'eval_hard', steps)} | {worst:.2f} | {gap:+.2f} | {stages} | {costs(runs)} |"
        )
    return "\n".join(lines)


def reach_table(folder: Path) -> str:
    lines = [
        "| world | N | K | seed | extraction / binding % | paper's pool, 1 / 5 / 10 steps | hard pool "
        "| gap, 5 steps | CPU minutes | MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(read(folder), key=lambda run: (run["k"], run["n"], run["seed"])):
        if run["method"] == "howm" and (run["k"] != 5 or run["n"] > 30):
            stages = " / ".join(f"{run['binding'][stage]:.2f}" for stage in ("extraction", "binding"))
            pools = [by_steps([run], pool, STEPS) for pool in ("eval", "eval_hard")]
            lines.append(
                f"| {WORLDS[run['env']]} | {run['n']} | {run['k']} | {run['seed']} | {stages} | {' | '.join(pools)} "
                f"| {run['gap']['5']:+.2f} | {costs([run])} |"
            )
    return "\n".join(lines)


def ablation_table(folder: Path) -> str:
    lines = [
        "| what is changed | seeds | extraction % | binding % | paper's pool, 1 / 5 / 10 steps | hard pool |",
        "|---|---|---|---|---|---|",
    ]
    for name in VARIANTS:
        paths = sorted(folder.glob(file_name(name, 0).replace("seed0", "seed*.json")))
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        if runs:
            stages = [spread([run["binding"][stage] for run in runs]) for stage in ("extraction", "binding")]
            pools = [by_steps(runs, pool, STEPS) for pool in ("eval", "eval_hard")]
            lines.append(f"| {name} | {len(runs)} | {' | '.join(stages)} | {' | '.join(pools)} |")
    return "\n".join(lines)


def transfer_table(folder: Path) -> str:
    lines = [
        "| model | objects in a scene | extraction / binding % | paper's pool, 1 / 5 / 10 steps | hard pool |",
        "|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        stages = " / ".join(f"{run['binding'][stage]:.2f}" for stage in ("extraction", "binding"))
        pools = [by_steps([run], pool, STEPS) for pool in ("eval", "eval_hard")]
        lines.append(f"| `{path.stem.rpartition('-')[0]}` | {run['k']} | {stages} | {' | '.join(pools)} |")
    return "\n".join(lines)


def tables(folder: Path) -> str:
    results = load(folder)
    shown = [world for world in WORLDS if any(env == world for env, _, _ in results)]
    parts = [f"**{WORLDS[world]}**, K=5, MRR in percent\n\n{table(results, world)}" for world in shown]
    if any(method == "howm" for _, _, method in results):
        parts.append(f"**HOWM in full**, K=5, unseen scenes, MRR in percent\n\n{howm_table(results)}")
    if any(run["k"] != 5 or run["n"] > 30 for run in read(folder)):
        title = "**Larger libraries, more objects** (8x8 cells for K=8); 100 training scenes, 120 for N=300"
        parts.append(f"{title}\n\n{reach_table(folder)}")
    if any(folder.glob("ablation/*.json")):
        title = "**What each part brings**: HOWM with one thing changed, Shapes, N=10, 2,000 references"
        parts.append(f"{title}\n\n{ablation_table(folder / 'ablation')}")
    if any(folder.glob("transfer/*.json")):
        title = "**Other numbers of objects, without retraining**: trained with K=5 in a scene, 10,000 references"
        parts.append(f"{title}\n\n{transfer_table(folder / 'transfer')}")
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    options = parser.parse_args()
    rendered = tables(ROOT / "results")
    print(rendered)
    if options.write:
        readme = ROOT / "README.md"
        before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        readme.write_text(f"{before}{BEGIN}\n{rendered}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
