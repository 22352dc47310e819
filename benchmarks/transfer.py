"""A HOWM that was trained on scenes of 5 objects, evaluated without retraining on scenes of another number.

python benchmarks/transfer.py                # results/transfer/<model>-k<K>.json, where it is not there yet
"""

import argparse
import json
from pathlib import Path

from howm.checkpoint import find_checkpoint, load_checkpoint
from howm.cli import main as howm
from howm.results import evaluate_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="howm-shapes-n10", help="a run or a model of the package")
    parser.add_argument("-k", type=int, nargs="+", default=[3, 4, 6, 7])
    parser.add_argument("--work", type=Path, default=Path("runs"), help="where the data goes (default runs)")
    parser.add_argument("--results", type=Path, default=Path("results/transfer"))
    options = parser.parse_args()
    about = load_checkpoint(find_checkpoint(options.model)).about["data"]
    options.results.mkdir(parents=True, exist_ok=True)
    for k in options.k:
        target = options.results / f"{Path(options.model).name}-k{k}.json"
        if target.exists():
            continue
        data = options.work / f"transfer-{about['world']}-n{about['n']}-k{k}.h5"
        if not data.exists():
            howm(["data", "make", "--env", about["world"], "-n", str(about["n"]), "-k", str(k), "-o", str(data)])
        results = evaluate_run(options.model, data=data)
        target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(k, {steps: results["eval_hard"][steps]["mrr"] for steps in results["eval_hard"]}, flush=True)


if __name__ == "__main__":
    main()
