"""Put the figures of results/goals.json and results/rewards.json into docs/acting.md.

python benchmarks/acting_tables.py --write
"""

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "acting.md"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _buckets(found: dict[str, Any], key: str) -> str:
    return " / ".join(str(bucket[key]) for bucket in found["buckets"].values())


def goals() -> str:
    figures = json.loads((ROOT / "results" / "goals.json").read_text(encoding="utf-8"))
    head = ["world", "goals of 1–5 / 6–10 / 11–20 / 21–40", "with a detour", "exact", "drawn in", "plain twin"]
    rows = [
        [name, *(_buckets(found, key) for key in ("goals", "detours", "exact")), f"{found['seconds']} s",
         f"{found['twin']['ratio']:.0f}× as long"]
        for name, found in figures.items()
    ]  # fmt: skip
    return _table(head, rows)


def rewards() -> str:
    figures = json.loads((ROOT / "results" / "rewards.json").read_text(encoding="utf-8"))["howm-shapes-n10"]
    head = [
        "task",
        "unseen: mean error",
        "variance explained",
        "within 0.05",
        "training: within 0.05",
        "λ_R, true",
        "λ_R",
    ]
    rows = [
        [
            f"`{task}`",
            f"{found['unseen']['mean_error']:.3f}",
            f"{found['unseen']['explained']:.1%}",
            f"{found['unseen']['close']:.1%}",
            f"{found['training']['close']:.1%}",
            f"{found['invariance']['true']['expected']:.3f}",
            f"{found['invariance']['learned']['expected']:.3f}",
        ]
        for task, found in figures.items()
    ]
    return _table(head, rows)


TABLES = {"goals": goals, "rewards": rewards}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        print(make(), end="\n\n")
        before, rest = text.split(f"<!-- {name} -->\n")
        text = f"{before}<!-- {name} -->\n{make()}\n<!-- /{name} -->{rest.split(f'<!-- /{name} -->')[1]}"
    if options.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
