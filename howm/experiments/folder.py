"""The folder of a sweep, in which each run of a plan has an ordinary run directory.

OUT/sweep.yaml                                        what was asked for
OUT/data/<setting>-seed<S>.h5                 made once, shared by all methods
OUT/extractors/<setting>-seed<S>-<digest>/    trained once, where several runs want the same
OUT/runs/<setting>/<method>-seed<S>/          a run, resumed when it was killed
OUT/results/<setting>/<method>-seed<S>.json   finished: status ok; or OM or failed, with the reason
OUT/logs/<setting>/<method>-seed<S>.txt       what its processes said
OUT/locks/                                    which runs are being done, and by which process

A setting is <world>-n<N>-k<K>, and for splits other than scenes <world>-n<N>-k<K>-<split>.
"""

import hashlib
import json
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from howm.config import difference, from_plain, read_yaml, to_plain, to_yaml
from howm.errors import HowmError, short
from howm.experiments.cell import Evaluate, Job, MakeData, Train, allow
from howm.experiments.plan import BUDGETS, PlannedRun, SweepConfig
from howm.experiments.process import RunError, do_in_process, machine_memory_mb
from howm.files import PARSE_ERRORS, atomic_write, hold, read_json
from howm.models.registry import Method, find_method
from howm.runs.config import OF_RUN
from howm.runs.directory import read_metrics
from howm.runs.provenance import world_title
from howm.runs.result import EVALUATION_VERSION, RunResult, read_result, write_result

MATCHED_EPISODES = 500  # of evaluation for a model that matches slots with slots: ranking cost limits it


@dataclass(frozen=True)
class Overview:
    """A sweep at a glance: how many runs are in which state, and how far the running ones are."""

    counts: Counter[str]
    running: dict[PlannedRun, float]  # the share of its training steps
    seconds_left: float | None  # None while there is nothing to judge by

    def __str__(self) -> str:
        counts = ", ".join(f"{self.counts[name]} {name}" for name in STATUSES if self.counts[name])
        left = "" if self.seconds_left is None else f"; about {max(1, round(self.seconds_left / 60))} minutes left"
        return counts + left


STATUSES = ("ok", "OM", "failed", "running", "waiting")
_RUN_WIDE = tuple(f"train.{name}" for name in OF_RUN)  # keys of train that the slots need alike


def results_folder(folder: Path) -> Path:
    """Where a sweep puts its results: where it was last asked to, or else into its own folder."""
    asked = read_yaml(str(folder / "sweep.yaml")).get("results") if os.path.lexists(folder / "sweep.yaml") else None
    if not isinstance(asked, str | None):
        raise HowmError(f"results={short(asked)} of {folder / 'sweep.yaml'} should name a folder")
    return Path(asked) if asked else folder / "results"


