"""howm data: make, check, show, import and export datasets."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from howm.cli.base import (
    add_command,
    add_output,
    add_world,
    allow_typed,
    allow_world,
    check_output,
    whole_number,
    world_settings,
    write_picture,
)
from howm.errors import HowmError


def add_commands(commands: Any) -> None:
    data = commands.add_parser("data", help="make, check, show, import and export datasets")
    actions = data.add_subparsers(required=True, metavar="ACTION")

    make = add_command(actions, "make", _data_make, "draw a certified split and collect random play in its scenes")
    add_world(make)
    make.add_argument("-k", help="objects in a scene (K), or sizes of scenes such as 3-7 (default 5, or the world's)")
    make.add_argument("--split", help="scenes (default), pairs, minimal, linked or larger-k: what is new in evaluation")
    make.add_argument("--eval-k", help="sizes of evaluation scenes with --split larger-k, such as 6-8")
    make.add_argument("--seed", type=whole_number(0), default=0, help="seed of split and play (default 0)")
    add_output(make, "the dataset file to write")
    make.add_argument("--grid", metavar="HxW", help="cells of the grid, where the world has one (default 5x5)")
    make.add_argument("--cell-pixels", type=int, help="pixels along a cell, where the world has cells (default 10)")
    make.add_argument("--train-scenes", type=int, help="training scenes of each size (default max(100, ⌈2N/K⌉))")
    make.add_argument("--eval-scenes", type=int, help="evaluation scenes of each size (default 100)")
    make.add_argument("--consecutive", action="store_true", help="evaluate on scenes of K consecutive objects")
    make.add_argument("--train-episodes", type=int, help="default 1000, or two per scene if that is more")
    make.add_argument("--train-steps", type=int, default=100, help="steps of a training episode (default 100)")
    make.add_argument("--eval-episodes", type=int, default=10_000, help="evaluation episodes (default 10000)")
    make.add_argument("--eval-steps", type=int, default=10, help="steps of an evaluation episode (default 10)")
    moving_help = "share of transitions that move an object (default 0.9; 'any' for uniform actions)"
    make.add_argument("--moving", type=_moving, default=0.9, help=moving_help)

    check = add_command(
        actions, "check", _data_check, "print the certificate of a dataset; exit code 1 if a rule is violated"
    )
    check.add_argument("file", type=Path)
    allow_world(check)
    check.add_argument("--json", action="store_true", help="print the certificate as JSON")

    show = add_command(actions, "show", _data_show, "describe a dataset and draw one of its episodes")
    show.add_argument("file", type=Path)
    allow_world(show)
    show.add_argument("-o", "--out", type=Path, help="the picture to write (PNG)")
    show.add_argument("--part", default="train", help="train, eval or eval_seen (default train)")
    show.add_argument("--episode", type=int, default=0, help="number of the episode (default 0)")

    importer = add_command(actions, "import", _data_import, "read files in the HDF5 layout of C-SWM and HOWM")
    importer.add_argument("--train", type=Path, required=True, help="training episodes")
    importer.add_argument("--eval", type=Path, required=True, help="evaluation episodes")
    importer.add_argument("--eval-seen", type=Path, help="evaluation episodes in training scenes")
    importer.add_argument("-n", type=int, required=True, help="objects in the library (N)")
    importer.add_argument("-k", type=int, required=True, help="objects in a scene (K)")
    cells = "pixels along a cell (default 10; none for pictures without a grid)"
    importer.add_argument("--cell-pixels", type=_cell_pixels, default=10, help=cells)
    importer.add_argument("--name", default="pixels", help="what reports call this world (default pixels)")
    add_output(importer, "the dataset file to write")

    export = add_command(actions, "export", _data_export, "write a part of a dataset for other tools")
    export.add_argument("file", type=Path)
    allow_world(export)
    export.add_argument("--format", choices=("cswm", "minari"), required=True)
    export.add_argument("--part", default="train", help="train, eval or eval_seen (default train)")
    add_output(export, "the file (cswm) or directory (minari) to write")


def _cell_pixels(text: str) -> int | None:
    return None if text == "none" else whole_number(1)(text)


def _moving(text: str) -> float | None:
    try:
        return None if text == "any" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number in [0, 1], or any") from None


def _data_make(options: argparse.Namespace) -> int:
    from howm.data.dataset import Amounts, make_dataset
    from howm.data.storage import save_dataset
    from howm.worlds.registry import make_world

    check_output(options)
    allow_typed(worlds=[options.world])
    amounts = Amounts(
        options.train_episodes, options.train_steps, options.eval_episodes, options.eval_steps, options.moving
    )
    settings = {name: getattr(options, name) for name in ("grid", "cell_pixels") if getattr(options, name) is not None}
    world = make_world(options.world, options.n, options.library_seed, **world_settings(options) | settings)
    dataset = make_dataset(
        world, None, options.k, options.seed, amounts=amounts,
        train_scenes=options.train_scenes, eval_scenes=options.eval_scenes, consecutive=options.consecutive,
        split=options.split, eval_k=options.eval_k,
    )  # fmt: skip
    save_dataset(dataset, options.out)
    certificate = dataset.certificate()
    print(f"{certificate['train_scenes']} training scenes, {certificate['eval_scenes']} evaluation scenes: "
          f"{certificate['unseen']}", file=sys.stderr)  # fmt: skip
    print(options.out)
    return 0


def _data_check(options: argparse.Namespace) -> int:
    from howm.data.describe import certificate_text
    from howm.data.storage import load_dataset, read_certificate

    dataset = load_dataset(options.file)
    certificate = dataset.certificate()
    if read_certificate(options.file) != json.loads(json.dumps(certificate)):
        certificate["violations"].append("certificate: what the file says about itself is not what it holds")
    if dataset.split is not None:
        certificate["divergence"] = dataset.split.divergence()  # which files of the default split do not state
    if options.json:
        print(json.dumps(certificate))
    else:
        print(certificate_text(dataset, certificate))
    return 1 if certificate["violations"] else 0


def _data_show(options: argparse.Namespace) -> int:
    import numpy as np

    from howm.data.describe import dataset_text
    from howm.data.storage import load_dataset
    from howm.worlds.captions import action_names, captioned
    from howm.worlds.scene_set import scene_of

    dataset = load_dataset(options.file)
    episodes = dataset.part(options.part)
    if not 0 <= options.episode < len(episodes):
        raise HowmError(f"episode {options.episode} does not exist; the part {options.part} has {len(episodes)}")
    ids = episodes.scene_ids
    scene = list(scene_of(ids[options.episode])) if ids is not None else "unknown"
    print(dataset_text(dataset), file=sys.stderr)
    print(f"{options.part} episode {options.episode}: objects {scene}, "
          f"actions {episodes.actions[options.episode].tolist()}", file=sys.stderr)  # fmt: skip
    if options.out is not None:
        times = np.arange(episodes.steps + 1)
        if episodes.states is not None:
            world, ids, states = episodes.state()
            shown = np.repeat(ids[[options.episode]], len(times), axis=0)
            shown = shown if episodes.frame_ids is None else episodes.frame_ids[options.episode]
            impossible = world.violations(shown, states[options.episode])
            if impossible:
                raise HowmError(f"{impossible[0]} in this episode of {options.file}; see `howm data check`")
        frames = episodes.observe(np.full_like(times, options.episode), times)
        frames = frames if frames.dtype == np.uint8 else (frames * 255).round().astype(np.uint8)
        ids, masks = (None, None) if episodes.states is None else (shown, world.masks(shown, states[options.episode]))
        names = action_names(episodes.world, episodes.actions[options.episode])
        captions = ["start", *(f"{t}: {name}" for t, name in enumerate(names, 1))]
        write_picture(captioned(frames, captions, ids=ids, masks=masks), options.out)
    return 0


def _data_import(options: argparse.Namespace) -> int:
    from howm.data.formats.cswm import import_cswm
    from howm.data.storage import save_dataset

    check_output(options, *filter(None, (options.train, options.eval, options.eval_seen)))
    dataset = import_cswm(
        options.train, options.eval, options.eval_seen, options.n, options.k, options.cell_pixels, options.name
    )
    save_dataset(dataset, options.out)
    for violation in dataset.certificate()["violations"]:
        print(f"VIOLATED     {violation}", file=sys.stderr)
    print(options.out)
    return 0


def _data_export(options: argparse.Namespace) -> int:
    from howm.data.formats.cswm import export_cswm
    from howm.data.formats.minari import export_minari
    from howm.data.storage import load_dataset

    check_output(options, options.file)
    dataset = load_dataset(options.file)
    export = export_cswm if options.format == "cswm" else export_minari
    export(dataset, options.part, options.out)
    print(options.out)
    return 0
