"""A world of your own in three methods, checked, played, and learned by a method of the package (half a minute).

python examples/own_world.py
"""

import argparse
import tempfile
from dataclasses import dataclass

import numpy as np

import howm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=1200, help="of training")
steps = parser.parse_args().steps


@dataclass(frozen=True)
class Abacus(howm.World):
    """Each object is a bead on a wire of its own; its four actions move it left or right, by one place or by two."""

    seed: int = 0  # of the library: the colours

    @property
    def height(self):
        return 5 * self.n

    width = 50
    cell_pixels = 5

    def reset(self, scenes, rng):
        return rng.integers(10, size=(*scenes.shape, 1))

    def step(self, scenes, state, action):
        by = np.array([-2, -1, 1, 2])[action % 4]
        acting = scenes == (action // 4)[:, None]
        return np.clip(state + (acting * by[:, None])[..., None], 0, 9)

    def render(self, scenes, state):
        colours = np.random.default_rng(self.seed).integers(64, 256, (self.n, 3), dtype=np.uint8)
        cells = np.zeros((len(scenes), self.n, 10, 3), dtype=np.uint8)
        for ids, place in zip(scenes.T, state[..., 0].T, strict=True):
            cells[np.arange(len(scenes)), ids, place] = colours[ids]
        return cells.repeat(5, axis=1).repeat(5, axis=2)


world = Abacus(n=6)
print("breaks of the contract:", howm.check_world(world))
data = howm.make_dataset(world, k=3, amounts=howm.Amounts(200, 20, 200, 5))
print("data:", data.certificate()["unseen"])
with tempfile.TemporaryDirectory() as folder:
    changes = {"model": {"hidden": 32}, "train": {"steps": steps, "batch": 64, "warmup": 20}}
    howm.train_run(howm.configure("cwm-n", "cpu", changes, spec=data.spec), data, f"{folder}/run")
    result = howm.evaluate_run(howm.load(f"{folder}/run"), data, steps=(1, 5))
print(f"hard pool, 5 steps ahead: MRR {result.scores['unseen']['hard']['5'].mrr:.1f}, "
      f"do nothing {result.controls['do_nothing']['hard']['5'].mrr:.1f}, "
      f"oracle {result.controls['oracle']['hard']['5'].mrr:.1f}")  # fmt: skip
