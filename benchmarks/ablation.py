"""What each part of HOWM brings: the method with one thing changed at a time, and the paper's; Shapes, N=10, K=5.

python benchmarks/ablation.py            # trains what is missing, two runs side by side on one thread each
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from baselines import howm

from howm.tables import slug

# name: method, what is changed
VARIANTS: dict[str, tuple[str, list[str]]] = {
    "howm": ("howm", []),
    "no witness": ("howm", ["model.witness=0"]),
    "softmax over slots, lift by attention": (
        "howm",
        ["model.witness=0", "model.compete=slots", "model.lift=attention"],
    ),
    "softmax over slots, lift by pseudo-inverse": (
        "howm",
        ["model.witness=0", "model.compete=slots", "model.lift=pseudo_inverse"],
    ),
    "lift by attention": ("howm", ["model.lift=attention"]),
    "lift by pseudo-inverse": ("howm", ["model.lift=pseudo_inverse"]),
    "linear maps": ("howm", ["model.maps=linear"]),
    "sigma 0.5": ("howm", ["model.sigma=0.5"]),
    "balanced attention": ("howm", ["model.extractor.kind=balanced", "represent.steps=6000"]),
    "slot attention": ("howm", ["model.extractor.kind=slot_attention", "represent.steps=6000"]),
    "howm-paper": ("howm-paper", []),
}


def make(name: str, work: Path, results: Path, data: Path, seed: int) -> str:
    method, settings = VARIANTS[name]
    file = f"{slug(name)}-seed{seed}"
    target, run = results / f"{file}.json", work / f"ablation-{file}"
    if target.exists():
        return f"{name}: there already"
    overrides = ["--set", *settings] if settings else []
    howm(
        "train", "--method", method, "--data", str(data), "--out", str(run), "--seed", str(seed), "--resume", *overrides
    )
    howm("eval", str(run))
    results.mkdir(parents=True, exist_ok=True)
    target.write_text((run / "results.json").read_text(encoding="utf-8"), encoding="utf-8")
    return f"{name}: done"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("runs"), help="where data and runs go (default runs)")
    parser.add_argument("--results", type=Path, default=Path("results/ablation"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    data = options.work / f"ablation-seed{options.seed}.h5"
    if not data.exists():
        amounts = ("--eval-episodes", "2000", "--seed", str(options.seed))
        howm("data", "make", "--env", "shapes", "-n", "10", "-k", "5", *amounts, "-o", str(data))
    with ThreadPoolExecutor(options.workers) as pool:
        jobs = [pool.submit(make, name, options.work, options.results, data, options.seed) for name in options.only]
        for job in jobs:
            print(job.result(), flush=True)


if __name__ == "__main__":
    main()
