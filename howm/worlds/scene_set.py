"""Sets of scenes, each a few objects of a library."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import SupportsIndex

import numpy as np
from jaxtyping import Integer

from howm.errors import HowmError

Scene = tuple[int, ...]  # K ids of library objects, ascending


def as_scene(ids: Iterable[SupportsIndex]) -> Scene:
    return tuple(sorted(int(i) for i in ids))


def scene_of(row: Integer[np.ndarray, " k"]) -> Scene:
    """The scene of a row of ids that -1 may fill up at the end."""
    return as_scene(row[row >= 0])


@dataclass(frozen=True)
class SceneSet:
    """Distinct scenes from a library of N, in the order in which they were drawn.

    They have K objects each, or, where ``k_min`` is given, from ``k_min`` to K.
    """

    n: int
    k: int
    scenes: tuple[Scene, ...]
    k_min: int | None = None

    def __post_init__(self) -> None:
        # One spelling per scene, or two sets could share a scene unnoticed.
        object.__setattr__(self, "scenes", tuple(as_scene(scene) for scene in self.scenes))
        if self.k_min == self.k:
            object.__setattr__(self, "k_min", None)
        for scene in self.scenes:
            fits = len(scene) in self.sizes and len(set(scene)) == len(scene)
            if not fits or not 0 <= min(scene) <= max(scene) < self.n:
                size = f"{self.k}" if self.k_min is None else f"{self.k_min} to {self.k}"
                raise HowmError(f"scene {scene} is not {size} different objects of a library of {self.n}")

    @property
    def sizes(self) -> range:
        """How many objects a scene may have."""
        return range(self.k if self.k_min is None else self.k_min, self.k + 1)

    @cached_property
    def _members(self) -> frozenset[Scene]:
        return frozenset(self.scenes)

    def contains(self, scene: Iterable[SupportsIndex]) -> bool:
        """Whether these objects, in any order, are one of the scenes."""
        return as_scene(scene) in self._members

    def neighbours(self, scene: Scene) -> list[Scene]:
        """The scenes of the set that one replaced object makes of a scene."""
        others = [i for i in range(self.n) if i not in scene]
        made = (as_scene(new if i == old else i for i in scene) for old in scene for new in others)
        return [found for found in made if found in self._members]

    def __len__(self) -> int:
        return len(self.scenes)

    def __or__(self, other: "SceneSet") -> "SceneSet":
        return self._with(dict.fromkeys(self.scenes + other.scenes), other)

    def __and__(self, other: "SceneSet") -> "SceneSet":
        return self._with([scene for scene in self.scenes if other.contains(scene)], other)

    def __sub__(self, other: "SceneSet") -> "SceneSet":
        return self._with([scene for scene in self.scenes if not other.contains(scene)], other)

    def _with(self, scenes: Iterable[Scene], other: "SceneSet") -> "SceneSet":
        if self.n != other.n:
            raise HowmError(f"sets of n={self.n} and of n={other.n} objects cannot be combined")
        sizes = [*self.sizes, *other.sizes]
        return SceneSet(self.n, max(sizes), tuple(scenes), min(sizes))

    def to_array(self, width: int | None = None) -> Integer[np.ndarray, "scenes width"]:
        """Ids, scene by scene; smaller scenes are filled up with -1 at the end."""
        ids = np.full((len(self), width or self.k), -1, dtype=np.int64)
        for row, scene in zip(ids, self.scenes, strict=True):
            row[: len(scene)] = scene
        return ids

    @classmethod
    def from_array(cls, n: int, ids: Integer[np.ndarray, "scenes k"]) -> "SceneSet":
        sizes = (ids >= 0).sum(axis=1)
        return cls(n, ids.shape[1], tuple(map(scene_of, ids)), int(sizes.min(initial=ids.shape[1])))

    def counts(self) -> Integer[np.ndarray, "n"]:
        """In how many scenes each object stands."""
        ids = self.to_array().ravel()
        return np.bincount(ids[ids >= 0], minlength=self.n)


def interleave(groups: list[tuple[Scene, ...]]) -> tuple[Scene, ...]:
    """One scene of each group in turn."""
    rounds = zip_longest(*groups)
    return tuple(scene for some in rounds for scene in some if scene is not None)
