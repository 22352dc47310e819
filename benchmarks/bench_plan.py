"""What one plan costs, planned for alone on one core: goals of ten optimal steps in unseen scenes.

python benchmarks/bench_plan.py [--model howm-shapes-n10] [--goals 10] [--json FILE]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import howm
from howm.planning.planners import PLANNERS
from howm.planning.run import goal_sets
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint

SETTINGS = {"search": ("objects", "embedding"), "beam": ("objects",), "cem": ("objects",), "greedy": ("objects",)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="howm-shapes-n10")
    parser.add_argument("--goals", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = howm.load(options.model)
    near = goal_sets(load_checkpoint(find_checkpoint(options.model)), 40 * options.goals, seed=7)[0]
    goals = near.subset(np.flatnonzero(near.optimal == 10)[: options.goals])
    pairs = list(zip(goals.start_pictures(), goals.goal_pictures(), strict=True))
    howm.plan(model, *pairs[0])  # what is loaded or allocated once is not counted
    found = {}
    for planner, costs in SETTINGS.items():
        assert planner in PLANNERS
        for cost in costs:
            began = time.process_time()
            plans = [howm.plan(model, *pair, planner=planner, cost=cost) for pair in pairs]
            seconds = time.process_time() - began
            entry = {
                "reached": 100 * float(np.mean([plan.reached for plan in plans])),
                "model_calls": float(np.mean([plan.model_calls for plan in plans])),
                "cpu_seconds": round(seconds / len(plans), 4),
            }
            found[planner if cost == "objects" else f"{planner}-{cost}"] = entry
            print(f"{planner:8s}{cost:11s}" + "  ".join(f"{name} {value:.4g}" for name, value in entry.items()))
    if options.json is not None:
        record = {"model": options.model, "goals": len(pairs), "optimal": 10, "planners": found}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
