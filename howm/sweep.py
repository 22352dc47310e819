"""A grid of runs, methods × worlds × library sizes × seeds; each cell is an ordinary run directory.

OUT/sweep.yaml                                      what was asked for
OUT/data/<env>-n<N>-k<K>-seed<S>.h5                 made once, shared by all methods
OUT/runs/<env>-n<N>-k<K>/<method>-seed<S>/          a run, gone on with when it was killed
OUT/results/<env>-n<N>-k<K>/<method>-seed<S>.json   finished: status ok; or OM or failed, with the reason
OUT/logs/<env>-n<N>-k<K>/<method>-seed<S>.txt       what the commands said
"""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from howm.errors import HowmError
from howm.library import WORLDS
from howm.models.methods import find_method
from howm.results import save_results

BudgetName = Literal["quick", "cpu", "paper"]


@dataclass(frozen=True)
class Budget:
    """How much work a cell is: a preset, the share of its training steps, and the references of its evaluation."""

    preset: str
    share: float
    eval_episodes: int


BUDGETS: dict[str, Budget] = {
    "quick": Budget("cpu", 0.3, 1_000),
    "cpu": Budget("cpu", 1.0, 10_000),
    "paper": Budget("paper", 1.0, 10_000),
}


@dataclass(frozen=True, order=True)
class Cell:
    env: str
    n: int
    k: int
    method: str
    seed: int

    @property
    def world(self) -> str:
        return f"{self.env}-n{self.n}-k{self.k}"

    @property
    def name(self) -> str:
        return f"{self.world}/{self.method}-seed{self.seed}"


@dataclass(frozen=True)
class SweepConfig:
    """The grid. ``settings`` override keys of every method that has them; ``large`` are sizes for Shapes alone."""

    methods: tuple[str, ...] = ("cswm-n", "cswm-k", "cswm-k-ca", "cwm-n", "monet-bm", "howm-paper", "howm")
    envs: tuple[str, ...] = ("shapes", "rush_hour")
    n: tuple[int, ...] = (5, 10, 20)
    large: tuple[int, ...] = (30,)
    k: int = 5
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: BudgetName = "cpu"
    steps: tuple[int, ...] = (1, 5, 10)
    episodes: int | None = None  # of evaluation; the budget's, if not given
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("methods", "envs", "n", "seeds", "steps"):
            if not getattr(self, name):
                raise HowmError(f"a sweep needs at least one value of {name}")
        for method in self.methods:
            find_method(method)
        for env in self.envs:
            if env not in WORLDS:
                raise HowmError(f"unknown world {env!r}; choose one of {', '.join(WORLDS)}")
        for n in (*self.n, *self.large):
            if n < self.k:
                raise HowmError(f"a library of n={n} objects has no scene of k={self.k}; give n of {self.k} or more")
        if min(self.seeds) < 0:
            raise HowmError(f"seed={min(self.seeds)} is negative; give 0 or more")
        if self.episodes is not None and self.episodes < 2:
            raise HowmError(f"episodes={self.episodes} are too few to rank among; give 2 or more")
        if min(self.steps) < 1:
            raise HowmError(f"steps={list(self.steps)} cannot be evaluated; give numbers of 1 or more")

    @property
    def eval_episodes(self) -> int:
        return self.episodes or BUDGETS[self.budget].eval_episodes

    def cells(self) -> list[Cell]:
        """Seed by seed and small libraries first, so that a sweep that is cut short has some of everything."""
        return [
            Cell(env, n, self.k, method, seed)
            for seed in self.seeds
            for n in sorted({*self.n, *self.large})
            for env in self.envs
            for method in self.methods
            if n in self.n or env == "shapes"
        ]


