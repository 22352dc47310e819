"""Discs anywhere on a picture whose borders meet; each can drift in three directions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from howm import World

ANGLES = np.array([0, 2, 4]) * np.pi / 3


@dataclass(frozen=True)
class Tides(World):
    """A disc that another one lies on stays where it is; of two that overlap, the one of the higher id is on top."""

    seed: int = 0
    size: int = 20
    radius: float = 3.0
    stride: float = 2.5

    actions_per_object: ClassVar[int] = 3
    action_names: ClassVar[tuple[str, ...]] = ("down", "up right", "up left")

    @property
    def height(self):
        return self.size

    width = height

    def reset(self, scenes, rng):
        return rng.uniform(0, self.size, (*scenes.shape, 2))

    def step(self, scenes, state, action):
        objects, number = np.divmod(action, 3)
        strides = self.stride * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)[number]
        apart = np.hypot(*np.moveaxis(self._wrapped(state[:, :, None] - state[:, None]), -1, 0))
        covered = np.triu(apart < self.radius, k=1).any(axis=2)
        moves = (scenes == objects[:, None]) & ~covered
        return (state + moves[..., None] * strides[:, None]) % self.size

    def render(self, scenes, state):
        colours = np.random.default_rng(self.seed).integers(64, 256, (self.n, 3), dtype=np.uint8)
        pictures = np.zeros((len(scenes), self.size, self.size, 3), dtype=np.uint8)
        for ids, disc in zip(scenes.T, np.moveaxis(self._discs(state), 1, 0), strict=True):
            pictures = np.where(disc[..., None], colours[ids][:, None, None], pictures)
        return pictures

    def masks(self, scenes, state):
        discs = self._discs(state)
        above = np.cumsum(discs[:, ::-1], axis=1)[:, ::-1] - discs
        return discs & (above == 0)

    def _discs(self, state):
        pixels = np.stack(np.mgrid[: self.size, : self.size], axis=-1) + 0.5
        return (self._wrapped(pixels - state[:, :, None, None]) ** 2).sum(axis=-1) <= self.radius**2

    def _wrapped(self, difference):
        return (difference + self.size / 2) % self.size - self.size / 2
