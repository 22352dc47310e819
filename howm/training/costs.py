"""What training takes: wall clock, CPU clock and memory, also over the parts of a run that was resumed."""

import sys
import time

import torch

from howm.runs.record import Costs

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class Meter:
    """``costs`` is what the last reading said."""

    def __init__(self) -> None:
        self.costs = Costs()
        self.start()

    def start(self, costs: Costs | None = None) -> None:
        """Measure from now on, on top of what was spent before."""
        self.costs = costs or self.costs
        self._wall = time.monotonic() - self.costs.train_seconds
        self._cpu = time.process_time() - self.costs.train_cpu_seconds

    def read(self) -> None:
        peak = max(self.costs.peak_memory_mb, peak_memory_mb())
        self.costs = Costs(time.monotonic() - self._wall, time.process_time() - self._cpu, peak)


def peak_memory_mb() -> float:
    """Of the GPU where there is one, else of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    if resource is not None:
        unit = 1 if sys.platform == "darwin" else 2**10  # bytes on macOS, KB elsewhere
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    import psutil  # here, since on Linux it needs resource itself

    memory = psutil.Process().memory_info()
    return float(getattr(memory, "peak_wset", memory.rss)) / 2**20
