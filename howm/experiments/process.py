"""A process for one stage of a run: started, watched, and ended when it grows too large or the sweep stops."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from howm.errors import NO_MEMORY
from howm.experiments.cell import Job, stage_of, to_json
from howm.runs.result import Failure, Status


class RunError(Exception):
    """A run that did not end well."""

    def __init__(self, status: Status, failure: Failure) -> None:
        super().__init__(status)
        self.status, self.failure = status, failure


class StoppedError(Exception):
    """The sweep is ended from outside: of the run at hand nothing is recorded."""


def machine_memory_mb() -> float:
    return float(psutil.virtual_memory().total) / 2**20


def do_in_process(
    job: Job, typed: Mapping[str, Sequence[str]], log: Path, threads: int, memory_mb: float | None,
    stopped: Callable[[], bool],
) -> None:  # fmt: skip
    """Do a job in a process of its own, which may use the names that were typed; what it says goes to ``log``."""
    if stopped():
        raise StoppedError
    stage, text = stage_of(job), to_json(job, typed)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        file.write(f"# {job}\n".encode())
        file.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "howm.experiments.cell", str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=file,
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            start_new_session=True,  # Ctrl-C is for the sweep, which ends them
        )  # fmt: skip
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it ended at once, and has said why
                process.stdin.write(text.encode())
                process.stdin.close()
            peak = _watch(process, stage, memory_mb, stopped)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode != 0:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        reason = f"killed by signal {-process.returncode}" if process.returncode < 0 else lines[-1]
        if NO_MEMORY in reason:
            raise RunError("OM", Failure(reason, stage, peak, machine_memory_mb()))
        raise RunError("failed", Failure(reason, stage, peak))


def _watch(
    process: "subprocess.Popen[bytes]", stage: str, memory_mb: float | None, stopped: Callable[[], bool]
) -> float:
    """Wait for a process; its largest memory in MB. One that grows over the limit is ended."""
    peak = 0.0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.Error):
            peak = max(peak, watched.memory_info().rss / 2**20)
        if memory_mb is not None and peak > memory_mb:
            raise RunError("OM", Failure(f"over {memory_mb:.0f} MB", stage, peak, memory_mb))
        if stopped():
            raise StoppedError
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
    return peak
