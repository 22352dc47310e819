"""howm explore: a page on which a scene is played and a model is watched."""

import argparse
from pathlib import Path
from typing import Any

from howm.cli.base import RUN, add_command, add_typed, allow_typed, whole_number


def add_commands(commands: Any) -> None:
    explore = add_command(
        commands, "explore", _explore, "open a page on which you move objects and watch what a model imagines"
    )
    explore.add_argument("run", help=RUN)
    explore.add_argument("--against", metavar="RUN", help="a second model of the same world, in the same view")
    explore.add_argument("--data", type=Path, help="a dataset file to take scenes and starts of (default: new ones)")
    explore.add_argument("--port", type=whole_number(0), default=0, help="default: any free one")
    explore.add_argument("--no-browser", action="store_true", help="print the address only")
    add_typed(explore, "method", "world", "extractor")


def _explore(options: argparse.Namespace) -> int:
    from howm.explorer.explore import explore

    allow_typed([options.method], [options.world], [options.extractor])
    explore(
        options.run,
        against=options.against,
        data=options.data,
        port=options.port,
        browser=not options.no_browser,
    )
    return 0
