"""howm theory: Proposition 4.1 on an enumerated library."""

import argparse
from typing import Any

from howm.cli.base import add_command


def add_commands(commands: Any) -> None:
    add_command(commands, "theory", _theory, "check Proposition 4.1 and its corollary on an enumerated Object Library")


def _theory(options: argparse.Namespace) -> int:
    from howm.theory.proposition import check_proposition

    print(check_proposition())
    return 0
