"""Train HOWM in a small world and measure it in combinations of objects that it has never seen (half a minute).

python examples/train_and_evaluate.py
"""

import argparse
import tempfile

import howm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=700, help="of training; a third of them are for the slots")
steps = parser.parse_args().steps

# 15 scenes show 2 of 6 objects on 3x3 cells: 8 are for training, 7 for evaluation.
amounts = howm.Amounts(train_episodes=300, train_steps=20, eval_episodes=300, eval_steps=5)
data = howm.make_dataset("shapes", n=6, k=2, grid="3x3", amounts=amounts)
print("data:", data.certificate()["unseen"])

changes = {
    "model": {"hidden": 64},
    "represent": {"steps": max(1, steps // 3), "lr": 0.004, "warmup": 20},
    "train": {"steps": steps, "batch": 64, "warmup": 50},
}
with tempfile.TemporaryDirectory() as folder:
    howm.train_run(howm.configure("howm", "cpu", changes), data, f"{folder}/howm")
    model = howm.load(f"{folder}/howm")

for name, part in (("unseen", data.eval), ("training", data.eval_seen)):
    scores = howm.evaluate(model, howm.Rollouts(part), steps=(1, 5))
    still = scores.controls["do_nothing"]
    for k in ("1", "5"):
        print(f"{name:8s} scenes, {k} ahead: MRR {scores.model['hard'][k].mrr:6.2f} in the hard pool, "
              f"where predicting no change has {still['hard'][k].mrr:5.2f}")  # fmt: skip
