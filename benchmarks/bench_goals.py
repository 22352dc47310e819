"""Seconds for 500 stratified goals with their optimal lengths, and the search against its plain twin, in one run.

python benchmarks/bench_goals.py [--worlds shapes rush_hour free push] [--per-bucket 125] [--twin 20] [--json FILE]
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from howm import make_goals, make_world, seeded_split, shortest_plans
from howm.planning.goal_set import GoalSet

sys.path.append(str(Path(__file__).parents[1] / "tests" / "oracles"))
from plain_search import plain_a_star, plain_breadth_first


def against_twin(goals: GoalSet, count: int) -> dict[str, float]:
    """CPU seconds per goal of both searches, on the same short goals; both find the same lengths."""
    bounded = goals.world.steps_between(goals.scenes, goals.start, goals.goal) is not None
    suits = goals.exact & (goals.optimal <= (8 if bounded else 3))
    some = goals.subset(np.flatnonzero(suits)[-count:])
    arrays = (some.scenes, some.start, some.goal)
    begin = time.process_time()
    steps = shortest_plans(goals.world, *arrays).steps
    ours = time.process_time() - begin
    plain = plain_a_star if bounded else plain_breadth_first
    begin = time.process_time()
    theirs_steps = [plain(goals.world, *row) for row in zip(*arrays, strict=True)]
    theirs = time.process_time() - begin
    assert steps.tolist() == theirs_steps
    return {
        "goals": len(some),
        "seconds": round(ours, 4),
        "twin_seconds": round(theirs, 3),
        "ratio": round(theirs / ours, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=["shapes", "rush_hour", "free", "push"])
    parser.add_argument("-n", type=int, default=10, help="objects of the library")
    parser.add_argument("-k", type=int, default=5, help="objects of a scene")
    parser.add_argument("--per-bucket", type=int, default=125, help="goals of each of the four lengths")
    parser.add_argument("--twin", type=int, default=20, help="goals that the plain twin searches as well")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = {}
    for name in arguments.worlds:
        world, split = make_world(name, arguments.n), seeded_split(arguments.n, arguments.k, 0)
        begin = time.process_time()
        goals = make_goals(world, split, per_bucket=arguments.per_bucket, seed=7, strict=False)
        drawn = time.process_time() - begin
        figures[name] = goals.summary() | {"seconds": round(drawn, 1), "twin": against_twin(goals, arguments.twin)}
        if world.steps_between(goals.scenes, goals.start, goals.goal) is not None:
            begin = time.process_time()
            shortest_plans(world, goals.scenes, goals.start, goals.goal)
            figures[name]["search_seconds"] = round(time.process_time() - begin, 1)
        print(name, json.dumps(figures[name]))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
