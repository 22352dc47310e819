"""Data-parallel training: two processes against one with the double batch, in both phases of `howm`.

python benchmarks/bench_parallel.py [--steps 200] [--json FILE]

The curves of both must be one: the largest relative difference of the losses is shown. Each process has one thread. The
throughput ratio is that of the time from the first logged step of a phase to its last.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ONE = [sys.executable]
TWO = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
BATCH = {"represent": 64, "train": 128}  # of one process alone


Curve = list[tuple[float, float]]  # the loss of each logged step, and when it was written


def train(command: list[str], data: Path, out: Path, processes: int, steps: int) -> dict[str, Curve]:
    """The curve of each phase."""
    shared = {"steps": steps, "log_every": max(1, steps // 20), "check_every": steps, "warmup": 10}
    settings = [f"{phase}.batch={size // processes}" for phase, size in BATCH.items()]
    settings += [f"{phase}.{key}={value}" for phase in BATCH for key, value in shared.items()]
    arguments = ["-m", "howm.cli", "train", "--method", "howm", "--data", data, "--out", out, "--set", *settings]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen([*command, *map(str, arguments)], env=environment, stderr=subprocess.DEVNULL)
    rows: list[tuple[float, dict[str, Any]]] = []
    metrics = out / "metrics.jsonl"
    while process.poll() is None:  # the rows have no time of their own
        found = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
        rows += [(time.monotonic(), json.loads(line)) for line in found[len(rows) :] if line.endswith("}")]
        time.sleep(0.005)
    if process.returncode:
        sys.exit(f"training failed with exit code {process.returncode}")
    logged = [(row["step"], row["loss"], when) for when, row in rows if "loss" in row]
    return {
        phase: [(loss, when) for step, loss, when in logged if begin < step <= begin + steps]
        for begin, phase in zip((0, steps), BATCH, strict=True)
    }


def compare(one: Mapping[str, Curve], two: Mapping[str, Curve]) -> list[dict[str, Any]]:
    rows = []
    for phase in BATCH:
        losses = [[loss for loss, _ in curves[phase]] for curves in (one, two)]
        seconds = [curves[phase][-1][1] - curves[phase][0][1] for curves in (one, two)]
        apart = max(abs(a - b) / abs(a) for a, b in zip(*losses, strict=True))
        found = {"phase": phase, "batch": BATCH[phase], "largest_relative_difference": apart}
        rows.append(found | {"seconds_one": seconds[0], "seconds_two": seconds[1], "speedup": seconds[0] / seconds[1]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of each phase")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.h5"
        making = ["data", "make", "--world", "shapes", "-n", "10", "-k", "5", "--eval-episodes", "10", "-o", str(data)]
        subprocess.run([*ONE, "-m", "howm.cli", *making], check=True, stdout=subprocess.DEVNULL)
        curves = [
            train(command, data, Path(folder) / str(processes), processes, options.steps)
            for processes, command in ((1, ONE), (2, TWO))
        ]
    rows = compare(*curves)
    for row in rows:
        print(f"{row['phase']:10s} batch {row['batch']:4d}: losses differ by {row['largest_relative_difference']:.1e} "
              f"at most; two processes are {row['speedup']:.2f} times as fast")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
