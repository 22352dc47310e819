"""howm report: all results of a folder on one page."""

import argparse
from pathlib import Path
from typing import Any

from howm.cli.base import add_command


def add_commands(commands: Any) -> None:
    report = add_command(
        commands,
        "report",
        _report,
        "show the results of a sweep or of a folder as one page, with its tables next to it",
    )
    report.add_argument("dir", type=Path, help="the folder of a sweep, or a folder of results")
    report.add_argument("-o", "--out", type=Path, help="the page (default: report.html in the folder)")


def _report(options: argparse.Namespace) -> int:
    from howm.report.page import write_report

    for path in write_report(options.dir, options.out or options.dir / "report.html"):
        print(path)
    return 0
