"""Goals: another arrangement of the objects of a scene, with the number of steps that perfect play needs."""

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Integer, Num

from howm.worlds.scene_set import SceneSet
from howm.worlds.sizes import sized
from howm.worlds.world import Pictures, States, World

Part = Literal["unseen", "training"]
BUCKETS = {"1-5": (1, 5), "6-10": (6, 10), "11-20": (11, 20), "21-40": (21, 40)}  # optimal steps, first and last


@dataclass(frozen=True, eq=False)
class GoalSet:
    """G goals in scenes of one world. Axes: G goals, K objects of a scene, F numbers of an object.

    ``optimal`` is the number of steps of a shortest plan where ``exact``, else of the shortest plan that was found.
    ``detour``: on every way to the goal some step does not bring the objects nearer to their places, in summed distance
    (city blocks). Where objects only block each other, this says that ``optimal`` exceeds the summed distances.
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

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def k(self) -> int:
        """Objects of the largest scene; smaller ones are filled up with -1."""
        return self.scenes.shape[1]

    def subset(self, index: np.ndarray | slice) -> "GoalSet":
        """Some of the goals: by numbers, by a mask or by a slice."""
        rows = (getattr(self, name)[index] for name in ("scenes", "start", "goal", "optimal", "exact", "detour"))
        return GoalSet(self.world, *rows, part=self.part, seed=self.seed)

    def bucket(self, name: str) -> "GoalSet":
        """The goals of "1-5", "6-10", "11-20" or "21-40" optimal steps."""
        least, most = BUCKETS[name]
        return self.subset((self.optimal >= least) & (self.optimal <= most))

    def start_pictures(self) -> Pictures:
        return sized(self.world, self.scenes).render(self.scenes, self.start)

    def goal_pictures(self) -> Pictures:
        return sized(self.world, self.scenes).render(self.scenes, self.goal)

    def reached(self, states: States) -> Bool[np.ndarray, " G"]:
        """Which of these states, one for each goal, are the goal's arrangement by the world's ``state_key``."""
        world = sized(self.world, self.scenes)
        keys = (world.state_key(self.scenes, one) for one in (states, self.goal))
        return np.asarray(np.equal(*keys).all(axis=1))


def make_goals(
    world: World, scenes: SceneSet, *, per_bucket: int = 125, part: Part = "unseen", seed: int = 0
) -> GoalSet:
    """Goals in these scenes, as many for each bucket of optimal length."""
    raise NotImplementedError


def save_goals(goals: GoalSet, path: str | os.PathLike[str]) -> None:
    raise NotImplementedError


def load_goals(path: str | os.PathLike[str]) -> GoalSet:
    raise NotImplementedError
