"""One stage of a run of a sweep, as a function call in a process of its own.

The sweep starts ``python -m howm.experiments.cell PARENT`` and writes the job, as JSON, to its standard input. The
process ends with its parent (on Linux): else a second sweep would meet the runs of a killed one.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howm.config import from_plain, parse_settings, to_plain
from howm.errors import one_line
from howm.worlds.splits import SplitKind


@dataclass(frozen=True)
class MakeData:
    """Make a dataset file."""

    world: str
    n: int
    k: int | str | None
    split: SplitKind
    eval_k: int | str | None
    seed: int
    settings: tuple[str, ...]
    train_scenes: int | None
    eval_episodes: int
    eval_steps: int
    out: str


@dataclass(frozen=True)
class Train:
    """Train a run, or only its slots, from where it stopped."""

    method: str
    preset: str
    settings: tuple[str, ...]
    data: str
    seed: int
    out: str
    extractor: str | None = None
    represent_only: bool = False


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a run on its own data, and leave results.json in it."""

    run: str
    steps: tuple[int, ...]
    episodes: int | None = None
    queries: int | None = None


Job = MakeData | Train | Evaluate
STAGES: dict[str, type[Job]] = {"data": MakeData, "train": Train, "evaluate": Evaluate}


def stage_of(job: Job) -> str:
    return next(name for name, kind in STAGES.items() if isinstance(job, kind))


def to_json(job: Job, typed: Mapping[str, Sequence[str]]) -> str:
    """The job, the names that a person typed, and where this process looks for modules: the other needs the same."""
    return json.dumps({"stage": stage_of(job), "job": to_plain(job), "typed": typed, "path": sys.path})


def allow(methods: Sequence[str] = (), worlds: Sequence[str] = (), extractors: Sequence[str] = ()) -> None:
    """Let names that a person typed be used in this process: known ones, or package.module:Name."""
    from howm.models.extractors.registry import EXTRACTORS
    from howm.models.registry import METHODS
    from howm.worlds.registry import WORLDS

    for name in methods:
        METHODS.allow(name)
    for name in worlds:
        WORLDS.allow(name)
    for name in extractors:
        EXTRACTORS.allow(name)


def run(job: Job) -> None:
    """Do what a job asks for."""
    if isinstance(job, MakeData):
        _make_data(job)
    elif isinstance(job, Train):
        _train(job)
    else:
        _evaluate(job)


def _make_data(job: MakeData) -> None:
    from howm.data.dataset import Amounts, make_dataset
    from howm.data.storage import save_dataset

    amounts = Amounts(eval_episodes=job.eval_episodes, eval_steps=job.eval_steps)
    dataset = make_dataset(
        job.world,
        job.n,
        job.k,
        job.seed,
        amounts=amounts,
        train_scenes=job.train_scenes,
        split=job.split,
        eval_k=job.eval_k,
        **parse_settings(job.settings),
    )
    save_dataset(dataset, Path(job.out))


def _train(job: Train) -> None:
    from howm.data.storage import load_certified
    from howm.files import file_hash
    from howm.runs.config import read_config
    from howm.training.run import keep_freed_memory, train_run

    dataset = load_certified(job.data)
    config = read_config(job.method, job.preset, parse_settings(job.settings), spec=dataset.spec)
    keep_freed_memory()
    train_run(
        config, dataset, Path(job.out), job.seed, data_path=job.data, data_hash=file_hash(job.data),
        extractor=job.extractor, represent_only=job.represent_only, resume=True,
    )  # fmt: skip


def _evaluate(job: Evaluate) -> None:
    from howm.evaluation.run import evaluate_run
    from howm.training.run import keep_freed_memory

    keep_freed_memory()
    evaluate_run(
        job.run, out=Path(job.run) / "results.json", steps=job.steps, episodes=job.episodes, queries=job.queries,
        progress=True,
    )  # fmt: skip


def main(parent: int) -> int:
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it ended before this process asked to end with it
        print("howm: the sweep has ended", file=sys.stderr)
        return 1
    asked: dict[str, Any] = json.load(sys.stdin)
    sys.path += [place for place in asked["path"] if place not in sys.path]
    try:
        allow(**asked["typed"])
        run(from_plain(STAGES[asked["stage"]], asked["job"]))
    except Exception as error:
        line = one_line(error)
        if line is None:
            raise
        print(line, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
