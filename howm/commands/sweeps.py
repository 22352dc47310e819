"""howm sweep: a grid of runs, gone on with when killed, and its status."""

import argparse
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from howm.commands.base import add_command, whole_number
from howm.errors import HowmError


def add_commands(commands: Any) -> None:
    sweep = add_command(
        commands, "sweep", _sweep, "train and evaluate a grid of methods, worlds, library sizes and seeds"
    )
    sweep.add_argument("config", nargs="*", help="a YAML file with the grid, or: status DIR")
    sweep.add_argument("--paper", action="store_true", help="the grid of the paper's tables")
    sweep.add_argument("--methods", nargs="+", help="names that `howm methods` lists, or of variants")
    sweep.add_argument("--envs", nargs="+", help="shapes, rush_hour")
    sweep.add_argument("-n", type=whole_number(1), nargs="+", help="library sizes")
    sweep.add_argument("-k", type=whole_number(1), help="objects in a scene (default 5)")
    sweep.add_argument("--grid", metavar="HxW", help="cells of the grid (default 5x5)")
    sweep.add_argument("--train-scenes", type=whole_number(1), help="default max(100, ⌈2N/K⌉)")
    sweep.add_argument("--seeds", type=whole_number(0), nargs="+")
    sweep.add_argument("--budget", help="quick, cpu or paper (default cpu)")
    sweep.add_argument("--steps", type=whole_number(1), nargs="+", help="of prediction (default 1 5 10)")
    sweep.add_argument("--episodes", type=whole_number(2), help="of evaluation (default: the budget's)")
    sweep.add_argument(
        "--set", nargs="+", dest="settings", metavar="KEY=VALUE", help="for all methods that have the key"
    )
    sweep.add_argument("--out", type=Path, help="the folder of the sweep")
    sweep.add_argument("--results", type=Path, help="where the results go (default OUT/results)")
    sweep.add_argument("--workers", type=whole_number(1), default=_cores(), help="default: one for each core")
    sweep.add_argument("--threads", type=whole_number(1), help="of each (default: the cores shared out; on Ray, 1)")
    sweep.add_argument("--memory-mb", type=whole_number(1), help="a cell that needs more is recorded as OM")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    sweep.add_argument("--address", help="of a Ray cluster (default: one of this machine)")
    sweep.add_argument("--gpus", type=_share, default=0.0, help="of each Ray task (default 0; a share is possible)")


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of GPUs; give 0 or more")
    return value


def _sweep(options: argparse.Namespace) -> int:
    from howm.engines import run_local, run_on_ray
    from howm.sweep import Sweep

    if options.config[:1] == ["status"]:
        return _status(options.config[1:])
    config = _config(options)
    if options.out is None:
        raise HowmError("a sweep needs a folder; give --out DIR")
    on_ray = options.engine == "ray"
    if not on_ray and (options.address or options.gpus):
        raise HowmError("--address and --gpus are of a Ray cluster; give --engine ray, or leave them out")
    results = None if options.results is None else options.results.resolve()
    threads = options.threads or (1 if on_ray else max(1, _cores() // options.workers))
    sweep = Sweep(options.out.resolve(), config, options.memory_mb, threads, results)
    sweep.begin()
    cells = sweep.open_cells()
    print(f"{len(config.cells()) - len(cells)} of {len(config.cells())} cells are finished", file=sys.stderr)
    listener = _Terminal(sweep)
    if on_ray:
        found = run_on_ray(sweep, cells, options.address, options.gpus, listener)
    else:
        found = run_local(sweep, cells, options.workers, listener)
    listener.clear()
    _print_status(sweep)
    print(options.out)
    return 1 if "failed" in found.values() else 0


def _config(options: argparse.Namespace) -> Any:
    """The grid of a file or of the paper, with what the options say put in."""
    from howm.config import from_plain, read_yaml, to_plain
    from howm.plan import SweepConfig, Variant, paper_grid

    if len(options.config) > 1 or (options.config and options.paper):
        raise HowmError("give one configuration file, or --paper")
    values: dict[str, Any] = read_yaml(options.config[0]) if options.config else {}
    values.pop("results", None)  # the file may be what a sweep wrote down
    if not options.config and not options.paper and not (options.methods and options.n):
        raise HowmError("say what to run: --paper, a configuration file, or --methods and -n")
    if options.paper:
        values = paper_grid(options.budget)
    names = ("methods", "envs", "n", "k", "grid", "train_scenes", "seeds", "budget", "steps", "episodes", "settings")
    for name in names:
        value = getattr(options, name)
        if value is not None:
            values[name] = value
    if options.methods is not None:  # names of variants, too
        given = [from_plain(Variant, variant, "variants.") for variant in values.get("variants") or []]
        variants = {variant.name: to_plain(variant) for variant in given}
        values["variants"] = [variants[name] for name in options.methods if name in variants]
        values["methods"] = [name for name in options.methods if name not in variants]
    if options.n is not None:
        values["large"] = []
    return from_plain(SweepConfig, values)


class _Terminal:
    """A line for every cell that ended and, on a terminal, below them one that lives."""

    def __init__(self, sweep: Any) -> None:
        self.sweep, self.lives = sweep, sys.stderr.isatty()

    def ended(self, cell: Any, status: str) -> None:
        self.clear()
        end = "" if self.lives else f" ({self.sweep.overview()})"
        print(f"{cell.name}: {status}{end}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        if not self.lives:
            return
        overview = self.sweep.overview()
        running = ", ".join(f"{cell.name} {share:.0%}" for cell, share in overview.running.items())
        width = shutil.get_terminal_size().columns - 1
        self.clear()
        print(f"{overview} [{running}]"[:width], end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.lives:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def _status(folders: list[str]) -> int:
    from howm.sweep import Sweep

    if len(folders) != 1 or not (Path(folders[0]) / "sweep.yaml").is_file():
        raise HowmError(f"{' '.join(folders) or 'nothing'} is no folder of a sweep; give howm sweep status DIR")
    _print_status(Sweep.open(Path(folders[0])))
    return 0


def _print_status(sweep: Any) -> None:
    overview = sweep.overview()
    print(overview)
    for cell, share in overview.running.items():
        print(f"running  {cell.name}: {share:.0%} of training")
    for cell in sweep.config.cells():
        about = sweep.result(cell)
        if about["status"] in ("failed", "OM") and cell not in overview.running:
            reason = about.get("reason") or f"over {about['memory_limit_mb']:.0f} MB"
            print(f"{about['status']:8s} {cell.name}: {reason}")
