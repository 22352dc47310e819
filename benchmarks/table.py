"""Render results/ as Markdown tables: mean ± spread over seeds, beside the paper's numbers.

python benchmarks/table.py results
"""

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

# Eval MRR % at 5 steps, K=5 (Tables 1 and 2 of the paper), by N.
PAPER: dict[tuple[str, str], dict[int, float]] = {
    ("shapes", "cswm-n"): {5: 99.9, 10: 99.9, 20: 99.9},
    ("shapes", "cswm-k"): {5: 99.9, 10: 43.7, 20: 32.2, 30: 29.4},
    ("shapes", "cswm-k-ca"): {5: 85.0, 10: 26.8, 20: 22.7, 30: 24.3},
    ("shapes", "cwm-n"): {5: 61.8, 10: 55.0, 20: 11.2, 30: 7.6},
    ("rush_hour", "cswm-n"): {5: 99.9, 10: 99.8, 20: 99.8},
    ("rush_hour", "cswm-k"): {5: 99.9, 10: 29.5, 20: 13.7},
    ("rush_hour", "cswm-k-ca"): {5: 94.9, 10: 15.5, 20: 15.8},
    ("rush_hour", "cwm-n"): {5: 23.7, 10: 24.5, 20: 45.3},
}
COLUMNS = ("eval", "eval_hard", "train_hard")
STEPS = ("1", "5", "10")
ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results -->", "<!-- /results -->"


def load(folder: Path) -> dict[tuple[str, int, str], list[dict[str, Any]]]:
    """Results by world, N and method."""
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault((result["env"], result["n"], result["method"]), []).append(result)
    return found


def spread(values: list[float]) -> str:
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def table(results: dict[tuple[str, int, str], list[dict[str, Any]]], world: str) -> str:
    lines = [
        "| method | N | seeds | paper, 5 steps | unseen, paper's pool, 1 / 5 / 10 steps | unseen, hard pool "
        "| training scenes, hard pool | CPU minutes | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (env, n, method), runs in sorted(results.items(), key=lambda item: (item[0][2], item[0][1])):
        if env != world:
            continue
        paper = PAPER.get((env, method), {}).get(n)
        cells = [" / ".join(spread([run[column][k]["mrr"] for run in runs]) for k in STEPS) for column in COLUMNS]
        minutes = mean([run["train_cpu_seconds"] / 60 for run in runs])
        memory = max(run["peak_memory_mb"] for run in runs)
        lines.append(
            f"| `{method}` | {n} | {len(runs)} | {paper if paper is not None else 'OM' if n > 20 else '-'} | "
            + " | ".join(cells)
            + f" | {minutes:.1f} | {memory:.0f} |"
        )
    return "\n".join(lines)


def tables(folder: Path) -> str:
    results = load(folder)
    worlds = (("shapes", "Shapes"), ("rush_hour", "Rush Hour"))
    shown = [(title, world) for world, title in worlds if any(env == world for env, _, _ in results)]
    return "\n\n".join(f"**{title}**, K=5, MRR in percent\n\n{table(results, world)}" for title, world in shown)


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
