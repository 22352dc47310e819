"""What lies behind the objects: a colour or a smooth random texture, and the noise and brightness of the camera."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Integer, UInt8

Kind = Literal["black", "plain", "texture"]
Per = Literal["dataset", "scene", "episode"]

PLAIN = (70, 76, 84)
TEXTURE_CELL = 8  # pixels between the random points of a texture
NOISE_PICTURES = 64  # patterns of sensor noise, each shifted at random for every state

_TEXTURE, _NOISE = range(2)


@dataclass(frozen=True)
class Background:
    """A texture is one for the dataset, for each scene or for each episode; ``contrast`` is its brightest, in 0-1."""

    kind: Kind = "black"
    per: Per = "dataset"
    contrast: float = 0.3
    noise: float = 0.0  # standard deviation of the sensor, in 0-1
    brightness: float = 0.0  # by what share at most the light of an episode differs
    seed: int = 0

    def behind(
        self, keys: Integer[np.ndarray, "E words"], height: int, width: int
    ) -> UInt8[np.ndarray, "E height width 3"]:
        """Empty pictures; equal keys get equal textures."""
        if self.kind == "black":
            return np.zeros((len(keys), height, width, 3), dtype=np.uint8)
        if self.kind == "plain" or self.per == "dataset":
            plain = np.full((height, width, 3), PLAIN, dtype=np.uint8)
            one = plain if self.kind == "plain" else self._texture((), height, width)
            return np.broadcast_to(one, (len(keys), height, width, 3)).copy()
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        textures = np.stack([self._texture(tuple(key), height, width) for key in distinct.tolist()])
        return np.asarray(textures[which.reshape(-1)])

    @lru_cache(maxsize=2_000)  # noqa: B019  # a world lives as long as its pictures are drawn
    def _texture(self, key: tuple[int, ...], height: int, width: int) -> UInt8[np.ndarray, "height width 3"]:
        rng = np.random.default_rng([self.seed, _TEXTURE, *key])
        points = rng.random((height // TEXTURE_CELL + 2, width // TEXTURE_CELL + 2, 3))
        rows, columns = _interpolation(height, len(points)), _interpolation(width, points.shape[1])
        smooth = np.einsum("yp,pqc,xq->yxc", rows, points, columns)
        return np.asarray(np.rint(255 * self.contrast * smooth), dtype=np.uint8)

    def seen_through(
        self, pictures: UInt8[np.ndarray, "E height width 3"], frames: Integer[np.ndarray, " E"],
        episodes: Integer[np.ndarray, " E"],
    ) -> UInt8[np.ndarray, "E height width 3"]:  # fmt: skip
        """Pictures as the camera gives them: the light of the episode, and noise that depends on the frame alone."""
        if self.brightness:
            unit = (_mixed(episodes) >> np.uint64(11)).astype(np.float64) / 2**53
            light = 1 + self.brightness * (2 * unit - 1)
            pictures = np.clip(np.rint(pictures * light[:, None, None, None]), 0, 255).astype(np.uint8)
        if self.noise:
            height, width = pictures.shape[1:3]
            bank = self.noise_pictures(height, width)
            mixed = _mixed(frames)
            which = (mixed % np.uint64(len(bank))).astype(np.intp)
            down = ((mixed >> np.uint64(16)) % np.uint64(height)).astype(np.intp)
            right = ((mixed >> np.uint64(32)) % np.uint64(width)).astype(np.intp)
            rows, columns = down[:, None] + np.arange(height), right[:, None] + np.arange(width)
            noise = bank[which[:, None, None], rows[:, :, None], columns[:, None, :]]
            pictures = np.clip(pictures.astype(np.int16) + noise, 0, 255).astype(np.uint8)
        return pictures

    @cached_property
    def _banks(self) -> dict[tuple[int, int], np.ndarray]:
        return {}

    def noise_pictures(self, height: int, width: int) -> np.ndarray:
        """Noise pictures, laid out twice along both axes so that a shifted one is a window."""
        if (height, width) not in self._banks:
            rng = np.random.default_rng([self.seed, _NOISE])
            bank = rng.normal(0, 255 * self.noise, (NOISE_PICTURES, height, width, 3))
            self._banks[height, width] = np.tile(np.rint(bank).astype(np.int16), (1, 2, 2, 1))
        return self._banks[height, width]


def _interpolation(size: int, points: int) -> Float[np.ndarray, "size points"]:
    """Smooth interpolation between points that are TEXTURE_CELL pixels apart."""
    at = np.arange(size)[:, None] / TEXTURE_CELL - np.arange(points)
    near = np.clip(1 - np.abs(at), 0, 1)
    weights: np.ndarray = near * near * (3 - 2 * near)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _mixed(keys: Integer[np.ndarray, " E"]) -> np.ndarray:
    """64 well mixed bits of each key (the finaliser of splitmix64)."""
    x = keys.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))
