"""A model of your own in three methods, trained, measured and compared with another (half a minute).

python examples/own_model.py
"""

import argparse
import tempfile

import torch
from torch.nn import Linear, ReLU, Sequential

import howm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=500, help="of training")
steps = parser.parse_args().steps


class Flat(howm.WorldModel):
    """One vector for a picture, one network for a step; ``hidden=0`` makes the step linear."""

    def __init__(self, spec, hidden=128, size=32):
        super().__init__(spec)
        pixels = 3 * spec.height * spec.width
        self.encoder = Sequential(Linear(pixels, 128), ReLU(), Linear(128, size))
        inputs = size + spec.actions
        self.transition = Linear(inputs, size)
        if hidden:
            self.transition = Sequential(Linear(inputs, hidden), ReLU(), Linear(hidden, size))

    def encode(self, pictures, privileged=None):
        return howm.SlotState(self.encoder(pictures.flatten(1).float() / 255)[:, None])

    def step(self, state, action):
        taken = torch.nn.functional.one_hot(action, self.spec.actions).float()
        change = self.transition(torch.cat([state.slots[:, 0], taken], dim=1))
        return howm.SlotState(state.slots + change[:, None])

    def forward(self, batch):
        now, then, other = (self.encode(x) for x in (batch.obs, batch.next_obs, batch.negative_obs))
        positive = (self.step(now, batch.action).slots - then.slots).square().sum(dim=2).mean()
        hinge = torch.relu(1 - (now.slots - other.slots).square().sum(dim=2)).mean()
        return positive + hinge, {"positive": positive.detach(), "hinge": hinge.detach()}


data = howm.make_dataset("shapes", n=6, k=2, grid="3x3", amounts=howm.Amounts(300, 20, 300, 5))
models = {}
for name, hidden in (("linear", 0), ("mlp", 128)):
    torch.manual_seed(0)
    models[name] = Flat(data.spec, hidden)
    print(name, "breaks of the contract:", howm.check_model(models[name]))
    with tempfile.TemporaryDirectory() as folder:
        config = howm.TrainConfig(steps=steps, batch=128, lr=3e-3, schedule="cosine", check_every=50, log_every=50)
        howm.fit(models[name], data, config, f"{folder}/run")

for entry in howm.compare(models, data, steps=(1, 5)).of("hard"):
    change = entry.difference
    beside = "" if change is None else f", {change.mrr:+.1f} ({change.mrr_ci[0]:+.1f} to {change.mrr_ci[1]:+.1f})"
    print(f"{entry.steps} ahead, hard pool, {entry.name:6s}: MRR {entry.metrics.mrr:5.1f}{beside}")
