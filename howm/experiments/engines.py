"""What carries out the runs of a sweep: processes of this machine, or the nodes of a Ray cluster."""

import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from howm.errors import HowmError
from howm.experiments.folder import Sweep
from howm.experiments.plan import PlannedRun


class Listener(Protocol):
    """Hears of a sweep while it runs."""

    def ended(self, run: PlannedRun, status: str) -> None: ...

    def tick(self) -> None:
        """About once a second."""


def run_local(sweep: Sweep, runs: Sequence[PlannedRun], workers: int, listener: Listener) -> dict[PlannedRun, str]:
    """All runs, ``workers`` at a time, in processes of this machine."""
    found: dict[PlannedRun, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        jobs: dict[Future[str], PlannedRun] = {pool.submit(sweep.execute, run): run for run in runs}
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
                f"no Ray cluster answers at {address} ({error}); start one or leave out `address`"
            ) from error


def _refuse_waiting(nodes: Sequence[Mapping[str, float]], asked: Mapping[str, float]) -> None:
    """Ray would wait in silence for a node that has what no node has."""
    if not any(all(node.get(name, 0) >= amount for name, amount in asked.items()) for node in nodes):
        wanted = ", ".join(f"{name} {amount:,g}" for name, amount in asked.items() if amount)
        raise HowmError(f"no node of the Ray cluster has {wanted}; give fewer `threads`, `gpus` or `memory_mb`")


def run_on_ray(
    sweep: Sweep, runs: Sequence[PlannedRun], address: str | None, gpus: float, listener: Listener
) -> dict[PlannedRun, str]:
    """The same runs as tasks of a Ray cluster whose nodes share the folder; a task whose node dies is run again.

    Without ``address`` a cluster of this machine alone is started. A run that starts again resumes from its checkpoint.
    """
    try:
        import ray
    except ImportError as error:
        raise HowmError("Ray is not installed; pip install 'howm[ray]' or use the engine local") from error
    found: dict[PlannedRun, str] = {}
    started = not ray.is_initialized()
    if started:
        _refuse_silence(address)
        try:
            ray.init(address=address, logging_level="error", log_to_driver=False)
        except (ConnectionError, ValueError) as error:
            raise HowmError(
                f"no Ray cluster answers at {address} ({str(error).splitlines()[0]}); start one or leave out `address`"
            ) from error
    try:
        memory = {} if sweep.memory_mb is None else {"memory": int(sweep.memory_mb * 2**20)}
        _refuse_waiting(
            [node["Resources"] for node in ray.nodes() if node["Alive"]], {"CPU": sweep.threads, "GPU": gpus, **memory}
        )
        task = ray.remote(num_cpus=sweep.threads, num_gpus=gpus, max_retries=-1, **memory)(Sweep.execute)
        patience = 60.0  # the worker of a node that died may take a while to die itself
        jobs = {task.remote(sweep, run, patience): run for run in runs}
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
