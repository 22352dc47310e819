"""howm sweep: a grid of runs, resumed when killed, and its status."""

import argparse
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howm.cli.base import add_command, add_typed, allow_typed, whole_number
from howm.errors import HowmError

if TYPE_CHECKING:
    from howm.experiments.folder import Sweep
    from howm.experiments.plan import PlannedRun, SweepConfig


def add_commands(commands: Any) -> None:
    sweep = add_command(
        commands, "sweep", _sweep, "train and evaluate a grid of methods, worlds, library sizes and seeds"
    )
    sweep.epilog = "`howm sweep status DIR` shows the progress of a sweep, also while it runs."
    sweep.add_argument("config", nargs="*", help="a YAML file with the grid")
    sweep.add_argument("--paper", action="store_true", help="the grid of the paper's tables")
    sweep.add_argument(
        "--methods", nargs="+", help="names that `howm methods` lists, package.module:Name, or names of variants"
    )
    sweep.add_argument("--worlds", "--world", "--envs", nargs="+", dest="envs",
                       help="names that `howm worlds` lists, or package.module:Name")  # fmt: skip
    sweep.add_argument("-n", type=whole_number(1), nargs="+", help="library sizes")
    sweep.add_argument("-k", help="objects in a scene (K), or sizes of scenes such as 3-7 (default: the world's, 5)")
    sweep.add_argument("--splits", "--split", nargs="+", help="scenes, pairs, minimal, linked or larger-k "
                       "(default: the world's, scenes)")  # fmt: skip
    sweep.add_argument("--eval-k", help="sizes of evaluation scenes with --split larger-k, such as 6-8")
    sweep.add_argument("--world-set", nargs="+", dest="world_settings", metavar="KEY=VALUE",
                       help="settings of the worlds, for example grid=8x8")  # fmt: skip
    sweep.add_argument("--train-scenes", type=whole_number(1), help="training scenes (default max(100, ⌈2N/K⌉))")
    sweep.add_argument(
        "--seeds",
        type=whole_number(0),
        nargs="+",
        help="seeds of both data and training (default 0 1 2, or those of the grid)",
    )
    sweep.add_argument("--budget", help="quick, cpu or paper (default cpu)")
    sweep.add_argument("--share", type=float, help="share of the preset's training steps (default: the budget's)")
    sweep.add_argument("--steps", type=whole_number(1), nargs="+", help="steps to predict (default 1 5 10)")
    sweep.add_argument("--episodes", type=whole_number(2), help="evaluation episodes (default: the budget's)")
    sweep.add_argument("--queries", type=whole_number(2), help="how many predictions to rank (default: all)")
    sweep.add_argument(
        "--set", nargs="+", dest="settings", metavar="KEY=VALUE", help="override a key, for all methods that have it"
    )
    add_typed(sweep, "extractor")
    sweep.add_argument("--out", type=Path, help="the folder of the sweep")
    sweep.add_argument("--results", type=Path, help="where the results go (default OUT/results)")
    sweep.add_argument(
        "--workers", type=whole_number(1), default=_cores(), help="runs at a time (default: one for each core)"
    )
    sweep.add_argument(
        "--threads",
        type=whole_number(1),
        help="threads of each run (default: the cores divided among workers; on Ray, 1)",
    )
    sweep.add_argument("--memory-mb", type=whole_number(1), help="a run that needs more is recorded as OM")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local", help="default local")
    sweep.add_argument("--address", help="address of a Ray cluster (default: one on this machine)")
    sweep.add_argument("--gpus", type=_share, default=0.0, help="GPUs of each Ray task (default 0; may be a fraction)")

    status = add_command(
        commands,
        "sweep status",
        _status,
        "show the progress of a sweep: runs that have ended, are running and are waiting",
    )
    status.add_argument("dir", type=Path, help="the folder of the sweep (its --out)")


def _cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {text!r}")
    return value


