"""Steps with pictures per second: the vector environment, and Gymnasium's loop over single ones, in the same run.

python benchmarks/bench_envs.py [--envs 1024] [--sync-envs 64] [--rounds 5] [--seconds 0.6] [--json FILE]
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median

import gymnasium as gym
import numpy as np

from howm.worlds.envs.registration import register_envs

ENVIRONMENTS = ("howm/Shapes-v0", "howm/RushHour-v0")


def steps_per_second(envs: gym.vector.VectorEnv, seconds: float) -> float:
    """Random actions, resets at the time limit included."""
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(64, envs.num_envs))
    steps, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        envs.step(actions[steps % len(actions)])
        steps += 1
    return steps * envs.num_envs / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=1024, help="environments of the vector environment")
    parser.add_argument("--sync-envs", type=int, default=64, help="environments of SyncVectorEnv")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each; the median is reported")
    parser.add_argument("--seconds", type=float, default=0.6, help="time for one measurement")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()

    register_envs()
    figures = {}
    for env_id in ENVIRONMENTS:
        native = gym.make_vec(env_id, num_envs=arguments.envs, vectorization_mode="vector_entry_point")
        sync = gym.make_vec(env_id, num_envs=arguments.sync_envs, vectorization_mode="sync")
        native.reset(seed=0)
        sync.reset(seed=0)
        # Taking turns, so that a load that comes and goes weighs on both.
        rounds = [
            [steps_per_second(envs, arguments.seconds) for envs in (native, sync)] for _ in range(arguments.rounds)
        ]
        rates, sync_rates = zip(*rounds, strict=True)
        ratio = median(rate / sync_rate for rate, sync_rate in rounds)
        figures[env_id] = {
            "envs": arguments.envs,
            "steps_per_second": round(median(rates)),
            "lowest": round(min(rates)),
            "highest": round(max(rates)),
            "sync_envs": arguments.sync_envs,
            "sync_steps_per_second": round(median(sync_rates)),
            "ratio": round(ratio, 1),
        }
        print(
            f"{env_id}: {median(rates):,.0f} steps/s with pictures ({min(rates):,.0f}-{max(rates):,.0f}, "
            f"{arguments.envs} environments); SyncVectorEnv {median(sync_rates):,.0f} ({arguments.sync_envs}); "
            f"ratio {ratio:.1f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