class Sweep:
    """The folder of a sweep: what its runs need, and what is known of them."""

    def __init__(
        self, folder: Path, config: SweepConfig, memory_mb: float | None = None, threads: int = 1,
        results: Path | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.config, self.memory_mb, self.threads = folder, config, memory_mb, threads
        self.results = results or folder / "results"
        self.stopped = False  # set by the engine, to end all runs
        self.typed: dict[str, tuple[str, ...]] = {}  # names that a person typed, for the processes of the runs

    @classmethod
    def open(cls, folder: Path) -> "Sweep":
        """A sweep as it was last begun."""
        values = read_yaml(str(folder / "sweep.yaml"))
        values.pop("results", None)
        return cls(folder, from_plain(SweepConfig, values), results=results_folder(folder))

    def begin(self) -> None:
        """Write down what is asked for, and refuse what would not fit to what the folder holds."""
        if self.results.is_file():
            raise HowmError(f"{self.results} is a file; give the folder that the results go into")
        if self.config_path.exists():
            other = Sweep.open(self.folder).config.first_mismatch(self.config)
            if other:
                raise HowmError(f"{self.folder} was begun with {other}; choose another folder")
        self.config.check()  # refuses names of one's own that only a file has given
        self.typed = self.config.typed
        for run in self.config.runs():
            other = self._first_mismatch(run)
            if other:
                path = self.result_path(run)
                raise HowmError(f"{path} was made with {other}; choose another folder of `results`, or remove it")
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.results):
                pass
        except OSError as error:
            raise HowmError(
                f"cannot write results to {self.results}: {error.strerror}; choose another folder"
            ) from error
        results = None if self.results == self.folder / "results" else str(self.results)
        with atomic_write(self.config_path) as temporary:
            asked = _listed(to_plain(self.config.spelled_out()))
            temporary.write_text(to_yaml(asked | {"results": results}), encoding="utf-8")

    @property
    def config_path(self) -> Path:
        return self.folder / "sweep.yaml"

    def result_path(self, run: PlannedRun) -> Path:
        return self.results / f"{run.name}.json"

    def run_path(self, run: PlannedRun) -> Path:
        return self.folder / "runs" / run.name

    # What is known: these only read.

    def status(self, run: PlannedRun) -> str:
        """One of STATUSES; a run that failed before is running when it is tried again."""
        if self._is_held(run):
            return "running"
        result = self.result(run)
        return "waiting" if result is None or _is_outdated(result) else result.status

    def result(self, run: PlannedRun) -> RunResult | None:
        """What is known of a run that has ended."""
        path = self.result_path(run)
        return read_result(path) if path.exists() else None

    def overview(self) -> Overview:
        """Time left is estimated from the work that was done since this call of the sweep began."""
        statuses = {run: self.status(run) for run in self.config.runs()}
        running = {run: self._share(run) for run, status in statuses.items() if status == "running"}
        began = self.config_path.stat().st_mtime if self.config_path.exists() else time.time()
        paths = [self.result_path(run) for run, status in statuses.items() if status in ("ok", "OM", "failed")]
        done = sum(path.stat().st_mtime > began for path in paths) + sum(running.values())
        still_open = sum(status in ("running", "waiting") for status in statuses.values()) - sum(running.values())
        left = (time.time() - began) / done * still_open if running and done and still_open else None
        return Overview(Counter(statuses.values()), running, left)

    def _share(self, run: PlannedRun) -> float:
        """The share of its steps that a run has trained, by its own config.yaml; evaluation counts as nothing."""
        measured, begun = read_metrics(self.run_path(run)), self.run_path(run) / "config.yaml"
        if not measured or not begun.exists():
            return 0.0
        config = read_yaml(str(begun))
        groups = [config[phase] for phase in ("represent", "train") if phase in config]
        counts: list[Any] = [
            (group.get("steps"), group.get("starts", 1)) for group in groups if isinstance(group, dict)
        ]
        if not counts or not all(isinstance(one, int) and one > 0 for pair in counts for one in pair):
            raise HowmError(f"{begun} does not say how many steps its training has; remove {begun.parent}")
        total: int = sum(steps * starts for steps, starts in counts)
        return min(1.0, measured[-1]["step"] / total)

    def open_runs(self) -> list[PlannedRun]:
        """What is still to do: also what failed before, what did not fit into a smaller memory limit, and what was
        measured by an older version of the evaluation."""
        return [run for run in self.config.runs() if not self._closed(run)]

    def _closed(self, run: PlannedRun) -> bool:
        result = self.result(run)
        if result is None or result.status == "failed" or _is_outdated(result):
            return False
        limit = None if result.failure is None else result.failure.memory_limit_mb
        return result.status == "ok" or (limit is not None and (self.memory_mb or machine_memory_mb()) <= limit)

    def _first_mismatch(self, run: PlannedRun) -> str | None:
        """What a finished result was made with that this sweep does not ask for, in words."""
        result = self.result(run)
        if result is None or result.status != "ok" or _is_outdated(result):
            return None
        references = self._references(run)
        if result.references != references:
            return f"{result.references} references, not {references}"
        if result.queries not in (None, self._queries(run)):
            return f"{result.queries} queries, not {self._queries(run) or references}"
        asked = to_plain(self.config.run_config(run))
        found = (
            difference(group, _common(made, asked[group]), _common(asked[group], made))
            for group, made in result.config.items()
        )
        return next(filter(None, found), None)

    # What is done.

    def execute(self, run: PlannedRun, patience: float = 2) -> str:
        """Do what is left of a run and give its status; an error of the run is a result, not an exception.

        A run that another process has held for longer than ``patience`` is left to it.
        """
        allow(**self.typed)
        with self.hold(run, patience) as mine:
            if not mine:
                return "running"  # elsewhere
            if not self._closed(run):
                try:
                    result = self._make(run)
                except RunError as error:
                    method = self._method(run)
                    result = RunResult(
                        error.status, method.name, method.title, run.world, world_title(run.world), run.n, run.k,
                        run.seed, split=run.split, sizes=None if isinstance(run.sizes, int) else run.sizes,
                        failure=error.failure,
                    )  # fmt: skip
                variant = None if run.method == self._method(run).name else run.method
                write_result(replace(result, variant=variant), self.result_path(run))
            ended = self.result(run)
            assert ended is not None
            return ended.status

    def _make(self, run: PlannedRun) -> RunResult:
        """Train and evaluate what is left of a run."""
        data, path = self._data(run), self.run_path(run)
        extractor = self._extractor(run, data)
        self._do(run, self._training(run, data, path, extractor))
        episodes = self._references(run) if self._matches(run) else None
        self._do(run, Evaluate(str(path), self.config.steps, episodes, self._queries(run)))
        return read_result(path / "results.json")

    def _do(self, run: PlannedRun, job: Job) -> None:
        log = self.folder / "logs" / f"{run.name}.txt"
        do_in_process(job, self.typed, log, self.threads, self.memory_mb, lambda: self.stopped)

    def _matches(self, run: PlannedRun) -> bool:
        return bool(getattr(self.config.run_config(run).model, "matching", False))

    def _references(self, run: PlannedRun) -> int:
        most = self.config.eval_episodes
        return min(MATCHED_EPISODES, most) if self._matches(run) else most

    def _queries(self, run: PlannedRun) -> int | None:
        """How many predictions are ranked; None for all."""
        asked = self.config.queries
        return asked if asked is not None and asked < self._references(run) else None

    def _method(self, run: PlannedRun) -> Method:
        return find_method(self.config.rows[run.method].method)

    def _training(self, run: PlannedRun, data: Path, out: Path, extractor: Path | None = None) -> Train:
        settings = tuple(self.config.overrides(run))
        slots = None if extractor is None else str(extractor)
        preset = BUDGETS[self.config.budget].preset
        return Train(self._method(run).name, preset, settings, str(data), run.seed, str(out), slots)

    def _extractor(self, run: PlannedRun, data: Path) -> Path | None:
        """The run with the slots that this one shares with others, trained if need be; None where it shares none."""
        mine = self._slots_of(run)
        sharing = [other for other in self.config.runs() if mine is not None and self._slots_of(other) == mine]
        begun = self.run_path(run) / "config.yaml"
        shares = "extractor" in read_yaml(str(begun)) if begun.exists() else len(sharing) > 1
        if mine is None or not shares:
            return None
        digest = hashlib.sha256(mine.encode()).hexdigest()[:8]
        path = self.folder / "extractors" / f"{run.setting}-seed{run.seed}-{digest}"
        matters = (f"model.{self._method(run).represents}.", "represent.", *_RUN_WIDE)
        job = self._training(run, data, path)
        settings = tuple(setting for setting in job.settings if setting.startswith(matters))
        with hold(self.folder / "locks" / f"extractor-{path.name}.lock"):
            self._do(run, replace(job, settings=settings, represent_only=True))
        return path

    def _slots_of(self, run: PlannedRun) -> str | None:
        """All that decides what the slots of a run will be; None where they are not trained first."""
        config, group = self.config.run_config(run), self._method(run).represents
        if group is None or getattr(config.model, "joint", False):
            return None
        slots = to_plain(getattr(config.model, group))
        return json.dumps([run.setting, run.seed, config.method, slots, to_plain(config.represent)], sort_keys=True)

    def _data(self, run: PlannedRun) -> Path:
        path = self.folder / "data" / f"{run.setting}-seed{run.seed}.h5"
        with hold(self.folder / "locks" / f"{path.name}.lock"):
            if not path.exists():
                config = self.config
                self._do(run, MakeData(
                    run.world, run.n, config.k, run.split, config.eval_k, run.seed, config.world_settings,
                    config.train_scenes, config.eval_episodes, max(config.steps), str(path),
                ))  # fmt: skip
        return path

    # Who does it.

    @contextmanager
    def hold(self, run: PlannedRun, patience: float = 0) -> Iterator[bool]:
        """Keep a run to this process, which ends with it; False where another has held it for so many seconds."""
        path = self._lock_path(run)
        holder = path.with_suffix(".json")
        with hold(path, patience) as mine:
            if not mine:
                yield False
                return
            try:
                with atomic_write(holder) as temporary:
                    temporary.write_text(json.dumps(_this_process()), encoding="utf-8")
                yield True
            finally:
                holder.unlink(missing_ok=True)

    def _is_held(self, run: PlannedRun) -> bool:
        """Whether the process that noted down that it does this run is still there; asking takes no lock."""
        try:
            holder = read_json(self._lock_path(run).with_suffix(".json"))
            if holder["host"] != socket.gethostname():
                return True  # a node of a cluster, which cannot be asked from here
            return bool(abs(psutil.Process(holder["pid"]).create_time() - holder["began"]) < 2)  # clocks are set
        except (*PARSE_ERRORS, psutil.Error):  # no such file, too
            return False

    def _lock_path(self, run: PlannedRun) -> Path:
        return self.folder / "locks" / f"{run.name.replace('/', '-')}.lock"


def _is_outdated(result: RunResult) -> bool:
    """Whether a result cannot stand beside new ones: an older version of the evaluation gave it."""
    return result.status == "ok" and (result.evaluation_version or 1) < EVALUATION_VERSION


def _this_process() -> dict[str, Any]:
    began = psutil.Process(os.getpid()).create_time()
    return {"host": socket.gethostname(), "pid": os.getpid(), "began": began}


def _common(values: Any, other: Any) -> Any:
    """Only the keys that the other has as well: an older result may know fewer."""
    if isinstance(values, dict) and isinstance(other, dict):
        return {key: _common(value, other[key]) for key, value in values.items() if key in other}
    return values


def _listed(value: Any) -> Any:
    """With lists for tuples, which YAML does not have."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value
