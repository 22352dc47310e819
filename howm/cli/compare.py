"""howm compare: models side by side on the same queries."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howm.cli.base import RUN, add_command, add_typed, allow_typed, whole_number

if TYPE_CHECKING:
    from howm.evaluation.comparison import Compared, Comparison


def add_commands(commands: Any) -> None:
    parser = add_command(
        commands, "compare", _compare, "rank runs on the same queries, with intervals for the paired differences"
    )
    parser.add_argument("models", nargs="+", metavar="RUN",
                        help=f"{RUN}; or a result (.json) with ranks. The first is what the others are compared with"
                        )  # fmt: skip
    parser.add_argument(
        "--steps",
        type=whole_number(1),
        nargs="+",
        help="steps to predict (default 1 5 10, or all that the results have)",
    )
    parser.add_argument(
        "--data", type=Path, help="a dataset file (default: the one that all runs share, or fresh episodes)"
    )
    parser.add_argument("--fresh-seed", type=whole_number(0), help="compare on new episodes instead")
    parser.add_argument(
        "--episodes", type=whole_number(2), help="how many (default: all of the data, or as many fresh ones)"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument("-o", "--out", type=Path, help="also write a page (.html)")
    add_typed(parser, "method", "world", "extractor")


def _compare(options: argparse.Namespace) -> int:
    from howm.evaluation.comparison import compare
    from howm.report.comparison_page import check_page, write_comparison
    from howm.training.run import keep_freed_memory

    if options.out is not None:
        check_page(options.out)
    allow_typed([options.method], [options.world], [options.extractor])
    keep_freed_memory()
    found = compare(
        options.models, options.data, steps=options.steps, fresh_seed=options.fresh_seed, episodes=options.episodes,
        progress=True,
    )  # fmt: skip
    print(comparison_text(found), file=sys.stderr)
    if options.out is not None:
        print(write_comparison(found, options.out))
    if options.json:
        print(json.dumps(found.to_json()))
    return 0


def comparison_text(found: "Comparison") -> str:
    """A table for people."""
    from howm.evaluation.comparison import POOLS

    width = max(map(len, found.names))
    lines = [f"{found.references} queries of {found.scenes} scene{'s' * (found.scenes != 1)}: {found.data}"]
    for pool in POOLS:
        title = {"hard": "hard pool", "paper": "paper's pool"}[pool]
        for k in dict.fromkeys(entry.steps for entry in found.of(pool)):
            lines.append(f"{title}, {k} step{'s' * (k != '1')} ahead, unseen scenes")
            lines.append(f"  {'':{width}s}     MRR  H@1   difference (95 %, paired)    better/worse on")
            lines += [_line(entry, width) for entry in found.of(pool) if entry.steps == k]
    if found.hard_pool != "near misses":
        lines.append(f"hard pool: {found.hard_pool}, since nothing simulates this world")
    return "\n".join(lines)


def _line(entry: "Compared", width: int) -> str:
    text = f"  {entry.name:{width}s}  {entry.metrics.mrr:6.2f} {entry.metrics.h1:5.1f}"
    change = entry.difference
    if change is None:
        return text
    low, high = change.mrr_ci
    interval = f"({low:+z.2f} to {high:+z.2f})"
    shares = f"{change.better:.1f} % / {change.worse:.1f} %"
    doubt = "" if change.is_clear else "  no clear difference"
    return f"{text}   {change.mrr:+z6.2f} {interval:20s} {shares:16s}{doubt}".rstrip()
