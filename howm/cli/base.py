"""What the commands share: how one is added, what may be written where, and how a picture is written."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from howm.errors import HowmError

Command = Callable[[argparse.Namespace], int]
RUN = "a run directory, the name of a model that `howm models` lists, or hf:owner/name on the Hugging Face Hub"


def add_command(commands: Any, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command, parser=parser)
    return parser


def in_options(message: str, parser: argparse.ArgumentParser | None) -> str:
    """An error of the library, whose Python arguments are in backticks, in the words of a command's options."""
    known = parser._option_string_actions if parser else {}

    def in_option(found: re.Match[str]) -> str:
        option, value = f"--{found['name'].lower().replace('_', '-')}", found["value"] or ""
        name = next((one for one in (option, f"{option}s") if one in known), None)  # a sweep takes several
        if name is None:
            return found[0]
        return name if value in ("", "True") else f"{name} {value}"

    message = re.sub(r"`howm\.(?P<name>[A-Z]+)S\.allow\('(?P<value>[^'`]+)'\)`", in_option, message)
    return re.sub(r"`(?P<name>[a-z][a-z_]*)(?:=(?P<value>[^`\s]+))?`", in_option, message)


def whole_number(least: int) -> Callable[[str], int]:
    """An argument type: an integer of ``least`` or more."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"must be an integer of {least} or more, got {text!r}")
        return value

    return read


def add_world(parser: argparse.ArgumentParser) -> None:
    """Options that make a world; `world_settings` reads some of them."""
    known = "a name that `howm worlds` lists, one of an installed package, or package.module:Name"
    parser.add_argument("--world", "--env", metavar="NAME", required=True, help=f"the world: {known}")
    parser.add_argument("-n", type=int, required=True, help="objects in the library (N)")
    parser.add_argument("--library-seed", type=whole_number(0), default=0, help="seed of the library (default 0)")
    for part, text in WORLD_PARTS.items():
        parser.add_argument(f"--{part}", metavar="VALUE", help=f"{text}; for worlds that have this setting")
    add_world_settings(parser)


WORLD_PARTS = {
    "space": "grid or free",
    "contact": "block, slide, overlap, push or team",
    "classes": "none, hidden or visible: whether objects are movable, heavy, fixed or ghosts, and show it",
    "depth": "library or scene: what decides which object is nearer",
    "background": "black, plain or texture",
    "background-per": "dataset, scene or episode: what has a texture of its own",
    "noise": "noise of the camera, in 0-1",
    "brightness": "how much the light differs between episodes, in 0-1",
    "change-rate": "the share of steps after which an object is replaced",
}


def add_world_settings(parser: argparse.ArgumentParser) -> None:
    text = "settings of the world, for example grid=5x5"
    parser.add_argument("--world-set", nargs="+", default=[], metavar="KEY=VALUE", help=text)


def world_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of ``--world-set`` and of the options for single parts."""
    from howm.config import parse_settings

    names = [part.replace("-", "_") for part in WORLD_PARTS]
    parts = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    settings = parse_settings([*(f"{name}={value}" for name, value in parts.items()), *options.world_set])
    for key in {"n", "seed", "name"} & settings.keys():
        raise HowmError(f"{key} cannot be set by --world-set; give -n and --library-seed")
    return settings


def allow_world(parser: argparse.ArgumentParser) -> None:
    """``--world`` of a command that reads files, which cannot by themselves make howm import a world."""

    def read(name: str) -> str:
        try:
            allow_typed(worlds=[name])
        except HowmError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return name

    text = "package.module:Name of the world, if the data has one of your own that is not installed"
    parser.add_argument("--world", type=read, metavar="NAME", help=text)


def add_typed(parser: argparse.ArgumentParser, *nouns: str) -> None:
    """Options that let a file name things that no installed package declares."""
    for noun in nouns:
        parser.add_argument(
            f"--{noun}", metavar="MODULE:NAME", help=f"your own {noun}, where a file names one that is not installed"
        )


def allow_typed(
    methods: Sequence[str | None] = (), worlds: Sequence[str | None] = (), extractors: Sequence[str | None] = ()
) -> None:
    """Let names that a person typed be used: known ones, or package.module:Name, also of the current folder."""
    from howm.experiments.cell import allow

    given = [[name for name in names if name is not None] for names in (methods, worlds, extractors)]
    if any(":" in name for names in given for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    allow(*given)


def add_output(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, help=text)
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def check_output(options: argparse.Namespace, *read: Path) -> None:
    """Refuse, before any work, to write over what is read and, without --force, over any file."""
    out: Path = options.out
    if not os.path.exists(out):  # Path.exists raises an error of a folder that may not be entered
        return
    if not out.is_file():
        raise HowmError(
            f"{out} exists already and is not a file that could be replaced; remove it or choose another -o"
        )
    if any(path.exists() and os.path.samefile(path, out) for path in read):
        raise HowmError(f"{out} is the file that is read; choose another -o")
    if not options.force:
        raise HowmError(f"{out} exists already; choose another -o or replace it with --force")


def write_picture(picture: Any, path: Path) -> None:
    from PIL import Image

    from howm.files import atomic_write

    if path.suffix.lower() != ".png":
        raise HowmError(f"{path} is not a PNG file; give a name that ends in .png")
    with atomic_write(path) as temporary:
        Image.fromarray(picture).save(temporary, format="png")
    print(path)
