"""howm library: look at an object library."""

import argparse
from pathlib import Path
from typing import Any

from howm.commands.base import add_command, add_world, write_picture


def add_commands(commands: Any) -> None:
    library = commands.add_parser("library", help="look at an object library")
    actions = library.add_subparsers(required=True, metavar="ACTION")
    show = add_command(actions, "show", _library_show, "draw all objects of a library, in order, or list them as JSON")
    add_world(show)
    show.add_argument("-o", "--out", type=Path, help="the picture to write (PNG)")
    show.add_argument("--json", action="store_true", help="print the library as JSON")


def _library_show(options: argparse.Namespace) -> int:
    from howm.library import ObjectLibrary
    from howm.render import library_sheet

    library = ObjectLibrary.make(options.env, options.n, options.library_seed)
    if options.json:
        print(library.to_json())
    elif options.out is None:
        for i, item in enumerate(library.objects):
            print(f"{i:4d}  {item.size:5s}  {item.shape:15s} rgb{item.colour}")
    if options.out is not None:
        write_picture(library_sheet(library), options.out)
    return 0
