"""The folder of a sweep, in which each cell of a plan is an ordinary run directory.

OUT/sweep.yaml                                      what was asked for
OUT/data/<env>-n<N>-k<K>-seed<S>.h5                 made once, shared by all methods
OUT/extractors/<env>-n<N>-k<K>-seed<S>-<digest>/    trained once, where several cells want the same
OUT/runs/<env>-n<N>-k<K>/<method>-seed<S>/          a run, gone on with when it was killed
OUT/results/<env>-n<N>-k<K>/<method>-seed<S>.json   finished: status ok; or OM or failed, with the reason
OUT/logs/<env>-n<N>-k<K>/<method>-seed<S>.txt       what the commands said
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from howm.config import OF_RUN, difference, from_plain, read_yaml, to_plain, to_yaml
from howm.errors import NO_MEMORY, HowmError
from howm.models.methods import Method, find_method
from howm.plan import BUDGETS, Cell, SweepConfig
from howm.results import save_results
from howm.rundir import read_metrics
from howm.storage import written_whole

MATCHED_EPISODES = 500  # of evaluation for a model that matches slots with slots: each reference is dear


@dataclass(frozen=True)
class Overview:
    """A sweep at a glance: how many cells are in which state, and how far the running ones are."""

    counts: Counter[str]
    running: dict[Cell, float]  # the share of its training steps
    seconds_left: float | None  # None while there is nothing to judge by

    def __str__(self) -> str:
        counts = ", ".join(f"{self.counts[name]} {name}" for name in STATUSES if self.counts[name])
        left = "" if self.seconds_left is None else f"; about {max(1, round(self.seconds_left / 60))} minutes left"
        return counts + left


STATUSES = ("ok", "OM", "failed", "running", "waiting")
_RUN_WIDE = tuple(f"train.{name}" for name in OF_RUN)  # keys of train that the slots need alike


def results_folder(folder: Path) -> Path:
    """Where a sweep puts its results: where it was last told to, or else into its own folder."""
    told = read_yaml(str(folder / "sweep.yaml")).get("results") if (folder / "sweep.yaml").is_file() else None
    return Path(told) if told else folder / "results"


class Sweep:
    """The folder of a sweep: what its cells need, and what is known of them."""

    def __init__(
        self, folder: Path, config: SweepConfig, memory_mb: float | None = None, threads: int = 1,
        results: Path | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.config, self.memory_mb, self.threads = folder, config, memory_mb, threads
        self.results = results or folder / "results"
        self.stopped = False  # set by who runs the cells, to end them

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
            other = Sweep.open(self.folder).config.unlike(self.config)
            if other:
                raise HowmError(f"{self.folder} was begun with {other}; choose another --out")
        for cell in self.config.cells():
            other = self._unlike(cell)
            if other:
                path = self.result_path(cell)
                raise HowmError(f"{path} was made with {other}; choose another --results, or remove it")
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.results):
                pass
        except OSError as error:
            raise HowmError(
                f"cannot write results to {self.results}: {error.strerror}; choose another folder"
            ) from error
        results = None if self.results == self.folder / "results" else str(self.results)
        with written_whole(self.config_path) as temporary:
            temporary.write_text(to_yaml(_listed(to_plain(self.config)) | {"results": results}), encoding="utf-8")

    def result_path(self, cell: Cell) -> Path:
        return self.results / f"{cell.name}.json"

    def run_path(self, cell: Cell) -> Path:
        return self.folder / "runs" / cell.name

    def status(self, cell: Cell) -> str:
        """One of STATUSES; a cell that failed before is running when it is tried again."""
        with _lock(self._lock_path(cell), seconds=0) as mine:
            return str(self.result(cell)["status"]) if mine else "running"

    def result(self, cell: Cell) -> dict[str, Any]:
        """What is known of a cell."""
        path = self.result_path(cell)
        if not path.exists():
            return {"status": "waiting"}
        try:
            return {"status": "ok", **json.loads(path.read_text(encoding="utf-8"))}
        except (OSError, ValueError, TypeError) as error:
            raise HowmError(f"{path} is no result of a sweep ({error}); remove it to run its cell again") from error

    def _unlike(self, cell: Cell) -> str | None:
        """What a finished result was made with that this sweep does not ask for, in words."""
        result = self.result(cell)
        if result["status"] != "ok":
            return None
        references = self._references(cell)
        if result["pool"] != references:
            return f"{result['pool']} references, not {references}"
        asked = to_plain(self.config.run_config(cell))
        return next(
            (
                found
                for group, made in result.get("config", {}).items()
                if (found := difference(group, _common(made, asked[group]), _common(asked[group], made)))
            ),
            None,
        )

    def overview(self) -> Overview:
        """Time left is judged by the work that was done since this call of the sweep began."""
        statuses = {cell: self.status(cell) for cell in self.config.cells()}
        running = {cell: self._share(cell) for cell, status in statuses.items() if status == "running"}
        began = self.config_path.stat().st_mtime if self.config_path.exists() else time.time()
        paths = [self.result_path(cell) for cell, status in statuses.items() if status in ("ok", "OM", "failed")]
        done = sum(path.stat().st_mtime > began for path in paths) + sum(running.values())
        open_cells = sum(status in ("running", "waiting") for status in statuses.values()) - sum(running.values())
        left = (time.time() - began) / done * open_cells if running and done and open_cells else None
        return Overview(Counter(statuses.values()), running, left)

    @property
    def config_path(self) -> Path:
        return self.folder / "sweep.yaml"

    def _share(self, cell: Cell) -> float:
        """The share of its steps that a running cell has trained; evaluation counts as nothing."""
        config = self.config.run_config(cell)
        steps = config.train.steps + (config.represent.steps if config.represent else 0)
        measured = read_metrics(self.run_path(cell))
        return min(1.0, measured[-1]["step"] / steps) if measured else 0.0

    def open_cells(self) -> list[Cell]:
        """What is still to do: also what failed before, and what did not fit into a smaller memory limit."""
        return [cell for cell in self.config.cells() if not self._closed(cell)]

    def _closed(self, cell: Cell) -> bool:
        result = self.result(cell)
        if result["status"] == "OM":
            return (self.memory_mb or _memory_mb()) <= float(result["memory_limit_mb"])
        return bool(result["status"] == "ok")

    def run_cell(self, cell: Cell, patience: float = 2) -> str:
        """Do what is left of a cell and give its status; an error of the cell is a result, not an exception.

        Who has the cell's lock for an instant asks for its status; who has it for longer than ``patience`` runs it.
        """
        with _lock(self._lock_path(cell), patience) as mine:
            if not mine:
                return "running"  # elsewhere
            if not self._closed(cell):
                try:
                    save_results(self._make(cell), self.result_path(cell))
                except _CellError as error:
                    save_results({"status": error.status, **self._named(cell), **error.about}, self.result_path(cell))
            return str(self.result(cell)["status"])

    def _make(self, cell: Cell) -> dict[str, Any]:
        """Train and evaluate what is left of a cell."""
        data, run = self._data(cell), self.run_path(cell)
        extractor = self._extractor(cell, data)
        taken = ["--extractor", str(extractor)] if extractor else []
        self._howm(cell, "train", *self._train_options(cell, data), "--out", str(run), *taken)
        some = ["--episodes", str(self._references(cell))] if self._matches(cell) else []
        self._howm(cell, "eval", str(run), *some, "--steps", *map(str, self.config.steps))
        results: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
        return results | self._named(cell)

    def _matches(self, cell: Cell) -> bool:
        return bool(getattr(self.config.run_config(cell).model, "matching", False))

    def _references(self, cell: Cell) -> int:
        most = self.config.eval_episodes
        return min(MATCHED_EPISODES, most) if self._matches(cell) else most

    def _method(self, cell: Cell) -> Method:
        return find_method(self.config.rows[cell.method].method)

    def _named(self, cell: Cell) -> dict[str, Any]:
        """What a result says of its cell."""
        method = self._method(cell).name
        variant = {} if cell.method == method else {"variant": cell.method}
        return {"method": method, **variant, "env": cell.env, "n": cell.n, "k": cell.k, "seed": cell.seed}

    def _train_options(self, cell: Cell, data: Path, *only: str) -> list[str]:
        """``only``: the beginnings of the keys that matter."""
        method, settings = self.config.rows[cell.method].method, self.config.overrides(cell)
        settings = [setting for setting in settings if setting.startswith(only or "")]
        preset = BUDGETS[self.config.budget].preset
        options = ["--method", method, "--preset", preset, "--data", str(data), "--seed", str(cell.seed), "--resume"]
        return options + (["--set", *settings] if settings else [])

    def _extractor(self, cell: Cell, data: Path) -> Path | None:
        """The run with the slots that this cell shares with others, trained if need be; None where it shares none."""
        mine = self._slots_of(cell)
        sharing = [other for other in self.config.cells() if mine is not None and self._slots_of(other) == mine]
        begun = self.run_path(cell) / "config.yaml"
        shares = "extractor" in read_yaml(str(begun)) if begun.exists() else len(sharing) > 1
        if mine is None or not shares:
            return None
        digest = hashlib.sha256(mine.encode()).hexdigest()[:8]
        path = self.folder / "extractors" / f"{cell.world}-seed{cell.seed}-{digest}"
        options = self._train_options(cell, data, f"model.{self._method(cell).represents}.", "represent.", *_RUN_WIDE)
        with _lock(self.folder / "locks" / f"extractor-{path.name}.lock"):
            self._howm(cell, "train", *options, "--out", str(path), "--represent-only")
        return path

    def _slots_of(self, cell: Cell) -> str | None:
        """All that decides what the slots of a cell will be; None where they are not trained first."""
        config, group = self.config.run_config(cell), self._method(cell).represents
        if group is None or getattr(config.model, "joint", False):
            return None
        slots = to_plain(getattr(config.model, group))
        return json.dumps([cell.world, cell.seed, config.method, slots, to_plain(config.represent)], sort_keys=True)

    def _data(self, cell: Cell) -> Path:
        path = self.folder / "data" / f"{cell.world}-seed{cell.seed}.h5"
        with _lock(self.folder / "locks" / f"{path.name}.lock"):
            if not path.exists():
                world = ["--env", cell.env, "-n", str(cell.n), "-k", str(cell.k), "--grid", self.config.grid]
                amounts = ["--eval-episodes", str(self.config.eval_episodes)]
                amounts += ["--eval-steps", str(max(self.config.steps))]
                if self.config.train_scenes is not None:
                    amounts += ["--train-scenes", str(self.config.train_scenes)]
                self._howm(cell, "data", "make", *world, "--seed", str(cell.seed), *amounts, "-o", str(path))
        return path

    def _howm(self, cell: Cell, *arguments: str) -> None:
        """Run one command in a process of its own; what it says goes to the cell's log."""
        log = self.folder / "logs" / f"{cell.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"OMP_NUM_THREADS": str(self.threads)}
        if self.stopped:
            raise _StoppedError
        with open(log, "ab") as file:
            file.write(f"$ howm {' '.join(arguments)}\n".encode())
            file.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", "howm.child", str(os.getpid()), *arguments],
                stdout=subprocess.DEVNULL, stderr=file, env=environment,
                start_new_session=True,  # Ctrl-C is for the sweep, which ends them
            )  # fmt: skip
            try:
                peak = self._watch(process)
            except BaseException:
                process.kill()
                process.wait()
                raise
        if process.returncode != 0:
            lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            reason = f"killed by signal {-process.returncode}" if process.returncode < 0 else lines[-1]
            about = {"reason": reason, "command": arguments[0], "peak_memory_mb": peak}
            if NO_MEMORY in reason:
                raise _CellError("OM", about | {"memory_limit_mb": _memory_mb()})
            raise _CellError("failed", about)

    def _watch(self, process: "subprocess.Popen[bytes]") -> float:
        """Wait for a process; its largest memory in MB. One that grows over the limit is ended."""
        peak = 0.0
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            with suppress(psutil.Error):
                peak = max(peak, watched.memory_info().rss / 2**20)
            if self.memory_mb is not None and peak > self.memory_mb:
                process.kill()
                process.wait()
                raise _CellError("OM", {"memory_limit_mb": self.memory_mb, "peak_memory_mb": peak})
            if self.stopped:
                raise _StoppedError
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
        return peak

    def _lock_path(self, cell: Cell) -> Path:
        return self.folder / "locks" / f"{cell.world}-{cell.method}-seed{cell.seed}.lock"


def _memory_mb() -> float:
    """Of this machine."""
    return float(psutil.virtual_memory().total) / 2**20


def _common(values: Any, other: Any) -> Any:
    """Only the keys that the other has as well: an older result may know fewer."""
    if isinstance(values, dict) and isinstance(other, dict):
        return {key: _common(value, other[key]) for key, value in values.items() if key in other}
    return values


class _CellError(Exception):
    """A cell that did not end well."""

    def __init__(self, status: str, about: dict[str, Any]) -> None:
        super().__init__(status)
        self.status, self.about = status, about


class _StoppedError(Exception):
    """The sweep is ended from outside: of the cell at hand nothing is recorded."""


def _listed(value: Any) -> Any:
    """With lists for tuples, which YAML has not."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


@contextmanager
def _lock(path: Path, seconds: float | None = None) -> Iterator[bool]:
    """Hold a lock that ends with its process, however that ends; False where another has it for so many seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        if seconds is None:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield True
            return
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    break
                time.sleep(0.05)
            else:
                yield True
                return
        yield False
