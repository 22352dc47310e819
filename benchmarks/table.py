"""Put the tables of results/ into README.md and the pages of docs/ that show them.

python benchmarks/table.py --write
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trust import trust_tables

from howm.report.formats import to_markdown
from howm.report.published import PAPER_WORLDS
from howm.report.results_folder import read_results
from howm.report.table import Table
from howm.report.tables.all import readme_tables, world_tables
from howm.report.tables.paper import glance
from howm.report.tables.planning import planning_table
from howm.report.tables.scores import cost_table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {
    "glance": ROOT / "README.md",
    "results": DOCS / "results.md",
    "ladder": DOCS / "worlds.md",
    "planning": DOCS / "planning.md",
    "speed": DOCS / "benchmarks.md",
    "trust": DOCS / "trust.md",
    "costs": DOCS / "cluster.md",
    "parallel": DOCS / "cluster.md",
    "exact": DOCS / "benchmarks.md",
}


def blocks(folder: Path) -> dict[str, str]:
    """What stands between the marks <!-- name --> and <!-- /name --> of the pages."""
    results = read_results(folder)
    found = {
        "glance": [glance(results)],
        "results": readme_tables(results),
        "ladder": world_tables(results),
        "planning": [planning_table(results)],
        "costs": [cost_table(results, world, 5) for world in PAPER_WORLDS],
    }
    others = {
        "speed": _speed(folder / "worlds.json"),
        "trust": trust_tables(folder / "trust"),
        "parallel": _parallel(folder / "parallel.json"),
        "exact": _exact(folder / "time-to-exact.json"),
    }
    return {name: _rendered(tables) for name, tables in found.items()} | others


def _speed(path: Path) -> str:
    """What bench_worlds.py measured, by both clocks."""
    rows = [f"| {what} | {target} | {wall} | {processor} |" for what, target, wall, processor in _figures(path)]
    return "\n".join(["| what | target | wall clock | processor |", "|---|---|---|---|", *rows])


def _parallel(path: Path) -> str:
    """What bench_parallel.py measured."""
    lines = [
        "| phase | batch | largest difference of the losses | two processes : one, steps per second |",
        "|---|---|---|---|",
    ]
    for row in json.loads(path.read_text(encoding="utf-8")):
        apart = f"{row['largest_relative_difference']:.1e}"
        lines.append(f"| `{row['phase']}` | {row['batch']} | {apart} of the loss | {row['speedup']:.2f} |")
    return "\n".join(lines)


def _exact(path: Path) -> str:
    """What time_to_exact.py measured: a row for each recipe, world and length, over its seeds."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in json.loads(path.read_text(encoding="utf-8")):
        groups.setdefault((row["recipe"], row["world"], row["steps"]), []).append(row)
    lines = [
        "| recipe | world | steps | seeds | CPU seconds from nothing | paper's pool, worst | hard pool, worst |",
        "|---|---|---|---|---|---|---|",
    ]
    for (recipe, world, steps), rows in sorted(groups.items()):
        spent = [row["data_cpu_seconds"] + row["train_cpu_seconds"] for row in rows]
        seconds = f"{min(spent):.0f}" if len(spent) == 1 else f"{min(spent):.0f}-{max(spent):.0f}"
        worst = " | ".join(f"{min(row[pool] for row in rows):.2f}" for pool in ("paper", "hard"))
        lines.append(f"| {recipe} | {world} | {steps:,} | {len(rows)} | {seconds} | {worst} |")
    return "\n".join(lines)


def _figures(path: Path) -> Iterator[tuple[str, ...]]:
    for row in json.loads(path.read_text(encoding="utf-8")):
        target, bound = row["target"], "at most" if row["most"] else "at least"
        values = [f"{row[clock]:,.{0 if row[clock] >= 100 else 1}f}" for clock in ("wall", "processor")]
        yield row["what"], "" if target is None else f"{bound} {target:,}", *values


def _rendered(tables: list[Table]) -> str:
    return "\n\n".join(f"**{table.title}.** {table.note}\n\n{to_markdown(table)}" for table in tables)


def split(text: str, name: str) -> tuple[str, str, str]:
    """What stands before, in and after a block."""
    before, rest = text.split(f"<!-- {name} -->\n")
    inside, after = rest.split(f"\n<!-- /{name} -->")
    return before, inside, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    options = parser.parse_args()
    for name, rendered in blocks(ROOT / "results").items():
        print(rendered, end="\n\n")
        if options.write:
            before, _, after = split(PAGES[name].read_text(encoding="utf-8"), name)
            text = f"{before}<!-- {name} -->\n{rendered}\n<!-- /{name} -->{after}"
            PAGES[name].write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
