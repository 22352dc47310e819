"""Train and evaluate baselines, two runs side by side on one thread each; results that exist are skipped.

python benchmarks/baselines.py --envs shapes rush_hour -n 5 10 --methods cswm-n --seeds 0 1 2
"""

import argparse
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def howm(*arguments: str) -> None:
    command = [sys.executable, "-m", "howm.cli", *arguments]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)


def make_cell(env: str, n: int, method: str, seed: int, work: Path, results: Path, settings: list[str]) -> str:
    name = f"{env}-n{n}-k5"
    if (results / name / f"{method}-seed{seed}.json").exists():
        return f"{name} {method} seed {seed}: there already"
    data, run = work / f"{name}-seed{seed}.h5", work / f"{name}-{method}-seed{seed}"
    howm("data", "make", "--env", env, "-n", str(n), "-k", "5", "--seed", str(seed), "--force", "-o", str(data))
    overrides = ["--set", *settings] if settings else []
    howm(
        "train", "--method", method, "--data", str(data), "--out", str(run), "--seed", str(seed), "--resume", *overrides
    )
    howm("eval", str(run), "--results", str(results))
    return f"{name} {method} seed {seed}: done"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["shapes"])
    parser.add_argument("-n", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--methods", nargs="+", default=["cswm-n"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", nargs="+", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="where data and runs go (default runs)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="default results")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cells = itertools.product(options.seeds, options.envs, options.n, options.methods)
    failed = 0
    with ThreadPoolExecutor(options.workers) as pool:
        jobs = [
            pool.submit(make_cell, env, n, method, seed, options.work, options.results, options.settings)
            for seed, env, n, method in cells
        ]
        for job in jobs:
            try:
                print(job.result(), flush=True)
            except subprocess.CalledProcessError as error:
                failed += 1
                print(f"FAILED: {' '.join(error.cmd)}", flush=True)
    sys.exit(min(failed, 1))


if __name__ == "__main__":
    main()
