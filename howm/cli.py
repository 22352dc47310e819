"""The command line: parse, call, print what was written. Heavy modules load inside the commands that need them."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from howm.errors import HowmError
from howm.version import __version__

Command = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and exit code 2; the usage text is in --help."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except HowmError as error:
        print(f"howm: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("howm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="howm", description="Object-oriented world models and how well they generalize.")
    parser.add_argument("--version", action="version", version=f"howm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_library(commands)
    _add_data(commands)
    _add_models(commands)
    return parser


def _add(commands: Any, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def _add_world(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", required=True, help="the world: shapes or rush_hour")
    parser.add_argument("-n", type=int, required=True, help="objects in the library (N)")
    parser.add_argument("--library-seed", type=int, default=0, help="which library (default 0)")


# --- howm library ---------------------------------------------------------------------------------------------------


def _add_library(commands: Any) -> None:
    library = commands.add_parser("library", help="look at an object library")
    actions = library.add_subparsers(required=True, metavar="ACTION")
    show = _add(actions, "show", _library_show, "draw all objects of a library, in order, or list them as JSON")
    _add_world(show)
    show.add_argument("-o", "--out", type=Path, help="the picture to write (PNG)")
    show.add_argument("--json", action="store_true", help="print the library as JSON")


def _library_show(options: argparse.Namespace) -> int:
    from howm.library import ObjectLibrary
    from howm.render import library_sheet

    library = ObjectLibrary.make(options.env, options.n, options.library_seed)
    if options.json:
        print(library.to_json())
    elif options.out is None:
        for i, item in enumerate(library.objects):
            print(f"{i:4d}  {item.size:5s}  {item.shape:15s} rgb{item.colour}")
    if options.out is not None:
        _write_picture(library_sheet(library), options.out)
    return 0


def _write_picture(picture: Any, path: Path) -> None:
    from PIL import Image

    from howm.storage import written_whole

    if path.suffix.lower() != ".png":
        raise HowmError(f"{path} is no PNG file; give a name that ends in .png")
    with written_whole(path) as temporary:
        Image.fromarray(picture).save(temporary, format="png")
    print(path)


# --- howm data ------------------------------------------------------------------------------------------------------


def _add_data(commands: Any) -> None:
    data = commands.add_parser("data", help="make, check, show, import and export datasets")
    actions = data.add_subparsers(required=True, metavar="ACTION")

    make = _add(actions, "make", _data_make, "draw a certified split and collect random play in its scenes")
    _add_world(make)
    make.add_argument("-k", type=int, default=5, help="objects in a scene (K, default 5)")
    make.add_argument("--seed", type=int, default=0, help="seed of split and play (default 0)")
    make.add_argument("-o", "--out", type=Path, required=True, help="the dataset file to write")
    make.add_argument("--grid", type=_grid, default=(5, 5), metavar="HxW", help="cells of the grid (default 5x5)")
    make.add_argument("--cell-pixels", type=int, default=10, help="pixels along a cell (default 10)")
    make.add_argument("--train-scenes", type=int, help="default max(100, ⌈2N/K⌉)")
    make.add_argument("--eval-scenes", type=int, help="default 100")
    make.add_argument("--consecutive", action="store_true", help="evaluate on scenes of K consecutive objects")
    make.add_argument("--train-episodes", type=int, default=1_000, help="default 1000")
    make.add_argument("--train-steps", type=int, default=100, help="default 100")
    make.add_argument("--eval-episodes", type=int, default=10_000, help="default 10000")
    make.add_argument("--eval-steps", type=int, default=10, help="default 10")
    moving_help = "share of transitions that move an object (default 0.9; 'any' for uniform actions)"
    make.add_argument("--moving", type=_moving, default=0.9, help=moving_help)

    check = _add(actions, "check", _data_check, "print the certificate of a dataset; exit code 1 if a rule is violated")
    check.add_argument("file", type=Path)
    check.add_argument("--json", action="store_true", help="print the certificate as JSON")

    show = _add(actions, "show", _data_show, "describe a dataset and draw one of its episodes")
    show.add_argument("file", type=Path)
    show.add_argument("-o", "--out", type=Path, help="the picture to write (PNG)")
    show.add_argument("--part", default="train", help="train, eval or eval_seen (default train)")
    show.add_argument("--episode", type=int, default=0, help="default 0")

    importer = _add(actions, "import", _data_import, "read files in the HDF5 layout of C-SWM and HOWM")
    importer.add_argument("--train", type=Path, required=True, help="training episodes")
    importer.add_argument("--eval", type=Path, required=True, help="evaluation episodes")
    importer.add_argument("--eval-seen", type=Path, help="evaluation episodes in training scenes")
    importer.add_argument("-n", type=int, required=True, help="objects in the library (N)")
    importer.add_argument("-k", type=int, required=True, help="objects in a scene (K)")
    importer.add_argument("-o", "--out", type=Path, required=True, help="the dataset file to write")

    export = _add(actions, "export", _data_export, "write a part of a dataset for other tools")
    export.add_argument("file", type=Path)
    export.add_argument("--format", choices=("cswm", "minari"), required=True)
    export.add_argument("--part", default="train", help="train, eval or eval_seen (default train)")
    export.add_argument("-o", "--out", type=Path, required=True, help="the file (cswm) or directory (minari) to write")


def _grid(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    try:
        return int(height), int(width or height)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no grid; give HxW, for example 5x5") from None


def _moving(text: str) -> float | None:
    try:
        return None if text == "any" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give a number from 0 to 1, or any") from None


def _data_make(options: argparse.Namespace) -> int:
    from howm.dataset import Amounts, make_dataset
    from howm.grid import Grid
    from howm.storage import save_dataset

    amounts = Amounts(
        options.train_episodes, options.train_steps, options.eval_episodes, options.eval_steps, options.moving
    )
    dataset = make_dataset(
        options.env, options.n, options.k, options.seed,
        library_seed=options.library_seed, grid=Grid(*options.grid), cell_pixels=options.cell_pixels, amounts=amounts,
        train_scenes=options.train_scenes, eval_scenes=options.eval_scenes, consecutive=options.consecutive,
    )  # fmt: skip
    save_dataset(dataset, options.out)
    certificate = dataset.certificate()
    print(f"{certificate['train_scenes']} training scenes, {certificate['eval_scenes']} evaluation scenes: "
          f"{certificate['unseen']}", file=sys.stderr)  # fmt: skip
    print(options.out)
    return 0


def _data_check(options: argparse.Namespace) -> int:
    from howm.storage import load_dataset, read_certificate

    dataset = load_dataset(options.file)
    certificate = dataset.certificate()
    if read_certificate(options.file) != json.loads(json.dumps(certificate)):
        certificate["violations"].append("certificate: what the file says of itself is not what it holds")
    if options.json:
        print(json.dumps(certificate))
    else:
        _print_certificate(dataset, certificate)
    return 1 if certificate["violations"] else 0


def _print_certificate(dataset: Any, certificate: dict[str, Any]) -> None:
    print(f"world        {dataset.world}, {dataset.n} objects, {dataset.k} in a scene")
    for name, episodes in dataset.parts():
        print(f"{name:12s} {len(episodes)} episodes of {episodes.steps} steps")
    if dataset.split is not None:
        print(f"scenes       {certificate['train_scenes']} train, {certificate['eval_scenes']} eval, "
              f"of {certificate['combinations']}")  # fmt: skip
        for name in ("train", "eval"):
            counts = certificate[f"{name}_counts"]
            balanced = "balanced" if certificate["balanced"][name] else "not balanced: no better set was found"
            print(f"{name + ' counts':12s} each object in {min(counts)} to {max(counts)} scenes ({balanced}): {counts}")
        print(f"disjoint     {certificate['disjoint']}")
        print(f"covered      {certificate['covered']}")
    print(f"unseen       {certificate['unseen']}")
    print(f"hash         {certificate['hash']}")
    for violation in certificate["violations"]:
        print(f"VIOLATED     {violation}")
    print("certificate  " + ("VIOLATED" if certificate["violations"] else "holds"))


def _data_show(options: argparse.Namespace) -> int:
    import numpy as np

    from howm.render import film_strip
    from howm.storage import load_dataset

    dataset = load_dataset(options.file)
    episodes = dataset.part(options.part)
    if not 0 <= options.episode < len(episodes):
        raise HowmError(f"episode {options.episode} does not exist; the part {options.part} has {len(episodes)}")
    scene = episodes.scene_ids[options.episode].tolist() if episodes.scene_ids is not None else "unknown"
    print(f"{options.part} episode {options.episode}: objects {scene}, "
          f"actions {episodes.actions[options.episode].tolist()}", file=sys.stderr)  # fmt: skip
    if options.out is not None:
        times = np.arange(episodes.steps + 1)
        frames = episodes.observe(np.full_like(times, options.episode), times)
        frames = frames if frames.dtype == np.uint8 else (frames * 255).round().astype(np.uint8)
        _write_picture(film_strip(frames), options.out)
    return 0


def _data_import(options: argparse.Namespace) -> int:
    from howm.interop import import_cswm
    from howm.storage import save_dataset

    dataset = import_cswm(options.train, options.eval, options.eval_seen, options.n, options.k)
    save_dataset(dataset, options.out)
    print(options.out)
    return 0


def _data_export(options: argparse.Namespace) -> int:
    from howm.interop import export_cswm, export_minari
    from howm.storage import load_dataset

    dataset = load_dataset(options.file)
    export = export_cswm if options.format == "cswm" else export_minari
    export(dataset, options.part, options.out)
    print(options.out)
    return 0


# --- howm methods, train and eval -----------------------------------------------------------------------------------


def _add_models(commands: Any) -> None:
    _add(commands, "methods", _methods, "list the methods that can be trained")

    train = _add(commands, "train", _train, "train a method on a dataset, in a run directory that explains itself")
    train.add_argument("--method", required=True, help="a name that `howm methods` lists")
    train.add_argument("--data", type=Path, required=True, help="a dataset file")
    train.add_argument("--out", type=Path, required=True, help="the run directory")
    train.add_argument("--seed", type=int, default=0, help="seed of weights and batches (default 0)")
    train.add_argument("--preset", help="paper or cpu (default: paper on a GPU, else cpu)")
    train.add_argument("--config", help="a YAML file with the groups model and train")
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="settings",
                       help="override a key, for example train.lr=0.001")  # fmt: skip
    train.add_argument("--minutes", type=float, help="stop after this time; go on with --resume")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    train.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")

    evaluation = _add(commands, "eval", _eval, "rank a run's k-step predictions on unseen and on training scenes")
    evaluation.add_argument("run", help="a run directory")
    evaluation.add_argument("--steps", type=int, nargs="+", default=[1, 5, 10], help="default 1 5 10")
    evaluation.add_argument("--data", type=Path, help="a dataset file (default: the one of the run)")
    evaluation.add_argument("--fresh-seed", type=int, help="evaluate on new episodes instead; writes nothing")
    evaluation.add_argument("--json", action="store_true", help="print results.json as the last line")
    evaluation.add_argument("--results", type=Path, metavar="DIR",
                            help="also write DIR/<env>-n<N>-k<K>/<method>-seed<S>.json")  # fmt: skip


def _methods(options: argparse.Namespace) -> int:
    from howm.models.methods import METHODS

    for method in METHODS.values():
        print(f"{method.name:12s} {method.title:14s} {method.summary} (presets: {', '.join(method.presets)})")
    return 0


def _train(options: argparse.Namespace) -> int:
    from howm.config import parse_settings, read_yaml
    from howm.models.methods import default_preset, find_method
    from howm.storage import file_hash, load_dataset
    from howm.train import keep_freed_memory, train_run

    overrides = [read_yaml(options.config)] if options.config else []
    overrides.append(parse_settings(options.settings))
    config = find_method(options.method).config(options.preset or default_preset(), *overrides)
    dataset = load_dataset(options.data)
    keep_freed_memory()
    finished = train_run(
        config, dataset, options.out, options.seed, data_path=str(options.data.resolve()),
        data_hash=file_hash(options.data), resume=options.resume, minutes=options.minutes,
        tensorboard=options.tensorboard,
    )  # fmt: skip
    if not finished:
        print(f"time is up; go on with: howm train ... --out {options.out} --resume", file=sys.stderr)
    print(options.out)
    return 0


def _eval(options: argparse.Namespace) -> int:
    from howm.results import evaluate_run, results_path, save_results
    from howm.train import keep_freed_memory

    keep_freed_memory()
    results = evaluate_run(options.run, options.steps, data=options.data, fresh_seed=options.fresh_seed)
    _print_results(results)
    if options.fresh_seed is None:
        print(f"written to {save_results(results, Path(options.run) / 'results.json')}", file=sys.stderr)
        if options.results is not None:
            print(save_results(results, results_path(results, options.results)))
    if options.json:
        print(json.dumps(results))
    return 0


def _print_results(results: dict[str, Any]) -> None:
    """A table for people, on standard error."""

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    say(f"{results['method']} on {results['env']}, N={results['n']}, K={results['k']}, seed {results['seed']}: "
        f"{results['unseen']}; {results['pool']} references of {results['scenes']} scenes")  # fmt: skip
    steps = list(results["eval"])
    rows = [(f"{name}, {pool}", scores) for name, pool, scores in (
        ("unseen scenes", "paper's pool", results["eval"]), ("unseen scenes", "hard pool", results["eval_hard"]),
        ("training scenes", "paper's pool", results["train"]), ("training scenes", "hard pool", results["train_hard"]),
    )]  # fmt: skip
    for name, scores in results["controls"].items():
        rows += [(f"control {name}, paper's pool", scores["eval"]), (f"control {name}, hard pool", scores["eval_hard"])]
    say(f"{'MRR % at steps':36s}" + "".join(f"{k:>8s}" for k in steps))
    for name, scores in rows:
        say(f"{name:36s}" + "".join(f"{scores[k]['mrr']:8.2f}" for k in steps))


if __name__ == "__main__":
    sys.exit(main())
