"""A grid of runs, methods × worlds × library sizes × seeds; each cell is an ordinary run directory.

OUT/sweep.yaml                                      what was asked for
OUT/data/<env>-n<N>-k<K>-seed<S>.h5                 made once, shared by all methods
OUT/extractors/<env>-n<N>-k<K>-seed<S>-<digest>/    trained once, where several cells want the same
OUT/runs/<env>-n<N>-k<K>/<method>-seed<S>/          a run, gone on with when it was killed
OUT/results/<env>-n<N>-k<K>/<method>-seed<S>.json   finished: status ok; or OM or failed, with the reason
OUT/logs/<env>-n<N>-k<K>/<method>-seed<S>.txt       what the commands said
"""

import ctypes
import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from howm.config import from_plain, parse_settings, read_yaml, to_plain, to_yaml
from howm.errors import HowmError
from howm.grid import Grid
from howm.library import WORLDS
from howm.models.methods import METHODS, Method, RunConfig, find_method
from howm.results import save_results
from howm.scenes import seeded_split
from howm.storage import written_whole

MATCHED_EPISODES = 500  # of evaluation for a model that matches slots with slots: each reference is dear

GROUPS = ("model", "represent", "train")

BudgetName = Literal["quick", "cpu", "paper"]


@dataclass(frozen=True)
class Budget:
    """How much work a cell is: a preset, the share of its training steps, and the references of its evaluation."""

    preset: str
    share: float
    eval_episodes: int


BUDGETS: dict[str, Budget] = {
    "quick": Budget("cpu", 0.25, 1_000),
    "cpu": Budget("cpu", 1.0, 10_000),
    "paper": Budget("paper", 1.0, 10_000),
}


def paper_grid(budget: str) -> dict[str, Any]:
    """The grid of the paper's tables, with two options of its baselines; in a hurry less of everything."""
    if budget == "quick":
        return {"n": [5, 10], "large": [], "seeds": [0]}
    background = {"name": "monet-bm-background", "method": "monet-bm", "settings": ["model.monet.background_slot=true"]}
    matched = {"name": "cswm-slots-matched", "method": "cswm-slots", "settings": ["model.matching=true"]}
    return {"variants": [background, matched]}


