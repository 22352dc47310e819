"""The tables of docs/trust.md, from the JSON of `make fuzz torture cheats` and of `bench_evaluation.py`."""

import json
from pathlib import Path
from typing import Any

FAILURES = ("tracebacks", "hangs", "memory", "writes outside", "executed code", "long lines")
TITLES = {"memory": "over 2 GB", "hangs": "hangs over 20 s"}
COMMANDS = "command line"  # of the readers: the one that is another process


def trust_tables(folder: Path) -> str:
    """Promises with their counts, damaged files by reader, and killed commands by command, in Markdown."""
    fuzz, torture, cheats, costs = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("fuzz", "torture", "cheats", "evaluation")
    )
    columns = ("tried", "refused", "read", *FAILURES)
    counts: dict[str, Any] = {**fuzz["readers"], "**all**": fuzz["total"]}
    files = [(name, *(f"{one[column]:,}" for column in columns)) for name, one in counts.items()]
    head = ("damaged", *(TITLES.get(column, column) for column in columns))
    killed = [(name, one["kills"], one["runs"], one["equal"]) for name, one in torture["commands"].items()]
    killed.append(("**all**", *(torture["total"][key] for key in ("kills", "runs", "equal"))))
    tables = (
        _table(("promise", "tried", "kept", "by"), _promises(fuzz, torture, cheats, costs)),
        _table(head, files),
        _table(("command", "kills", "runs", "equal bit for bit"), killed),
    )
    return "\n\n".join(tables)


def _promises(fuzz: Any, torture: Any, cheats: Any, costs: Any) -> list[tuple[str, ...]]:
    commands = fuzz["readers"][COMMANDS]
    read = {name: fuzz["total"][name] - commands[name] for name in commands if name in fuzz["total"]}
    runs, tried = torture["total"], cheats["total"]
    return [
        ("a damaged file is read or refused in one line", *_kept(read, "files"), "`make fuzz`"),
        (
            f"the same on the command line, run by another user (`{commands['user']}`)",
            *_kept(commands, "commands"),
            "`make fuzz`",
        ),
        (
            "a command that was killed and runs again gives the same bits",
            f"{runs['kills']:,} kills in {runs['runs']:,} runs",
            f"{runs['equal']:,} runs",
            "`make torture`",
        ),
        (
            "a model that cheats is refused or gets its honest score in both pools",
            f"{tried['tried']} cheats",
            f"{tried['fair']}, of which {tried['refused']} are refused",
            "`make cheats`",
        ),
        (
            "the checks of an evaluation cost at most 3 % of its processor time",
            f"{costs['repeats']} times with and without, in turn",
            f"{100 * costs['checks_share_of_evaluation']:.1f} %",
            "`benchmarks/bench_evaluation.py`",
        ),
    ]


def _kept(counts: dict[str, int], what: str) -> tuple[str, str]:
    return f"{counts['tried']:,} {what}", f"{counts['tried'] - sum(counts[name] for name in FAILURES):,}"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