class Sweep:
    """The folder of a sweep: what its cells need, and what is known of them."""

    def __init__(self, folder: Path, config: SweepConfig, memory_mb: float | None = None, threads: int = 1) -> None:
        self.folder, self.config, self.memory_mb, self.threads = folder, config, memory_mb, threads

    def result_path(self, cell: Cell) -> Path:
        return self.folder / "results" / f"{cell.name}.json"

    def status(self, cell: Cell) -> str:
        """ok, OM, failed, running or waiting."""
        path = self.result_path(cell)
        if path.exists():
            return str(json.loads(path.read_text(encoding="utf-8"))["status"])
        with _lock(self._lock_path(cell), wait=False) as mine:
            return "waiting" if mine else "running"

    def open_cells(self) -> list[Cell]:
        """What is still to do: also what failed before, and what did not fit into a smaller memory limit."""
        return [cell for cell in self.config.cells() if not self._closed(cell)]

    def _closed(self, cell: Cell) -> bool:
        path = self.result_path(cell)
        if not path.exists():
            return False
        result = json.loads(path.read_text(encoding="utf-8"))
        if result["status"] == "OM":
            return self.memory_mb is not None and self.memory_mb <= result["memory_limit_mb"]
        return bool(result["status"] == "ok")

    def run_cell(self, cell: Cell) -> str:
        """Do what is left of a cell and give its status; an error of the cell is a result, not an exception."""
        with _lock(self._lock_path(cell), wait=False) as mine:
            if not mine:
                return "running"  # elsewhere
            if self._closed(cell):
                return self.status(cell)
            try:
                data = self._data(cell)
                run = self.folder / "runs" / cell.name
                self._howm(cell, "train", *self._train_options(cell), "--data", str(data), "--out", str(run))
                pool = find_method(cell.method).pool
                some = ["--episodes", str(min(pool, self.config.eval_episodes))] if pool else []
                steps = [str(k) for k in self.config.steps]
                self._howm(cell, "eval", str(run), *some, "--steps", *steps, "--results", str(self.folder / "results"))
            except _CellError as error:
                save_results({"status": error.status, **_described(cell), **error.about}, self.result_path(cell))
            result: dict[str, Any] = json.loads(self.result_path(cell).read_text(encoding="utf-8"))
            return str(result["status"])

    def _train_options(self, cell: Cell) -> list[str]:
        method, budget = find_method(cell.method), BUDGETS[self.config.budget]
        config = method.config(budget.preset)
        groups = {"train": config.train} | ({"represent": config.represent} if config.represent else {})
        settings = []
        if budget.share != 1:
            settings = [f"{group}.steps={max(1, round(budget.share * c.steps))}" for group, c in groups.items()]
        known = ("model", *groups)
        settings += [setting for setting in self.config.settings if setting.partition(".")[0] in known]
        options = ["--method", cell.method, "--preset", budget.preset, "--seed", str(cell.seed), "--resume"]
        return options + (["--set", *settings] if settings else [])

    def _data(self, cell: Cell) -> Path:
        path = self.folder / "data" / f"{cell.world}-seed{cell.seed}.h5"
        with _lock(self.folder / "locks" / f"{path.name}.lock", wait=True):
            if not path.exists():
                world = ("--env", cell.env, "-n", str(cell.n), "-k", str(cell.k), "--seed", str(cell.seed))
                length = (
                    "--eval-episodes",
                    str(self.config.eval_episodes),
                    "--eval-steps",
                    str(max(self.config.steps)),
                )
                self._howm(cell, "data", "make", *world, *length, "-o", str(path))
        return path

    def _howm(self, cell: Cell, *arguments: str) -> None:
        """Run one command in a process of its own; what it says goes to the cell's log."""
        log = self.folder / "logs" / f"{cell.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"OMP_NUM_THREADS": str(self.threads)}
        with open(log, "ab") as file:
            file.write(f"$ howm {' '.join(arguments)}\n".encode())
            file.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", "howm.cli", *arguments],
                stdout=subprocess.DEVNULL, stderr=file, env=environment, preexec_fn=_die_with_parent,
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
            raise _CellError("failed", {"reason": reason, "command": arguments[0], "peak_memory_mb": peak})

    def _watch(self, process: "subprocess.Popen[bytes]") -> float:
        """Wait for a process; its largest memory in MB. One that grows over the limit is ended."""
        import psutil

        peak = 0.0
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            with suppress(psutil.Error):
                peak = max(peak, watched.memory_info().rss / 2**20)
            if self.memory_mb is not None and peak > self.memory_mb:
                process.kill()
                process.wait()
                raise _CellError("OM", {"memory_limit_mb": self.memory_mb, "peak_memory_mb": peak})
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
        return peak

    def _lock_path(self, cell: Cell) -> Path:
        return self.folder / "locks" / f"{cell.world}-{cell.method}-seed{cell.seed}.lock"


class _CellError(Exception):
    """A cell that did not end well."""

    def __init__(self, status: str, about: dict[str, Any]) -> None:
        super().__init__(status)
        self.status, self.about = status, about


def _die_with_parent() -> None:
    """In a child: end when the sweep is killed, or a second sweep would meet it in the same run (Linux only)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def _described(cell: Cell) -> dict[str, Any]:
    return {"method": cell.method, "env": cell.env, "n": cell.n, "k": cell.k, "seed": cell.seed}


@contextmanager
def _lock(path: Path, wait: bool) -> Iterator[bool]:
    """Hold a lock that ends with its process, however that ends; False where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


Report = Callable[[Cell, str, int, int, float], None]  # cell, status, finished so far, all, seconds left


def run_local(sweep: Sweep, cells: Sequence[Cell], workers: int, report: Report) -> dict[Cell, str]:
    """All cells, ``workers`` at a time, in processes of this machine."""
    began = time.monotonic()
    found: dict[Cell, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        jobs: dict[Future[str], Cell] = {pool.submit(sweep.run_cell, cell): cell for cell in cells}
        try:
            left = set(jobs)
            while left:
                ended, left = wait(left, return_when=FIRST_COMPLETED)
                for job in ended:
                    found[jobs[job]] = job.result()
                    seconds = (time.monotonic() - began) / len(found) * len(left)
                    report(jobs[job], found[jobs[job]], len(found), len(cells), seconds)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def run_on_ray(
    sweep: Sweep, cells: Sequence[Cell], address: str | None, gpus: float, report: Report
) -> dict[Cell, str]:
    """The same cells as tasks of a Ray cluster whose nodes share the folder; a task whose node dies is run again.

    Without ``address`` a cluster of this machine alone is started. A cell that runs again goes on from its checkpoint.
    """
    try:
        import ray
    except ImportError as error:
        raise HowmError("Ray is not installed; pip install 'howm[ray]' or use --engine local") from error
    began = time.monotonic()
    found: dict[Cell, str] = {}
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, logging_level="error", log_to_driver=False)
    try:
        memory = {} if sweep.memory_mb is None else {"memory": int(sweep.memory_mb * 2**20)}
        task = ray.remote(num_cpus=sweep.threads, num_gpus=gpus, max_retries=-1, **memory)(Sweep.run_cell)
        jobs = {task.remote(sweep, cell): cell for cell in cells}
        left = list(jobs)
        while left:
            ended, left = ray.wait(left)
            for job in ended:
                found[jobs[job]] = ray.get(job)
                seconds = (time.monotonic() - began) / len(found) * len(left)
                report(jobs[job], found[jobs[job]], len(found), len(cells), seconds)
    finally:
        if started:
            ray.shutdown()
    return found
