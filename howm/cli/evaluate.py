"""howm eval: a run's k-step predictions, ranked."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howm.cli.base import RUN, add_command, add_typed, allow_typed, whole_number
from howm.errors import HowmError

if TYPE_CHECKING:
    from howm.runs.result import Diagnosis, Metrics, Part, Pool, RunResult


def add_commands(commands: Any) -> None:
    evaluation = add_command(
        commands, "eval", _eval, "rank a run's k-step predictions on unseen and on training scenes"
    )
    evaluation.add_argument("run", help=RUN)
    evaluation.add_argument(
        "--steps", type=whole_number(1), nargs="+", default=[1, 5, 10], help="steps to predict (default 1 5 10)"
    )
    evaluation.add_argument("--data", type=Path, help="a dataset file (default: the one the run was trained on)")
    evaluation.add_argument(
        "--fresh-seed", type=whole_number(0), help="evaluate on new episodes, drawn with this seed; writes nothing"
    )
    evaluation.add_argument(
        "--episodes", type=whole_number(2), help="how many (default: all of the data, or as many fresh ones)"
    )
    evaluation.add_argument(
        "--queries", type=whole_number(2), help="how many predictions to rank among all references (default: all)"
    )
    evaluation.add_argument("--json", action="store_true", help="print results.json as the last line")
    evaluation.add_argument("--equivariance", action="store_true",
                            help="also measure the equivariance error λ under object replacement")  # fmt: skip
    evaluation.add_argument("--hard-binding", action="store_true",
                            help="send each object's actions to one slot; writes nothing")  # fmt: skip
    evaluation.add_argument("--infer-count", type=whole_number(1), metavar="MOST",
                            help="count the objects of each picture, up to MOST; writes nothing")  # fmt: skip
    evaluation.add_argument("--results", type=Path, metavar="DIR",
                            help="also write DIR/<world>-n<N>-k<K>/<method>-seed<S>.json")  # fmt: skip
    evaluation.add_argument("--ranks", action="store_true",
                            help="with --results: also write the rank of every query, for `howm compare`")  # fmt: skip
    evaluation.add_argument("--force", action="store_true", help="replace results that were computed on other data")
    add_typed(evaluation, "method", "world", "extractor")


def _eval(options: argparse.Namespace) -> int:
    from howm.evaluation.run import evaluate_run
    from howm.runs.result import refuse_other_data, write_result
    from howm.training.run import keep_freed_memory

    if options.fresh_seed is not None and (options.data or options.results):
        raise HowmError("--fresh-seed makes its own data and writes nothing; leave out --data and --results")
    if options.results is not None and (options.hard_binding or options.data or options.infer_count):
        raise HowmError(
            "--results is for a run as it is, on its own data; leave out --hard-binding, --infer-count and --data"
        )
    if options.results is not None and options.results.is_file():
        raise HowmError(f"--results {options.results} is a file; give the folder that the results go into")
    if options.ranks and options.results is None:
        raise HowmError("--ranks writes next to a result; give --results DIR (howm compare ranks runs by itself)")
    allow_typed([options.method], [options.world], [options.extractor])
    keep_freed_memory()
    result = evaluate_run(
        options.run, options.data, options.results or (), steps=options.steps, fresh_seed=options.fresh_seed,
        episodes=options.episodes, queries=options.queries, equivariance=options.equivariance,
        hard_binding=options.hard_binding, infer_count=options.infer_count, force=options.force,
        ranks=options.ranks, progress=True,
    )  # fmt: skip
    written = [] if options.results is None else [result.place(options.results)]
    # A part of the data is all of it where a model that matches slots cannot be ranked among more.
    complete = options.queries is None and (options.episodes is None or result.matched)
    own = options.fresh_seed is None and options.data is None and not (options.hard_binding or options.infer_count)
    if own and complete and Path(options.run).is_dir():
        assert result.data is not None
        refuse_other_data(Path(options.run) / "results.json", result.data, options.force)
        written.append(write_result(result, Path(options.run) / "results.json"))
    _print_result(result)
    if options.json:
        print(json.dumps(result.to_json()), flush=True)
    for path in written:
        print(f"written to {path}", file=sys.stderr)
    return 0


def _print_result(result: "RunResult") -> None:
    """A table for people, on standard error."""
    from howm.evaluation.equivariance import equivariance_text
    from howm.report.published import published

    def say(*entries: str) -> None:
        print("".join(entries).rstrip(), file=sys.stderr)

    def entry(metrics: "Metrics") -> str:
        low, high = metrics.mrr_ci
        return f"{metrics.mrr:8.2f} {f'({low:.1f}-{high:.1f})':13s}{metrics.h1:6.1f}"

    split = "" if result.split == "scenes" else f", split {result.split}"
    say(f"{result.method} on {result.world}, N={result.n}, K={result.scene_size}{split}, seed {result.seed}: "
        f"{result.unseen}; {'' if result.queries is None else f'{result.queries} queries among '}"
        f"{result.references} references of {result.scenes} scenes")  # fmt: skip
    steps = list(result.scores["unseen"]["paper"])
    say(f"{'':18s}", *(f"{f'after {k} step' + 's' * (k != '1'):^28s}" for k in steps))
    pools: dict[Pool, str] = {"paper": "paper's pool, %", "hard": "hard pool, %"}
    parts: dict[Part, str] = {"unseen": "unseen scenes", "training": "training scenes"}
    for pool, title in pools.items():
        say(f"{title:18s}", *[f"{'MRR':>8s} {'(95 %)':13s}{'H@1':>6s}"] * len(steps))
        for part, name in parts.items():
            say(f"{name:18s}", *(entry(result.scores[part][pool][k]) for k in steps))
        say(f"{'gap':18s}", *(f"{result.gap[pool][k]:+z8.2f}{'':20s}" for k in steps))
        for name, scores in result.controls.items():
            say(f"control {name:10s}", *(entry(scores[pool][k]) for k in steps))
    if result.hard_pool != "near misses":
        say(f"hard pool: {result.hard_pool}, since nothing simulates this world; weaker than one with near misses")
    if result.privileged:
        say(f"{result.method} is privileged: it reads which objects are in the scene")
    if result.audit is not None:
        found = result.audit
        say(f"audit: MRR {found.stored:.1f} on the stored episodes, {found.fresh:.1f} on these fresh ones "
            f"({found.pool} pool, {found.steps} steps ahead)",
            "; it remembers its evaluation episodes: publish the fresh number" if found.remembers else "")  # fmt: skip
    theirs = published(result.world, result.method, result.n, result.k) if result.is_plain else None
    if theirs is not None:
        say(f"the paper reports MRR {theirs.mrr_1} after 1 step, {theirs.mrr_5} after 5, gap {theirs.gap_5}")
    if result.segmentation is not None:
        masks = result.segmentation
        say(f"masks: foreground ARI {masks.foreground_ari:.1f} %, matched IoU {masks.matched_iou:.1f} %")
    if result.binding is not None:
        say(_binding_text(result.binding))
    if result.equivariance is not None:
        say(equivariance_text(result.equivariance))


def _binding_text(found: "Diagnosis") -> str:
    """Where the errors come from, by the environment's ground truth."""
    absent = found.absent_to_background
    lost = {stage: "unknown" if value is None else f"{value:.2f}" for stage, value in found.lost_to.items()}
    seen = found.visible_objects
    objects = "" if seen is None else f" and {seen:.2f} % of visible objects"
    lines = [
        f"extraction {found.extraction:.2f} % of frames{objects}, binding {found.binding:.2f} % of present objects "
        f"(weight {found.weight:.2f} %)" + ("" if absent is None else f", absent to background {absent:.2f} %"),
        f"hard pool after step {found.steps}, lost to: "
        + ", ".join(f"{stage} {value}" for stage, value in lost.items()),
        "pixel error: " + ", ".join(f"{name} {error:.2e}" for name, error in found.pixel_error.items()),
    ]
    if found.count is not None:
        lines.append(f"number of objects right in {found.count:.2f} % of frames")
    if found.memory:
        known = ", ".join(f"{name.replace('_', ' ')} {share:.2f} %" for name, share in found.memory.items())
        lines.append(f"objects, hidden or not, known after: {known}")
    if found.position_error:
        errors = ", ".join(f"{name.replace('_', ' ')} {error:.2f}" for name, error in found.position_error.items())
        lines.append(f"position error in pixels: {errors}")
    return "\n".join(lines)
