"""The table of what is promised and how it is tested, from the JSON of `make fuzz` and `make torture`."""

import json
import sys
from pathlib import Path
from typing import Any

FAILURES = ("tracebacks", "hangs", "memory", "writes outside", "executed code", "long lines")
TITLES = {"memory": "over 2 GB", "hangs": "hangs over 20 s"}


def trust_tables(folder: Path) -> str:
    """Two tables in Markdown: damaged files by reader, and killed commands."""
    fuzz, torture = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("fuzz", "torture"))
    columns = ("tried", "refused", "read", *FAILURES)
    counts: dict[str, Any] = {**fuzz["readers"], "**all**": fuzz["total"]}
    files = [(name, *(f"{one[column]:,}" for column in columns)) for name, one in counts.items()]
    head = ("damaged", *(TITLES.get(column, column) for column in columns))
    killed = [(name, one["kills"], one["runs"], one["equal"]) for name, one in torture["commands"].items()]
    killed.append(("**all**", *(torture["total"][key] for key in ("kills", "runs", "equal"))))
    return f"{_table(head, files)}\n\n{_table(('command', 'kills', 'runs', 'equal bit for bit'), killed)}\n"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


if __name__ == "__main__":
    print(trust_tables(Path(sys.argv[1] if len(sys.argv) > 1 else "results/trust")), end="")
