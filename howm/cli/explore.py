"""howm explore: a page on which a scene is played and a model is watched."""

import argparse
import sys
from pathlib import Path
from typing import Any

from howm.cli.base import RUN, add_command, add_typed, allow_typed, whole_number
from howm.errors import HowmError


def add_commands(commands: Any) -> None:
    explore = add_command(
        commands, "explore", _explore, "open a page on which you move objects and watch what a model imagines"
    )
    explore.add_argument("run", help=RUN)
    explore.add_argument("--against", metavar="RUN", help="a second model of the same world, in the same view")
    explore.add_argument("--data", type=Path, help="a dataset file to take scenes and starts from (default: new ones)")
    explore.add_argument("--port", type=whole_number(0), default=0, help="default: any free port")
    explore.add_argument("--no-browser", action="store_true", help="print the address only")
    text = "write one page that holds model and world and opens from disk, instead of serving it"
    explore.add_argument("--export", type=Path, metavar="PAGE", help=text)
    text = "sizes of the scenes of an exported page, such as 5 or 3-7 (default: as in training, ± up to 2)"
    explore.add_argument("--sizes", metavar="K", help=text)
    add_typed(explore, "method", "world", "extractor")


def _explore(options: argparse.Namespace) -> int:
    from howm.explorer.explore import explore

    allow_typed([options.method], [options.world], [options.extractor])
    if options.export is not None:
        return _export(options)
    if options.sizes is not None:
        raise HowmError(f"--sizes {options.sizes} is for an exported page; give --export PAGE, or leave it out")
    explore(
        options.run,
        against=options.against,
        data=options.data,
        port=options.port,
        browser=not options.no_browser,
    )
    return 0


def _export(options: argparse.Namespace) -> int:
    from howm.explorer.export.page import export_page
    from howm.worlds.sizes import read_sizes

    if options.data is not None:
        raise HowmError("an exported page draws scenes of its own; leave out --data")
    sizes = None if options.sizes is None else read_sizes(options.sizes)

    def report(line: str) -> None:
        print(f"exporting {line}", file=sys.stderr)

    print(export_page(options.run, options.export, against=options.against, sizes=sizes, report=report))
    return 0
