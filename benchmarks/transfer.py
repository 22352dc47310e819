"""A HOWM that was trained on scenes of 5 objects, evaluated without retraining on scenes of another number.

python benchmarks/transfer.py                # results/transfer/<model>-k<K>.json, where it is not there yet
"""

import argparse
from pathlib import Path

from howm.cli.main import main as howm
from howm.evaluation.run import evaluate_run
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="howm-shapes-n10", help="a run or a model of the package")
    parser.add_argument("-k", type=int, nargs="+", default=[3, 4, 6, 7])
    parser.add_argument("--episodes", type=int, help="of evaluation (default: all 10,000)")
    parser.add_argument("--infer-count", type=int, metavar="MOST", help="do not tell the model K, only a bound")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="where the data goes (default runs)")
    parser.add_argument("--results", type=Path, default=Path("results/transfer"))
    options = parser.parse_args()
    trained = load_checkpoint(find_checkpoint(options.model)).record.data
    options.results.mkdir(parents=True, exist_ok=True)
    for k in options.k:
        name = Path(options.model).name + ("" if options.infer_count is None else "-counting")
        target = options.results / f"{name}-k{k}.json"
        if target.exists():
            continue
        data = options.work / f"transfer-{trained.world}-n{trained.n}-k{k}.h5"
        if not data.exists():
            howm(["data", "make", "--world", trained.world, "-n", str(trained.n), "-k", str(k), "-o", str(data)])
        result = evaluate_run(options.model, data, target, episodes=options.episodes, infer_count=options.infer_count)
        print(k, {steps: scores.mrr for steps, scores in result.scores["unseen"]["hard"].items()}, flush=True)


if __name__ == "__main__":
    main()