@dataclass(frozen=True)
class Variant:
    """A method with some of its keys changed, under a name of its own."""

    name: str
    method: str
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise HowmError(f"name={self.name!r} cannot be part of a file's name; use letters, digits and hyphens")
        find_method(self.method)


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
    """The grid. ``settings`` override keys of every method that has them; ``large`` are sizes for Shapes alone.

    ``variants`` are run beside the methods. ``train_scenes`` and ``grid`` are those of `howm data make`.
    """

    methods: tuple[str, ...] = tuple(METHODS)
    variants: tuple[Variant, ...] = ()
    envs: tuple[str, ...] = ("shapes", "rush_hour")
    n: tuple[int, ...] = (5, 10, 20)
    large: tuple[int, ...] = (30,)
    k: int = 5
    grid: str = "5x5"
    train_scenes: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: BudgetName = "cpu"
    steps: tuple[int, ...] = (1, 5, 10)
    episodes: int | None = None  # of evaluation; the budget's, if not given
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("envs", "seeds", "steps"):
            if not getattr(self, name):
                raise HowmError(f"a sweep needs at least one value of {name}")
        if not self.methods and not self.variants:
            raise HowmError("a sweep needs at least one of methods or variants")
        if not self.n and not self.large:
            raise HowmError("a sweep needs at least one value of n")
        for method in self.methods:
            find_method(method)
        names = [*self.methods, *(variant.name for variant in self.variants)]
        for name in names:
            if names.count(name) > 1:
                raise HowmError(f"{name} stands twice among the methods and variants; give each a name of its own")
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
        Grid.parse(self.grid).check_room(self.k)
        for setting in self.settings:
            if setting.partition(".")[0] not in GROUPS:
                groups = ", ".join(GROUPS)
                raise HowmError(f"setting {setting!r} is of none of {groups}; give for example train.steps=1000")
        if self.train_scenes is not None:
            for n in {*self.n, *self.large} - {self.k}:
                seeded_split(n, self.k, 0, train_scenes=self.train_scenes)  # refuses too few and too many
        for cell in self.cells():
            self.run_config(cell)  # refuses settings that a method has not

    @property
    def eval_episodes(self) -> int:
        return self.episodes or BUDGETS[self.budget].eval_episodes

    @property
    def rows(self) -> dict[str, Variant]:
        """All methods and variants by name."""
        return {row.name: row for row in (*(Variant(name, name) for name in self.methods), *self.variants)}

    def cells(self) -> list[Cell]:
        """Seed by seed and small libraries first, so that a sweep that is cut short has some of everything."""
        return [
            Cell(env, n, self.k, name, seed)
            for seed in self.seeds
            for n in sorted({*self.n, *self.large})
            for env in self.envs
            for name in self.rows
            if n in self.n or env == "shapes"
        ]

    def overrides(self, cell: Cell) -> list[str]:
        """What the cell changes of its method's preset."""
        row, budget = self.rows[cell.method], BUDGETS[self.budget]
        config = find_method(row.method).config(budget.preset)
        groups = {"train": config.train} | ({"represent": config.represent} if config.represent else {})
        settings = []
        if budget.share != 1:
            settings = [f"{group}.steps={max(1, round(budget.share * c.steps))}" for group, c in groups.items()]
        known = ("model", *groups)
        settings += [setting for setting in self.settings if setting.partition(".")[0] in known]
        return [*settings, *row.settings]

    def unlike(self, other: "SweepConfig") -> str | None:
        """What is not the same for cells that both grids have, in words."""
        for name in ("budget", "grid", "train_scenes", "steps", "eval_episodes", "settings"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                return f"{name}={mine}, not {its}"
        for name in self.rows.keys() & other.rows.keys():
            if self.rows[name] != other.rows[name]:
                return f"another variant {name}"
        return None

    def run_config(self, cell: Cell) -> RunConfig:
        preset = BUDGETS[self.budget].preset
        return find_method(self.rows[cell.method].method).config(preset, parse_settings(self.overrides(cell)))


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
_RUN_WIDE = ("train.precision", "train.hold_out", "train.same_scene")  # keys of train that the slots need alike


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
        results = values.pop("results", None)
        return cls(folder, from_plain(SweepConfig, values), results=Path(results) if results else None)

    def begin(self) -> None:
        """Write down what is asked for, and refuse what would not fit to what the folder holds."""
        if self.results.is_file():
            raise HowmError(f"{self.results} is a file; give the folder that the results go into")
        if self.config_path.exists():
            other = Sweep.open(self.folder).config.unlike(self.config)
            if other:
                raise HowmError(f"{self.folder} was begun with {other}; choose another --out")
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
        return {"status": "ok", **json.loads(path.read_text(encoding="utf-8"))}

    def overview(self) -> Overview:
        """Time left is judged by the work that was done since this call of the sweep began."""
        statuses = {cell: self.status(cell) for cell in self.config.cells()}
        running = {cell: self._share(cell) for cell, status in statuses.items() if status == "running"}
        began = self.config_path.stat().st_mtime if self.config_path.exists() else time.time()
        paths = [self.result_path(cell) for cell, status in statuses.items() if status in ("ok", "OM", "failed")]
        done = sum(path.stat().st_mtime > began for path in paths) + sum(running.values())
        open_cells = sum(status in ("running", "waiting") for status in statuses.values()) - sum(running.values())
        left = (time.time() - began) / done * open_cells if done and open_cells else None
        return Overview(Counter(statuses.values()), running, left)

    @property
    def config_path(self) -> Path:
        return self.folder / "sweep.yaml"

    def _share(self, cell: Cell) -> float:
        """The share of its steps that a running cell has trained; evaluation counts as nothing."""
        config = self.config.run_config(cell)
        steps = config.train.steps + (config.represent.steps if config.represent else 0)
        try:
            lines = (self.run_path(cell) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            return min(1.0, float(json.loads(lines[-1])["step"]) / steps)
        except (OSError, IndexError, ValueError):  # not begun, or in the middle of a line
            return 0.0

    def open_cells(self) -> list[Cell]:
        """What is still to do: also what failed before, and what did not fit into a smaller memory limit."""
        return [cell for cell in self.config.cells() if not self._closed(cell)]

    def _closed(self, cell: Cell) -> bool:
        result = self.result(cell)
        if result["status"] == "OM":
            return self.memory_mb is not None and self.memory_mb <= result["memory_limit_mb"]
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
        matching = getattr(self.config.run_config(cell).model, "matching", False)
        some = ["--episodes", str(min(MATCHED_EPISODES, self.config.eval_episodes))] if matching else []
        self._howm(cell, "eval", str(run), *some, "--steps", *map(str, self.config.steps))
        results: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
        return results | self._named(cell)

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
                [sys.executable, "-m", "howm.cli", *arguments],
                stdout=subprocess.DEVNULL, stderr=file, env=environment, preexec_fn=_die_with_parent,
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
            if self.stopped:
                raise _StoppedError
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


class _StoppedError(Exception):
    """The sweep is ended from outside: of the cell at hand nothing is recorded."""


def _die_with_parent() -> None:
    """In a child: end when the sweep is killed, or a second sweep would meet it in the same run (Linux only)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


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


class Listener(Protocol):
    """Is told of a sweep while it runs."""

    def ended(self, cell: Cell, status: str) -> None: ...

    def tick(self) -> None:
        """About once a second."""


def run_local(sweep: Sweep, cells: Sequence[Cell], workers: int, listener: Listener) -> dict[Cell, str]:
    """All cells, ``workers`` at a time, in processes of this machine."""
    found: dict[Cell, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        jobs: dict[Future[str], Cell] = {pool.submit(sweep.run_cell, cell): cell for cell in cells}
        try:
            left = set(jobs)
            while left:
                ended, left = wait(left, timeout=1, return_when=FIRST_COMPLETED)
                for job in ended:
                    found[jobs[job]] = job.result()
                    listener.ended(jobs[job], found[jobs[job]])
                listener.tick()
        except BaseException:
            sweep.stopped = True
            pool.shutdown(cancel_futures=True)
            raise
    return found


def _refuse_silence(address: str | None) -> None:
    """Ray itself would try for minutes to reach a cluster that is not there."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise HowmError(
                f"no Ray cluster answers at {address} ({error}); start one or leave out --address"
            ) from error


def run_on_ray(
    sweep: Sweep, cells: Sequence[Cell], address: str | None, gpus: float, listener: Listener
) -> dict[Cell, str]:
    """The same cells as tasks of a Ray cluster whose nodes share the folder; a task whose node dies is run again.

    Without ``address`` a cluster of this machine alone is started. A cell that runs again goes on from its checkpoint.
    """
    try:
        import ray
    except ImportError as error:
        raise HowmError("Ray is not installed; pip install 'howm[ray]' or use --engine local") from error
    found: dict[Cell, str] = {}
    started = not ray.is_initialized()
    if started:
        _refuse_silence(address)
        ray.init(address=address, logging_level="error", log_to_driver=False)
    try:
        memory = {} if sweep.memory_mb is None else {"memory": int(sweep.memory_mb * 2**20)}
        task = ray.remote(num_cpus=sweep.threads, num_gpus=gpus, max_retries=-1, **memory)(Sweep.run_cell)
        patience = 60.0  # the worker of a node that died may take a while to die itself
        jobs = {task.remote(sweep, cell, patience): cell for cell in cells}
        left = list(jobs)
        while left:
            ended, left = ray.wait(left, timeout=1)
            for job in ended:
                found[jobs[job]] = ray.get(job)
                listener.ended(jobs[job], found[jobs[job]])
            listener.tick()
    finally:
        if started:
            ray.shutdown()
    return found
