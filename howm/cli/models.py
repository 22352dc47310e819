"""howm models: trained models that come with the package."""

import argparse
from typing import Any

from howm.cli.base import add_command


def add_commands(commands: Any) -> None:
    add_command(commands, "models", _models, "list the trained models that come with the package")


def _models(options: argparse.Namespace) -> int:
    from howm.runs.checkpoint import load_checkpoint
    from howm.runs.locate import find_checkpoint, shipped

    for name in shipped():
        record = load_checkpoint(find_checkpoint(name)).record
        data = record.data
        print(f"{name:22s} {record.method}, {data.world}, N={data.n}, K={data.k}, seed {record.seed}")
    return 0
