"""Object replacement σ ∈ Σ_N (Section 4.2)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Integer, Num

from howm.errors import HowmError
from howm.worlds.scene_set import Scene, as_scene


@dataclass(frozen=True)
class Replacement:
    """σ: object i is replaced by object ``image[i]``. ``(a @ b)(i)`` is ``a(b(i))``."""

    image: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", tuple(int(i) for i in self.image))
        if sorted(self.image) != list(range(self.n)):
            raise HowmError(f"{self.image} must be a permutation; give each of 0-{self.n - 1} once")

    @classmethod
    def identity(cls, n: int) -> "Replacement":
        return cls(tuple(range(n)))

    @classmethod
    def random(cls, n: int, rng: np.random.Generator) -> "Replacement":
        return cls(tuple(rng.permutation(n).tolist()))

    @classmethod
    def from_cycles(cls, n: int, *cycles: Iterable[int]) -> "Replacement":
        """Disjoint cycles, counted from 0: the paper's (1 2 3)(4 5) is ``from_cycles(5, (0, 1, 2), (3, 4))``."""
        image, seen = list(range(n)), set[int]()
        for cycle in map(tuple, cycles):
            if seen.intersection(cycle) or len(set(cycle)) < len(cycle) or not set(cycle) <= set(range(n)):
                raise HowmError(f"the cycle {cycle} repeats an object or leaves 0-{n - 1}; give disjoint cycles")
            seen.update(cycle)
            for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True):
                image[i] = j
        return cls(tuple(image))

    @property
    def n(self) -> int:
        return len(self.image)

    @cached_property
    def inverse(self) -> "Replacement":
        return Replacement(tuple(np.argsort(self.image).tolist()))

    def __matmul__(self, other: "Replacement") -> "Replacement":
        if self.n != other.n:
            raise HowmError(f"replacements of {self.n} and {other.n} objects cannot be composed")
        return Replacement(tuple(self.image[i] for i in other.image))

    def __str__(self) -> str:
        cycles, left = [], set(range(self.n))
        while left:
            cycle = [min(left)]
            while (following := self.image[cycle[-1]]) != cycle[0]:
                cycle.append(following)
            left.difference_update(cycle)
            cycles.append(cycle)
        return "".join(f"({' '.join(map(str, cycle))})" for cycle in cycles if len(cycle) > 1) or "()"

    def __call__(self, ids: Integer[np.ndarray, "*shape"]) -> Integer[np.ndarray, "*shape"]:
        """p_L: what each library object is replaced by."""
        return np.asarray(np.asarray(self.image)[ids])

    def scene(self, scene: Iterable[int]) -> Scene:
        """p_K: the set of objects that take the places of a scene's, ascending."""
        return as_scene(self.image[i] for i in scene)

    def states(
        self, scene_ids: Integer[np.ndarray, "B K"], states: Num[np.ndarray, "B K *F"]
    ) -> tuple[Integer[np.ndarray, "B K"], Num[np.ndarray, "B K *F"]]:
        """σ.s as ascending ids and their states: object σ(j) takes over what is true of j."""
        ids = self(scene_ids)
        order = ids.argsort(axis=1)
        return np.take_along_axis(ids, order, axis=1), states[np.arange(len(ids))[:, None], order]

    def actions(
        self,
        actions: Integer[np.ndarray, "*shape"],
        headings: Integer[np.ndarray, " N"] | None = None,
        per_object: int = 4,
    ) -> Integer[np.ndarray, "*shape"]:
        """σ.a: the action of object σ(i) in the same absolute direction, given the library's headings; without them,
        the one of the same number, which is what a permutation of latent slots carries along."""
        objects, number = np.divmod(np.asarray(actions, dtype=np.int64), per_object)
        replaced = self(objects)
        if headings is not None:
            turn = headings.astype(np.int64)
            number = (number + turn[objects] - turn[replaced]) % per_object
        return per_object * replaced + number
