"""howm methods: what can be trained."""

import argparse
from typing import Any

from howm.cli.base import add_command


def add_commands(commands: Any) -> None:
    add_command(commands, "methods", _methods, "list the methods that can be trained")


def _methods(options: argparse.Namespace) -> int:
    from howm.models.registry import METHODS

    for method in METHODS.values():
        print(f"{method.name:12s} {method.title:14s} {method.summary} (presets: {', '.join(method.presets)})")
    return 0
