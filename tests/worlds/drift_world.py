"""A world of one's own, as small as the contract allows: discs anywhere in the picture, three actions each."""

from dataclasses import dataclass

import numpy as np

from howm import World

STEPS = np.array([[0.0, 3.25], [2.75, 0.0], [-2.0, -2.5]])  # right, down, back to the upper left; rows and columns
RADIUS = 3.0


@dataclass(frozen=True)
class Drift(World):
    """A disc that would leave the picture stays; discs may overlap, and the one of the highest id is on top."""

    seed: int = 0
    size: int = 30
    actions_per_object = 3

    @property
    def height(self):
        return self.size

    @property
    def width(self):
        return self.size

    def reset(self, scenes, rng):
        return rng.uniform(RADIUS, self.size - RADIUS, (*scenes.shape, 2))

    def step(self, scenes, state, action):
        objects, number = np.divmod(action, 3)
        after = state + (scenes == objects[:, None])[..., None] * STEPS[number][:, None]
        inside = ((after >= RADIUS) & (after <= self.size - RADIUS)).all(axis=2, keepdims=True)
        return np.where(inside, after, state)

    def discs(self, state):
        at = np.arange(self.size) + 0.5
        rows, columns = at[:, None] - state[..., 0, None, None], at - state[..., 1, None, None]
        return rows**2 + columns**2 <= RADIUS**2

    def render(self, scenes, state):
        colours = np.random.default_rng(self.seed).integers(64, 256, (self.n, 3)).astype(np.uint8)
        pictures = np.zeros((len(scenes), self.size, self.size, 3), dtype=np.uint8)
        for j, disc in enumerate(self.discs(state).swapaxes(0, 1)):
            pictures[disc] = np.repeat(colours[scenes[:, j]], disc.sum(axis=(1, 2)), axis=0)
        return pictures


@dataclass(frozen=True)
class TellingDrift(Drift):
    """What a world may tell beside."""

    def masks(self, scenes, state):
        discs = self.discs(state)
        above = np.cumsum(discs[:, ::-1], axis=1)[:, ::-1] - discs
        return discs & (above == 0)

    def positions(self, scenes, state):
        return state.copy()

    def state_at(self, positions):
        return np.asarray(positions, dtype=float)
