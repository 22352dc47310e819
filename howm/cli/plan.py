"""howm plan: reach goal pictures with a run."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howm.cli.base import RUN, add_command, add_typed, allow_typed, whole_number
from howm.errors import HowmError

if TYPE_CHECKING:
    from howm.runs.plan_result import PlanResult, Reached

PLANNERS = ("search", "beam", "cem", "greedy", "random")


def add_commands(commands: Any) -> None:
    plan = add_command(commands, "plan", _plan, "reach goals in unseen scenes from goal pictures alone")
    plan.add_argument("run", help=RUN)
    plan.add_argument("--planner", choices=PLANNERS, default="search", help="default search")
    plan.add_argument(
        "--goals", default="100", metavar="FILE|N",
        help="a file of goals, or how many to draw in unseen and in training scenes (default 100)",
    )  # fmt: skip
    plan.add_argument("--seed", type=whole_number(0), default=0, help="seed of the goals that are drawn (default 0)")
    plan.add_argument(
        "--budget", type=whole_number(1), default=100, help="largest number of steps in the world (default 100)"
    )
    look = plan.add_mutually_exclusive_group()
    look.add_argument("--replan", action="store_true",
                      help="observe every step, and plan again if one did not come true (default)")  # fmt: skip
    look.add_argument("--open-loop", action="store_true", help="carry out the first plan without observing the world")
    plan.add_argument("--cost", choices=("objects", "embedding"),
                      help="distance to the goal (default: by objects where the model keeps them apart)")  # fmt: skip
    plan.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE",
                      help="settings of the planner, for example budget=5000")  # fmt: skip
    plan.add_argument(
        "--no-references", action="store_true", help="leave out random, exact, true_dynamics and true_state"
    )
    plan.add_argument("--json", action="store_true", help="print the record as the last line")
    plan.add_argument("-o", "--out", type=Path, help="also draw a plan in an unseen scene, as a PNG file")
    plan.add_argument("--results", type=Path, metavar="DIR",
                      help="also write DIR/planning/<world>-n<N>-k<K>/<method>-seed<S>-<planner>.json")  # fmt: skip
    add_typed(plan, "method", "world", "extractor")


def _plan(options: argparse.Namespace) -> int:
    from howm.config import parse_settings
    from howm.planning.run import plan_run
    from howm.runs.plan_result import write_plan_result

    if options.out is not None and options.out.suffix.lower() != ".png":
        raise HowmError(f"{options.out} is not a PNG file; give a name that ends in .png")
    if options.results is not None and options.results.is_file():
        raise HowmError(f"--results {options.results} is a file; give the folder that the results go into")
    goals = _goals(options.goals)
    allow_typed([options.method], [options.world], [options.extractor])
    result = plan_run(
        options.run, goals, planner=options.planner, settings=parse_settings(options.set), cost=options.cost,
        replan=not options.open_loop, budget=options.budget, seed=options.seed, references=not options.no_references,
        say=lambda text: print(text, file=sys.stderr),
    )  # fmt: skip
    written = [] if options.results is None else [result.place(options.results)]
    if Path(options.run).is_dir():
        written.append(Path(options.run) / f"plan-{result.name}.json")
    for path in written:
        write_plan_result(result, path)
    _print(result)
    if options.out is not None:
        _draw(options, goals)
    for path in written:
        print(f"written to {path}", file=sys.stderr)
    if options.json:
        print(json.dumps(result.line()), flush=True)
    return 0


def _goals(text: str) -> int | Path:
    if not text.removeprefix("-").isdecimal():
        return Path(text)
    if int(text) < 4:
        raise HowmError(f"--goals must be 4 or more, or a file, got {text}")
    return int(text)


def _draw(options: argparse.Namespace, goals: int | Path) -> None:
    from howm.draw.figures import save_figure
    from howm.draw.plan import carry_out, choose_goal, film_strip
    from howm.planning.run import goal_sets
    from howm.runs.checkpoint import load_checkpoint
    from howm.runs.locate import find_checkpoint, rebuild

    checkpoint = load_checkpoint(find_checkpoint(options.run))
    some = goal_sets(checkpoint, min(goals, 20) if isinstance(goals, int) else goals, options.seed)[0]
    shown = carry_out(rebuild(checkpoint, some.k), some, choose_goal(some), options.planner)
    save_figure(film_strip(shown), options.out)
    print(options.out)


def _print(result: "PlanResult") -> None:
    """A table for people, on standard error."""

    def say(text: str) -> None:
        print(text.rstrip(), file=sys.stderr)

    say(f"{result.method} on {result.world}, N={result.n}, K={result.k}, seed {result.seed}: {result.name}, "
        f"{result.budget} steps at most")  # fmt: skip
    say(f"{'':16s}{'optimal':>8s}{'goals':>7s}{'success':>9s} {'(95 %)':14s}{'L/L*':>6s}{'open loop':>11s}"
        f"{'came true':>11s}{'calls':>9s}{'CPU s':>8s}")  # fmt: skip
    parts = {"unseen scenes": result.unseen, "training scenes": result.training, **result.references}
    for name, part in parts.items():
        for bucket, found in part.items():
            if found.goals:
                say(f"{name:16s}{bucket:>8s}{found.goals:7d}{_entries(found)}")
                name = ""


def _entries(found: "Reached") -> str:
    def number(value: float | None, width: int, digits: int) -> str:
        return f"{'–' if value is None else f'{value:.{digits}f}':>{width}s}"

    low, high = found.success_ci or (0.0, 0.0)
    return (
        f"{number(found.success, 9, 1)} {f'({low:.1f}-{high:.1f})':14s}{number(found.ratio, 6, 3)}"
        f"{number(found.open_loop, 11, 1)}{number(found.came_true, 11, 1)}"
        f"{number(found.model_calls, 9, 0)}{number(found.cpu_seconds, 8, 3)}"
    )
