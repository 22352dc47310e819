"""howm methods, train, eval and theory: the methods and their runs."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from howm.commands.base import add_command, whole_number
from howm.errors import HowmError

_RUN = "a run directory, the name of a model that `howm models` lists, or hf:owner/name on the Hugging Face Hub"


def add_commands(commands: Any) -> None:
    add_command(commands, "methods", _methods, "list the methods that can be trained")

    train = add_command(
        commands, "train", _train, "train a method on a dataset, in a run directory that explains itself"
    )
    train.add_argument("--method", required=True, help="a name that `howm methods` lists")
    train.add_argument("--data", type=Path, required=True, help="a dataset file")
    train.add_argument("--out", type=Path, required=True, help="the run directory")
    train.add_argument("--seed", type=whole_number(0), default=0, help="seed of weights and batches (default 0)")
    train.add_argument("--preset", help="paper or cpu (default: paper on a GPU, else cpu)")
    train.add_argument("--config", help="a YAML file with the groups model and train")
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="settings",
                       help="override a key, for example train.lr=0.001")  # fmt: skip
    train.add_argument("--extractor", metavar="RUN", help="take over the trained slots of another run")
    train.add_argument("--represent-only", action="store_true",
                       help="stop when the slots are trained; others can take them over")  # fmt: skip
    train.add_argument("--minutes", type=_minutes, help="stop after this time; go on with --resume")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    train.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")

    evaluation = add_command(
        commands, "eval", _eval, "rank a run's k-step predictions on unseen and on training scenes"
    )
    evaluation.add_argument("run", help=_RUN)
    evaluation.add_argument("--steps", type=whole_number(1), nargs="+", default=[1, 5, 10], help="default 1 5 10")
    evaluation.add_argument("--data", type=Path, help="a dataset file (default: the one of the run)")
    evaluation.add_argument(
        "--fresh-seed", type=whole_number(0), help="evaluate on new episodes instead; writes nothing"
    )
    evaluation.add_argument(
        "--episodes", type=whole_number(2), help="how many (default: all of the data, or as many fresh ones)"
    )
    evaluation.add_argument("--json", action="store_true", help="print results.json as the last line")
    evaluation.add_argument("--equivariance", action="store_true",
                            help="also measure the equivariance error λ under object replacement")  # fmt: skip
    evaluation.add_argument("--hard-binding", action="store_true",
                            help="send each object's actions to one slot; writes nothing")  # fmt: skip
    evaluation.add_argument("--results", type=Path, metavar="DIR",
                            help="also write DIR/<env>-n<N>-k<K>/<method>-seed<S>.json")  # fmt: skip

    show = add_command(
        commands, "show", _show, "draw what a run has learned: its slots, bindings, masks and predictions"
    )
    show.add_argument("run", help=_RUN)
    show.add_argument("-o", "--out", type=Path, required=True, help="the folder to write the pictures to")
    show.add_argument("--data", type=Path, help="a dataset file to take an evaluation episode of (default: a new one)")
    show.add_argument("--fresh-seed", type=whole_number(0), help="of the new episodes to choose from (default 0)")
    show.add_argument("--episode", type=whole_number(0), default=0, help="default 0")
    show.add_argument("--steps", type=whole_number(1), help="default 10, or as many as the data has")

    add_command(commands, "models", _models, "list the trained models that come with the package")
    add_command(commands, "theory", _theory, "check Proposition 4.1 and its corollary on an enumerated Object Library")


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:  # NaN is not, either
        raise argparse.ArgumentTypeError(f"{text!r} is no time to train; give a number of minutes above 0")
    return value


def _theory(options: argparse.Namespace) -> int:
    from howm.tabular import check_proposition

    print(check_proposition())
    return 0


def _methods(options: argparse.Namespace) -> int:
    from howm.models.methods import METHODS

    for method in METHODS.values():
        print(f"{method.name:12s} {method.title:14s} {method.summary} (presets: {', '.join(method.presets)})")
    return 0


def _models(options: argparse.Namespace) -> int:
    from howm.checkpoint import find_checkpoint, load_checkpoint, shipped

    for name in shipped():
        about = load_checkpoint(find_checkpoint(name)).about
        data = about["data"]
        print(f"{name:22s} {about['method']}, {data['world']}, N={data['n']}, K={data['k']}, seed {about['seed']}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from howm.checkpoint import find_checkpoint, load_checkpoint, rebuild
    from howm.figures import figures, save_figure
    from howm.results import fresh_episodes, stored_episodes

    if options.data is not None and options.fresh_seed is not None:
        raise HowmError("--fresh-seed makes its own episodes; leave out --data")
    checkpoint = load_checkpoint(find_checkpoint(options.run))
    if options.data is not None:
        chosen = stored_episodes(checkpoint, options.data)
    elif "library" in checkpoint.about["data"]:
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


def _train(options: argparse.Namespace) -> int:
    from howm.config import parse_settings, read_yaml
    from howm.models.methods import default_preset, find_method
    from howm.storage import file_hash, load_certified
    from howm.train import keep_freed_memory, train_run

    values = read_yaml(options.config) if options.config else {}
    # The config.yaml of a run can be given as it is: what it says beside model and train is said by options here.
    values = {
        key: value
        for key, value in values.items()
        if key not in ("method", "preset", "seed", "data", "data_hash", "extractor")
    }
    overrides = (values, parse_settings(options.settings))
    config = find_method(options.method).config(options.preset or default_preset(), *overrides)
    dataset = load_certified(options.data)
    keep_freed_memory()
    finished = train_run(
        config, dataset, options.out, options.seed, data_path=str(options.data.resolve()),
        data_hash=file_hash(options.data), extractor=options.extractor, represent_only=options.represent_only,
        resume=options.resume, minutes=options.minutes, tensorboard=options.tensorboard,
    )  # fmt: skip
    if not finished:
        print(f"time is up; go on with: howm train ... --out {options.out} --resume", file=sys.stderr)
    print(options.out)
    return 0


def _eval(options: argparse.Namespace) -> int:
    from howm.results import evaluate_run, results_path, save_results
    from howm.train import keep_freed_memory

    if options.fresh_seed is not None and (options.data or options.results):
        raise HowmError("--fresh-seed makes its own data and writes nothing; leave out --data and --results")
    if options.results is not None and (options.hard_binding or options.data):
        raise HowmError("--results is for what a run does on its own data; leave out --hard-binding and --data")
    if options.results is not None and options.results.is_file():
        raise HowmError(f"--results {options.results} is a file; give the folder that the results go into")
    keep_freed_memory()
    results = evaluate_run(
        options.run,
        options.steps,
        data=options.data,
        fresh_seed=options.fresh_seed,
        episodes=options.episodes,
        equivariance=options.equivariance,
        hard_binding=options.hard_binding,
    )
    # A part of the data is the whole where a model that matches slots cannot be ranked among more.
    whole = options.episodes is None or results["matched"]
    own = options.fresh_seed is None and options.data is None and not options.hard_binding
    written = []  # before anything is said, which a closed pipe may end
    if own and whole and Path(options.run).is_dir():
        written.append(save_results(results, Path(options.run) / "results.json"))
    if options.results is not None:
        written.append(save_results(results, results_path(results, options.results)))
    _print_results(results)
    if options.json:
        print(json.dumps(results), flush=True)
    for path in written:
        print(f"written to {path}", file=sys.stderr)
    return 0


def _print_results(results: dict[str, Any]) -> None:
    """A table for people, on standard error."""
    from howm.equivariance import equivariance_text
    from howm.published import published

    def say(*cells: str) -> None:
        print("".join(cells).rstrip(), file=sys.stderr)

    def cell(scores: dict[str, Any]) -> str:
        low, high = scores["mrr_ci"]
        return f"{scores['mrr']:8.2f} {f'({low:.1f}-{high:.1f})':13s}{scores['h1']:6.1f}"

    say(f"{results['method']} on {results['env']}, N={results['n']}, K={results['k']}, seed {results['seed']}: "
        f"{results['unseen']}; {results['pool']} references of {results['scenes']} scenes")  # fmt: skip
    steps = list(results["eval"])
    say(f"{'':18s}", *(f"{f'after {k} step' + 's' * (k != '1'):^28s}" for k in steps))
    for title, pool in (("paper's pool, %", ""), ("hard pool, %", "_hard")):
        say(f"{title:18s}", *[f"{'MRR':>8s} {'(95 %)':13s}{'H@1':>6s}"] * len(steps))
        for name, part in (("unseen scenes", "eval"), ("training scenes", "train")):
            say(f"{name:18s}", *(cell(results[part + pool][k]) for k in steps))
        say(f"{'gap':18s}", *(f"{results['gap' + pool][k]:+z8.2f}{'':20s}" for k in steps))
        for name, scores in results["controls"].items():
            say(f"control {name:10s}", *(cell(scores["eval" + pool][k]) for k in steps))
    theirs = published(results["env"], results["method"], results["n"], results["k"])
    if theirs is not None:
        say(f"the paper reports MRR {theirs.mrr_1} after 1 step, {theirs.mrr_5} after 5, gap {theirs.gap_5}")
    if "segmentation" in results:
        found = results["segmentation"]
        say(f"masks: foreground ARI {found['foreground_ari']:.1f} %, matched IoU {found['matched_iou']:.1f} %")
    if "binding" in results:
        _print_binding(results["binding"])
    if "equivariance" in results:
        say(equivariance_text(results["equivariance"]))


def _print_binding(found: dict[str, Any]) -> None:
    """Where the errors come from, by the environment's ground truth."""
    absent = found["absent_to_background"]
    lines = [
        f"extraction {found['extraction']:.2f} % of frames, binding {found['binding']:.2f} % of present objects "
        f"(weight {found['weight']:.2f} %)" + ("" if absent is None else f", absent to background {absent:.2f} %"),
        f"hard pool after step {found['steps']}, lost to: "
        + ", ".join(
            f"{stage} {'unknown' if lost is None else f'{lost:.2f}'}" for stage, lost in found["lost_to"].items()
        ),
        "pixel error: " + ", ".join(f"{name} {error:.2e}" for name, error in found["pixel_error"].items()),
    ]
    print("\n".join(lines), file=sys.stderr)
