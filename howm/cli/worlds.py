"""howm worlds: the worlds that are known by name."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howm.cli.base import add_command, write_picture

if TYPE_CHECKING:
    import numpy as np

    from howm.worlds.world import World

FRAMES = 9


def add_commands(commands: Any) -> None:
    worlds = add_command(commands, "worlds", _worlds, "list the worlds, or draw an episode of each")
    worlds.add_argument("-o", "--out", type=Path, help="the picture to write (PNG): an episode of every world")
    worlds.add_argument("--json", action="store_true", help="print names, summaries and settings as JSON")


def _worlds(options: argparse.Namespace) -> int:
    from howm.worlds.registry import WORLDS
    from howm.worlds.render import labelled_strips

    summaries = {name: _summary(WORLDS[name]) for name in WORLDS}
    if options.json:
        made = {name: WORLDS[name]() for name in WORLDS}
        print(json.dumps({name: {"summary": summaries[name], "settings": made[name].settings()} for name in made}))
    elif options.out is None:
        for name, summary in summaries.items():
            print(f"{name:12s} {summary}")
    if options.out is not None:
        write_picture(labelled_strips({name: _episode(WORLDS[name]()) for name in WORLDS}), options.out)
    return 0


def _summary(world: "type[World]") -> str:
    """The first line of its docstring."""
    return (world.__doc__ or "").strip().partition("\n")[0]


def _episode(world: "World") -> "np.ndarray":
    """Frames of the training episode in which most happens."""
    import numpy as np

    from howm.data.dataset import Amounts, make_dataset

    episodes = make_dataset(world, amounts=Amounts(500, FRAMES - 1, 1, 1, moving=1.0)).train
    _, _, states = episodes.state()
    moved = (states[:, 1:] != states[:, :-1]).any(axis=3).sum(axis=(1, 2)) + 10 * episodes.changes.sum(axis=1)
    return episodes.observe(np.full(FRAMES, moved.argmax()), np.arange(FRAMES))
