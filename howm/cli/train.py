"""howm train: a method on a dataset, in a run directory that explains itself."""

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import Any

from howm.cli.base import add_command, add_typed, allow_typed, whole_number


def add_commands(commands: Any) -> None:
    train = add_command(commands, "train", _train, "train a method on a dataset; the run directory records how")
    train.add_argument("--method", required=True, help="a name that `howm methods` lists, or package.module:Name")
    train.add_argument("--data", type=Path, required=True, help="a dataset file")
    add_typed(train, "world")
    train.add_argument("--out", type=Path, required=True, help="the run directory")
    train.add_argument("--seed", type=whole_number(0), default=0, help="seed of weights and batches (default 0)")
    train.add_argument("--preset", help="paper or cpu (default: paper on a GPU, else cpu)")
    train.add_argument("--config", help="a YAML file with the groups model, represent and train")
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="settings",
                       help="override a key, for example train.lr=0.001")  # fmt: skip
    train.add_argument("--extractor", metavar="RUN_OR_KIND",
                       help="reuse the trained slots of this run, or train slots of this kind "
                       "(model.extractor.kind, also package.module:Name)")  # fmt: skip
    train.add_argument("--represent-only", action="store_true",
                       help="stop when the slots are trained, so that other runs can reuse them")  # fmt: skip
    train.add_argument("--minutes", type=_minutes, help="stop after this many minutes; resume with --resume")
    train.add_argument("--resume", action="store_true", help="resume from the last checkpoint")
    train.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:  # NaN is not, either
        raise argparse.ArgumentTypeError(f"must be a number of minutes above 0, got {text!r}")
    return value


def _train(options: argparse.Namespace) -> int:
    from howm.config import parse_settings, read_yaml
    from howm.data.storage import load_certified
    from howm.files import file_hash
    from howm.models.registry import default_preset
    from howm.runs.config import extractor_kind, read_config
    from howm.training.run import keep_freed_memory, train_run

    slots, kind = _extractor(options.extractor)
    typed = parse_settings(options.settings)
    allow_typed([options.method], [options.world], [kind, extractor_kind(typed)])
    values = read_yaml(options.config) if options.config else {}
    # The config.yaml of a run can be given as it is: what it says beside model and train is said by options here.
    values = {
        key: value
        for key, value in values.items()
        if key not in ("method", "preset", "seed", "data", "data_hash", "extractor")
    }
    chosen = {} if kind is None else {"model": {"extractor": {"kind": kind}}}
    overrides = (values, chosen, typed)
    dataset = load_certified(options.data)
    config = read_config(options.method, options.preset or default_preset(), *overrides, spec=dataset.spec)
    keep_freed_memory()
    again = shlex.join(["howm", *options.given, *([] if options.resume else ["--resume"])])
    try:
        finished = train_run(
            config, dataset, options.out, options.seed, data_path=str(options.data.resolve()),
            data_hash=file_hash(options.data), extractor=slots, represent_only=options.represent_only,
            resume=options.resume, minutes=options.minutes, tensorboard=options.tensorboard,
        )  # fmt: skip
    except KeyboardInterrupt:  # also of SIGTERM; what is saved was said where it was stopped
        print(f"resume with: {again}", file=sys.stderr)
        raise
    if not finished:
        print(f"time is up; resume with: {again}", file=sys.stderr)
    print(options.out)
    return 0


def _extractor(given: str | None) -> tuple[str | None, str | None]:
    """A run to take slots over from, or the kind of an extractor to train."""
    from howm.remote import PREFIX
    from howm.runs.locate import shipped

    if given is None or Path(given).exists() or given in shipped() or given.startswith(PREFIX):
        return given, None
    return None, given
