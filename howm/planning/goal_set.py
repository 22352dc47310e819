"""A set of goals: other arrangements of the objects of scenes, and how many steps perfect play needs."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Integer, Num

from howm.errors import HowmError
from howm.worlds.registry import WORLDS
from howm.worlds.sizes import sized
from howm.worlds.world import Pictures, States, World

Part = Literal["unseen", "training"]
PARTS = ("unseen", "training")
BUCKETS = {"1-5": (1, 5), "6-10": (6, 10), "11-20": (11, 20), "21-40": (21, 40)}  # optimal steps, first and last
ARRAYS = ("scenes", "start", "goal", "optimal", "exact", "detour")


def bucket_range(name: str) -> tuple[int, int]:
    """The first and last number of optimal steps of a bucket."""
    if name not in BUCKETS:
        raise HowmError(f"unknown bucket {name!r} of optimal steps; choose one of {', '.join(BUCKETS)}")
    return BUCKETS[name]


@dataclass(frozen=True, eq=False)
class GoalSet:
    """G goals in scenes of one world. Axes: G goals, K objects of a scene, F numbers of an object.

    ``optimal`` is the number of steps of a shortest plan where ``exact``, else of the shortest one that was found.
    ``detour``: on every way to the goal some step does not bring the objects nearer to their places, in summed distance
    (by rows and columns). Where objects only block each other, this says that ``optimal`` exceeds summed distances.
    """

    world: World
    scenes: Integer[np.ndarray, "G K"]
    start: Num[np.ndarray, "G K F"]
    goal: Num[np.ndarray, "G K F"]
    optimal: Integer[np.ndarray, " G"]
    exact: Bool[np.ndarray, " G"]
    detour: Bool[np.ndarray, " G"]
    part: Part
    seed: int

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise HowmError(f"part must be unseen or training, got {self.part!r}")
        if len({len(getattr(self, name)) for name in ARRAYS}) > 1 or self.start.shape != self.goal.shape:
            raise HowmError("a set of goals needs as many scenes, starts, goals and lengths")

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def k(self) -> int:
        """Objects of the largest scene; smaller ones are filled up with -1."""
        return int(self.scenes.shape[1])

    @property
    def world_name(self) -> str:
        return WORLDS.name_of(type(self.world))

    @property
    def simulator(self) -> World:
        """The world, able to step and draw scenes of several sizes where there are such."""
        return sized(self.world, self.scenes)

    def subset(self, index: np.ndarray | slice) -> "GoalSet":
        """Some of the goals: by numbers, by a mask or by a slice."""
        return replace(self, **{name: getattr(self, name)[index] for name in ARRAYS})

    def bucket(self, name: str) -> "GoalSet":
        """The goals of "1-5", "6-10", "11-20" or "21-40" optimal steps."""
        least, most = bucket_range(name)
        return self.subset((self.optimal >= least) & (self.optimal <= most))

    def bucket_of(self) -> list[str]:
        """The bucket of each goal; one of more than 40 steps is in none, "40+"."""
        found = np.full(len(self), "40+", dtype=object)
        for name, (least, most) in BUCKETS.items():
            found[(self.optimal >= least) & (self.optimal <= most)] = name
        return [str(name) for name in found]

    def start_pictures(self) -> Pictures:
        return self.simulator.render(self.scenes, self.start)

    def goal_pictures(self) -> Pictures:
        return self.simulator.render(self.scenes, self.goal)

    def reached(self, states: States) -> Bool[np.ndarray, " G"]:
        """Which of these states, one for each goal, are the goal by the world's ``state_key``.

        On a grid that is the same arrangement. In free space it is the same to a thousandth of a pixel: moves are of
        one step or none, so a plan arrives exactly or misses by a step or more.
        """
        if states.shape != self.goal.shape:
            raise HowmError(f"states must be {self.goal.shape}, one for each goal, got {states.shape}")
        keys = (self.simulator.state_key(self.scenes, one) for one in (states, self.goal))
        return np.asarray(np.equal(*keys).all(axis=1))

    def summary(self) -> dict[str, Any]:
        """How many goals each bucket has, how many need a detour, and whose optimal length is exact."""
        buckets = {name: self.bucket(name) for name in BUCKETS}
        counts = {
            name: {"goals": len(some), "detours": int(some.detour.sum()), "exact": int(some.exact.sum())}
            for name, some in buckets.items()
        }
        return {"world": self.world_name, "n": self.world.n, "k": self.k, "part": self.part, "seed": self.seed,
                "buckets": counts}  # fmt: skip
