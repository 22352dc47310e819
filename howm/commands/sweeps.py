"""howm sweep: a grid of runs, gone on with when killed, and its status."""

import argparse
import os
import sys
from collections import Counter
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
    sweep.add_argument("--methods", nargs="+", help="names that `howm methods` lists")
    sweep.add_argument("--envs", nargs="+", help="shapes, rush_hour")
    sweep.add_argument("-n", type=whole_number(1), nargs="+", help="library sizes")
    sweep.add_argument("-k", type=whole_number(1), help="objects in a scene (default 5)")
    sweep.add_argument("--seeds", type=whole_number(0), nargs="+")
    sweep.add_argument("--budget", help="quick, cpu or paper (default cpu)")
    sweep.add_argument("--steps", type=whole_number(1), nargs="+", help="of prediction (default 1 5 10)")
    sweep.add_argument("--episodes", type=whole_number(2), help="of evaluation (default: the budget's)")
    sweep.add_argument(
        "--set", nargs="+", dest="settings", metavar="KEY=VALUE", help="for all methods that have the key"
    )
    sweep.add_argument("--out", type=Path, help="the folder of the sweep")
    sweep.add_argument(
        "--workers", type=whole_number(1), default=os.cpu_count() or 1, help="default: one for each core"
    )
    sweep.add_argument("--threads", type=whole_number(1), default=1, help="of each worker (default 1)")
    sweep.add_argument("--memory-mb", type=whole_number(1), help="a cell that needs more is recorded as OM")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    sweep.add_argument("--address", help="of a Ray cluster (default: one of this machine)")
    sweep.add_argument("--gpus", type=float, default=0, help="of each Ray task (default 0)")


def _sweep(options: argparse.Namespace) -> int:
    from howm.config import to_plain, to_yaml
    from howm.storage import written_whole
    from howm.sweep import Sweep, run_local, run_on_ray

    if options.config[:1] == ["status"]:
        return _status(options.config[1:])
    config = _config(options)
    if options.out is None:
        raise HowmError("a sweep needs a folder; give --out DIR")
    sweep = Sweep(options.out.resolve(), config, options.memory_mb, options.threads)
    with written_whole(sweep.folder / "sweep.yaml") as temporary:
        temporary.write_text(
            to_yaml({key: _listed(value) for key, value in to_plain(config).items()}), encoding="utf-8"
        )
    cells = sweep.open_cells()
    print(f"{len(config.cells()) - len(cells)} of {len(config.cells())} cells are finished", file=sys.stderr)
    if options.engine == "ray":
        found = run_on_ray(sweep, cells, options.address, options.gpus, _report)
    else:
        found = run_local(sweep, cells, options.workers, _report)
    _print_status(sweep)
    print(options.out)
    return 1 if "failed" in found.values() else 0


def _config(options: argparse.Namespace) -> Any:
    """The grid of a file or of the paper, with what the options say put in."""
    from howm.config import from_plain, read_yaml
    from howm.sweep import SweepConfig

    if len(options.config) > 1 or (options.config and options.paper):
        raise HowmError("give one configuration file, or --paper")
    values: dict[str, Any] = read_yaml(options.config[0]) if options.config else {}
    if not options.config and not options.paper and not (options.methods and options.n):
        raise HowmError("say what to run: --paper, a configuration file, or --methods and -n")
    for name in ("methods", "envs", "n", "k", "seeds", "budget", "steps", "episodes", "settings"):
        value = getattr(options, name)
        if value is not None:
            values[name] = value
    if options.n is not None:
        values["large"] = []
    return from_plain(SweepConfig, values)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _report(cell: Any, status: str, finished: int, total: int, seconds: float) -> None:
    left = f", about {seconds / 60:.0f} minutes left" if finished < total else ""
    print(f"{finished}/{total} {cell.name}: {status}{left}", file=sys.stderr, flush=True)


def _status(folders: list[str]) -> int:
    from howm.config import from_plain, read_yaml
    from howm.sweep import Sweep, SweepConfig

    if len(folders) != 1 or not (Path(folders[0]) / "sweep.yaml").is_file():
        raise HowmError(f"{' '.join(folders) or 'nothing'} is no folder of a sweep; give howm sweep status DIR")
    folder = Path(folders[0])
    _print_status(Sweep(folder, from_plain(SweepConfig, read_yaml(str(folder / "sweep.yaml")))))
    return 0


def _print_status(sweep: Any) -> None:
    import json

    statuses = {cell: sweep.status(cell) for cell in sweep.config.cells()}
    counts = Counter(statuses.values())
    print(", ".join(f"{counts[name]} {name}" for name in ("ok", "OM", "failed", "running", "waiting") if counts[name]))
    for cell, status in statuses.items():
        if status in ("failed", "OM"):
            about = json.loads(sweep.result_path(cell).read_text(encoding="utf-8"))
            reason = about.get("reason") or f"over {about['memory_limit_mb']:.0f} MB"
            print(f"{status:8s} {cell.name}: {reason}")
        elif status == "running":
            print(f"{status:8s} {cell.name}")
