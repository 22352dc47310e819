"""What the commands share: how one is added, what may be written where, and how a picture is written."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from howm.errors import HowmError

Command = Callable[[argparse.Namespace], int]


def add_command(commands: Any, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def whole_number(least: int) -> Callable[[str], int]:
    """An argument type: a whole number that is not too small."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small; give {least} or more")
        return value

    return read


def add_world(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", required=True, help="the world: shapes or rush_hour")
    parser.add_argument("-n", type=int, required=True, help="objects in the library (N)")
    parser.add_argument("--library-seed", type=whole_number(0), default=0, help="which library (default 0)")


def add_output(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, help=text)
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def check_output(options: argparse.Namespace, *read: Path) -> None:
    """Refuse, before any work, to write over what is read and, without --force, over any file."""
    out: Path = options.out
    if not os.path.exists(out):  # of a folder that may not be entered, Path.exists raises an error
        return
    if not out.is_file():
        raise HowmError(f"{out} exists already and is no file that could be replaced; remove it or choose another -o")
    if any(path.exists() and os.path.samefile(path, out) for path in read):
        raise HowmError(f"{out} is the file that is read; choose another -o")
    if not options.force:
        raise HowmError(f"{out} exists already; choose another -o or replace it with --force")


def write_picture(picture: Any, path: Path) -> None:
    from PIL import Image

    from howm.storage import written_whole

    if path.suffix.lower() != ".png":
        raise HowmError(f"{path} is no PNG file; give a name that ends in .png")
    with written_whole(path) as temporary:
        Image.fromarray(picture).save(temporary, format="png")
    print(path)