def _sweep(options: argparse.Namespace) -> int:
    from howm.experiments.engines import run_local, run_on_ray
    from howm.experiments.folder import Sweep

    config = _config(options)
    if options.out is None:
        raise HowmError("a sweep needs a folder; give --out DIR")
    on_ray = options.engine == "ray"
    if not on_ray and (options.address or options.gpus):
        raise HowmError("--address and --gpus are for a Ray cluster; give --engine ray, or leave them out")
    results = None if options.results is None else options.results.resolve()
    threads = options.threads or (1 if on_ray else max(1, _cores() // options.workers))
    sweep = Sweep(options.out.resolve(), config, options.memory_mb, threads, results)
    sweep.begin()
    runs = sweep.open_runs()
    print(f"{len(config.runs()) - len(runs)} of {len(config.runs())} runs are finished", file=sys.stderr)
    listener = _Terminal(sweep)
    try:
        if on_ray:
            found = run_on_ray(sweep, runs, options.address, options.gpus, listener)
        else:
            found = run_local(sweep, runs, options.workers, listener)
    except KeyboardInterrupt:  # also of SIGTERM
        listener.clear()
        print(f"{sweep.overview()}; resume with the same command: howm {shlex.join(options.given)}", file=sys.stderr)
        raise
    listener.clear()
    _print_status(sweep)
    print(options.out)
    return 1 if "failed" in found.values() else 0


def _config(options: argparse.Namespace) -> "SweepConfig":
    """The grid of a file or of the paper, with what the options say put in."""
    from howm.config import from_plain, parse_settings, read_yaml, to_plain
    from howm.experiments.plan import SweepConfig, Variant, paper_grid
    from howm.runs.config import extractor_kind

    if len(options.config) > 1 or (options.config and options.paper):
        raise HowmError("give one configuration file, or --paper")
    values: dict[str, Any] = read_yaml(options.config[0]) if options.config else {}
    values.pop("results", None)  # the file may be what a sweep wrote down
    if not options.config and not options.paper and not (options.methods and options.n):
        raise HowmError("say what to run: --paper, a configuration file, or --methods and -n")
    if options.paper:
        values = paper_grid(options.budget)
    names = (
        "methods",
        "envs",
        "n",
        "k",
        "splits",
        "eval_k",
        "world_settings",
        "train_scenes",
        "seeds",
        "budget",
        "share",
        "steps",
        "episodes",
        "queries",
        "settings",
    )
    for name in names:
        value = getattr(options, name)
        if value is not None:
            values[name] = value
    if options.methods is not None:  # names of variants, too
        given = [from_plain(Variant, variant, "variants.") for variant in values.get("variants") or []]
        variants = {variant.name: to_plain(variant) for variant in given}
        values["variants"] = [variants[name] for name in options.methods if name in variants]
        values["methods"] = [name for name in options.methods if name not in variants]
        allow_typed(values["methods"])
    kind = extractor_kind(parse_settings(options.settings or ()))
    allow_typed(worlds=options.envs or (), extractors=[kind, options.extractor])
    if options.n is not None:
        values["large"] = []
    return from_plain(SweepConfig, values)


_QUIET = 60.0  # seconds between lines where there is no terminal


class _Terminal:
    """A line for every run that ended; below them one that lives, or without a terminal one every minute."""

    def __init__(self, sweep: "Sweep", clock: Callable[[], float] = time.monotonic) -> None:
        self.sweep, self.lives, self.clock = sweep, sys.stderr.isatty(), clock
        self.said = clock()

    def ended(self, run: "PlannedRun", status: str) -> None:
        self.clear()
        end = "" if self.lives else f" ({self.sweep.overview()})"
        print(f"{run.name}: {status}{end}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        if not self.lives and self.clock() - self.said < _QUIET:
            return
        self.said = self.clock()
        overview = self.sweep.overview()
        running = ", ".join(f"{run.name} {share:.0%}" for run, share in overview.running.items())
        line = f"{overview} [{running}]"
        self.clear()
        if self.lives:
            line = line[: shutil.get_terminal_size().columns - 1]
        print(line, end="" if self.lives else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.lives:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def _status(options: argparse.Namespace) -> int:
    from howm.experiments.folder import Sweep

    if not (options.dir / "sweep.yaml").is_file():
        raise HowmError(f"{options.dir} is not the folder of a sweep; give the folder that was its --out")
    _print_status(Sweep.open(options.dir))
    return 0


def _print_status(sweep: "Sweep") -> None:
    overview = sweep.overview()
    print(overview)
    for run, share in overview.running.items():
        print(f"running  {run.name}: {share:.0%} of training")
    for run in sweep.config.runs():
        result = sweep.result(run)
        if result is not None and result.failure is not None and run not in overview.running:
            print(f"{result.status:8s} {run.name}: {result.failure.reason}")
