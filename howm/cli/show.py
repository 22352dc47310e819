"""howm show: pictures of what a run has learned."""

import argparse
from pathlib import Path
from typing import Any

from howm.cli.base import RUN, add_command, add_typed, allow_typed, whole_number
from howm.errors import HowmError


def add_commands(commands: Any) -> None:
    show = add_command(
        commands, "show", _show, "draw what a run has learned: its slots, bindings, masks and predictions"
    )
    show.add_argument("run", help=RUN)
    show.add_argument("-o", "--out", type=Path, required=True, help="the folder to write the pictures to")
    show.add_argument(
        "--data", type=Path, help="a dataset file to take an evaluation episode from (default: a new one)"
    )
    show.add_argument("--fresh-seed", type=whole_number(0), help="seed of the new episodes to choose from (default 0)")
    show.add_argument("--episode", type=whole_number(0), default=0, help="number of the episode (default 0)")
    show.add_argument("--steps", type=whole_number(1), help="steps to predict (default 10, or as many as the data has)")
    add_typed(show, "method", "world", "extractor")


def _show(options: argparse.Namespace) -> int:
    from howm.draw.figures import figures, save_figure
    from howm.evaluation.episodes import fresh_episodes, stored_episodes
    from howm.runs.checkpoint import load_checkpoint
    from howm.runs.locate import find_checkpoint, rebuild

    if options.data is not None and options.fresh_seed is not None:
        raise HowmError("--fresh-seed makes its own episodes; leave out --data")
    allow_typed([options.method], [options.world], [options.extractor])
    checkpoint = load_checkpoint(find_checkpoint(options.run))
    if options.data is not None:
        chosen = stored_episodes(checkpoint, options.data)
    elif checkpoint.record.data.simulator is not None:
        episodes = max(100, options.episode + 1)
        chosen = fresh_episodes(checkpoint, options.steps or 10, options.fresh_seed or 0, episodes)
    else:
        raise HowmError(f"{options.run} was trained on imported pictures, whose world is unknown; give --data FILE")
    steps = options.steps or min(10, chosen.unseen.steps)
    drawn = figures(rebuild(checkpoint, chosen.k), chosen.unseen, options.episode, steps)
    for name, figure in drawn.items():
        save_figure(figure, options.out / f"{name}.png")
        print(options.out / f"{name}.png")
    return 0
