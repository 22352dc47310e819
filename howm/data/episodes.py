"""Episodes of random play: states, or the pictures of imported data, and the actions between them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Integer, Num, Shaped

from howm.errors import HowmError
from howm.worlds.changing import change_scene
from howm.worlds.scene_set import Scene, SceneSet, scene_of
from howm.worlds.sizes import sized
from howm.worlds.world import World

PARTS = ("train", "eval", "eval_seen")  # eval_seen: fresh evaluation episodes in training scenes


def _stream(seed: int, part: str) -> np.random.Generator:
    """Each part of a dataset has a random stream of its own; stream 0 is the split's."""
    return np.random.default_rng([seed, 1 + PARTS.index(part)])


@dataclass(frozen=True)
class Episodes:
    """Paths of equal length: T actions between T+1 frames.

    ``scene_ids`` and ``states`` are privileged: the truth that models may not see. Frames are drawn by the world from
    ``states``, or, of imported data, stand in ``pictures``; imported data may lack ids. ``moving`` is the rule by which
    they were played (see ``World.play``). Where scenes differ in size, smaller ones are filled up (see `sizes`); where
    objects change, ``scene_ids`` are those of the first frame, and ``frame_ids`` those of every frame.
    """

    actions: Integer[np.ndarray, "E T"]
    scene_ids: Integer[np.ndarray, "E K"] | None = None
    states: Num[np.ndarray, "E frames K F"] | None = None  # T+1 frames
    world: World | None = None
    pictures: Shaped[np.ndarray, "E frames height width 3"] | None = None  # uint8, or float32 in 0-1
    moving: float | None = 0.9
    frame_ids: Integer[np.ndarray, "E frames K"] | None = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def steps(self) -> int:
        return int(self.actions.shape[1])

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a picture."""
        if self.pictures is not None:
            height, width, channels = self.pictures.shape[2:]
            return height, width, channels
        world = self.state()[0]
        return world.height, world.width, 3

    @cached_property
    def scene_index(self) -> Integer[np.ndarray, " E"]:
        """A number for each episode that is equal for episodes of the same scene."""
        if self.scene_ids is None:
            return np.zeros(len(self), dtype=np.int64)
        return np.unique(self.scene_ids, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def frame_scenes(self) -> Integer[np.ndarray, "E frames"]:
        """A number for each frame that is equal for frames of the same scene."""
        if self.frame_ids is None:
            return np.repeat(self.scene_index[:, None], self.steps + 1, axis=1)
        flat = self.frame_ids.reshape(-1, self.frame_ids.shape[2])
        return np.unique(flat, axis=0, return_inverse=True)[1].reshape(self.frame_ids.shape[:2])

    @cached_property
    def changes(self) -> Bool[np.ndarray, "E T"]:
        """After which actions another object has come in."""
        return np.asarray(self.frame_scenes[:, 1:] != self.frame_scenes[:, :-1])

    @cached_property
    def scenes(self) -> frozenset[Scene]:
        """The scenes that are played in, where they are known."""
        ids = self.scene_ids if self.frame_ids is None else self.frame_ids.reshape(-1, self.frame_ids.shape[2])
        return frozenset() if ids is None else frozenset(map(scene_of, np.unique(ids, axis=0)))

    def ids_at(
        self, episode: Integer[np.ndarray, " B"], time: Integer[np.ndarray, " B"] | int
    ) -> Integer[np.ndarray, "B K"]:
        """Who is in the given episodes at the given times, where that is known."""
        if self.frame_ids is not None:
            return np.asarray(self.frame_ids[episode, time])
        assert self.scene_ids is not None
        return np.asarray(self.scene_ids[episode])

    def observe(
        self, episode: Integer[np.ndarray, " B"], time: Integer[np.ndarray, " B"] | int
    ) -> Shaped[np.ndarray, "B height width 3"]:
        """Pictures of the given episodes at the given times."""
        if self.pictures is not None:
            return np.asarray(self.pictures[episode, time])
        world, _, states = self.state()
        return world.render(self.ids_at(episode, time), states[episode, time])

    def state(self) -> tuple[World, Integer[np.ndarray, "E K"], Num[np.ndarray, "E frames K F"]]:
        """World, scene ids and states of data that has states."""
        if self.world is None or self.scene_ids is None or self.states is None:
            raise HowmError("imported pixel data has no states; make data with `howm data make` for this")
        return sized(self.world, self.scene_ids), self.scene_ids, self.states

    def select(self, episodes: Integer[np.ndarray, " rows"]) -> "Episodes":
        """Some of the episodes."""

        def rows(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else array[episodes]

        return Episodes(
            self.actions[episodes],
            rows(self.scene_ids),
            rows(self.states),
            self.world,
            rows(self.pictures),
            self.moving,
            rows(self.frame_ids),
        )

    def subsample(self, count: int) -> "Episodes":
        """So many of the episodes, spread evenly over the scenes."""
        return self.select(self.spread(count))

    def spread(self, count: int, name: str = "episodes") -> Integer[np.ndarray, " {count}"]:
        """So many rows, spread evenly over the scenes; ``name`` is what an error calls their number."""
        if not 0 < count <= len(self):
            raise HowmError(f"{name}={count} are more than the {len(self)} of the data; give 1 to {len(self)}")
        by_scene = np.argsort(self.scene_index, kind="stable")
        return np.sort(by_scene[np.arange(count) * len(self) // count])


def collect(
    world: World,
    scenes: SceneSet,
    episodes: int,
    steps: int,
    rng: np.random.Generator,
    moving: float | None = 0.9,
    *,
    changing: bool = False,
    width: int | None = None,
) -> Episodes:
    """Random play, spread over the scenes as evenly as the number of episodes allows.

    With ``changing``, objects change at the world's rate, within ``scenes``; ``width`` is K where it is larger than
    that of the scenes.
    """
    scene_ids = scenes.to_array(width)[np.arange(episodes) * len(scenes) // episodes]
    many = sized(world, scene_ids)
    start = many.reset(scene_ids, rng)
    if changing and world.change_rate:
        return _collect_changing(world, scenes, scene_ids, start, steps, moving, rng)
    states, actions = many.play(scene_ids, start, steps, moving, rng)
    return Episodes(actions, scene_ids, states, world, moving=moving)


def _collect_changing(
    world: World, scenes: SceneSet, scene_ids: Integer[np.ndarray, "E K"], start: Num[np.ndarray, "E K F"],
    steps: int, moving: float | None, rng: np.random.Generator,
) -> Episodes:  # fmt: skip
    """Step by step, with changes in between."""
    many, ids, states, actions = sized(world, scene_ids), [scene_ids], [start], []
    for _ in range(steps):
        played, action = many.play(ids[-1], states[-1], 1, moving, rng)
        following, after = ids[-1].copy(), played[:, 1].copy()
        for row in np.flatnonzero(rng.random(len(ids[0])) < world.change_rate):
            following[row], after[row] = change_scene(world, following[row], after[row], scenes, rng)
        ids.append(following)
        states.append(after)
        actions.append(action[:, 0])
    return Episodes(
        np.stack(actions, axis=1), scene_ids, np.stack(states, axis=1), world, None, moving, np.stack(ids, axis=1)
    )
