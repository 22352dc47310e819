"""howm check: whether something of your own keeps the contract."""

import argparse
from typing import Any

from howm.cli.base import add_command, add_world_settings, allow_typed, whole_number, world_settings


def add_commands(commands: Any) -> None:
    check = commands.add_parser("check", help="check a world, a model or an extractor of your own")
    kinds = check.add_subparsers(required=True, metavar="KIND")
    violates = "list where {} breaks its contract; exit code 1 if it does"

    world = add_command(kinds, "world", _check_world, violates.format("a world"))
    world.add_argument("name", metavar="NAME", help="a known world, or package.module:Name")
    world.add_argument("-n", type=whole_number(1), default=10, help="objects in the library (default 10)")
    world.add_argument("-k", type=whole_number(1), help="objects in a scene (default 3)")
    add_world_settings(world)

    model = add_command(kinds, "model", _check_model, violates.format("a method's model"))
    model.add_argument("name", metavar="NAME", help="a name that `howm methods` lists, or package.module:Name")
    extractor = add_command(kinds, "extractor", _check_extractor, violates.format("an extractor"))
    extractor.add_argument("name", metavar="NAME", help="a known extractor, or package.module:Name")
    for parser in (model, extractor):
        text = "a world that it is built for: its picture size and its actions (default: a small grid world)"
        parser.add_argument("--world", metavar="NAME", help=text)


def report(name: str, violations: list[str]) -> int:
    """Print one line for each violation, or that there is none; return the exit code."""
    for violation in violations:
        print(f"VIOLATED  {violation}")
    if not violations:
        print(f"{name} keeps the contract")
    return 1 if violations else 0


def _check_world(options: argparse.Namespace) -> int:
    from howm.worlds.check import check_world
    from howm.worlds.registry import make_world

    allow_typed(worlds=[options.name])
    world = make_world(options.name, options.n, **world_settings(options))
    return report(options.name, check_world(world, options.k))


def _check_model(options: argparse.Namespace) -> int:
    from howm.models.check import check_model

    allow_typed(methods=[options.name], worlds=[options.world])
    return report(options.name, check_model(options.name, _spec(options.world)))


def _check_extractor(options: argparse.Namespace) -> int:
    from howm.models.check import check_extractor

    allow_typed(extractors=[options.name], worlds=[options.world])
    return report(options.name, check_extractor(options.name, _spec(options.world)))


def _spec(world: str | None) -> Any:
    """A small library of a world, or None for the checker's own."""
    from howm.worlds.registry import make_world

    return None if world is None else make_world(world, 6).spec(3)
