"""How well a reward head, learned beside a trained model in its training scenes, knows the tasks in unseen scenes.

python benchmarks/rewards.py [--models howm-shapes-n10 ...] [--json FILE]
"""

import argparse
import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch

import howm
from howm.data.episodes import collect
from howm.evaluation.rewards import _invariance, learned_reward_invariance_error
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint
from howm.worlds.registry import read_world
from howm.worlds.tasks import Task
from howm.worlds.world import World


def score_after(world: World, task: Task, ids: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """What the head predicts: the score of the state after a step."""
    return task.score(world, ids, world.step(ids, states, actions))


def measure(name: str) -> dict[str, object]:
    model, record = howm.load(name), load_checkpoint(find_checkpoint(name)).record
    world = read_world(record.data.world, record.data.simulator or {})
    assert world is not None
    assert model.training_scenes is not None
    rng = np.random.default_rng(0)
    seen = collect(world, model.training_scenes, 400, 50, rng)
    unseen = collect(world, howm.unseen_scenes(model, 100), 200, 10, rng)
    found = {}
    for task in howm.TASKS:
        begin = time.process_time()
        head = howm.fit_reward(model, seen, task)
        seconds = time.process_time() - begin
        parts = {
            part: howm.reward_accuracy(head, model, data) for part, data in (("unseen", unseen), ("training", seen))
        }
        head.attach(model)
        true = _invariance(partial(score_after, world, howm.make_task(task)), unseen, np.random.default_rng(1), 512, 32)
        learned = learned_reward_invariance_error(model, unseen, np.random.default_rng(1))
        found[task] = {part: asdict(one) for part, one in parts.items()} | {
            "seconds": round(seconds, 1), "invariance": {"true": true.to_json(), "learned": learned.to_json()}
        }  # fmt: skip
        print(name, task, json.dumps(found[task]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["howm-shapes-n10"])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = {name: measure(name) for name in arguments.models}
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
