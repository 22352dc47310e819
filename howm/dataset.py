"""Episodes of random play, and the dataset file that holds them with library, split, certificate and seeds.

A frame is stored as its state (K cells, a few bytes); pictures are rendered on load. Imported pixel data keeps its
pictures and goes through the same classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from howm.errors import HowmError, whole
from howm.grid import Grid, random_walk
from howm.library import ObjectLibrary
from howm.render import Renderer
from howm.scenes import Scene, SceneSet, SceneSplit, as_scene, seeded_split

PARTS = ("train", "eval", "eval_seen")  # eval_seen: fresh evaluation episodes in training scenes


def _stream(seed: int, part: str) -> np.random.Generator:
    """Each part of a dataset has a random stream of its own; stream 0 is the split's."""
    return np.random.default_rng([seed, 1 + PARTS.index(part)])


@dataclass(frozen=True)
class Episodes:
    """Paths of equal length: T actions between T+1 frames.

    ``scene_ids`` and ``cells`` are privileged: the truth that models may not see. Frames come from ``cells`` and a
    renderer, or, for imported data, from ``pictures``; imported data may lack ids. ``moving`` is the rule by which they
    were played (see ``random_walk``).
    """

    actions: Int[np.ndarray, "E T"]
    scene_ids: Int[np.ndarray, "E K"] | None = None
    cells: Int[np.ndarray, "E T+1 K"] | None = None
    renderer: Renderer | None = None
    pictures: np.ndarray | None = None  # (E, T+1, height, width, 3), uint8, or float32 in 0-1
    moving: float | None = 0.9

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
        return self.state()[0].shape

    @cached_property
    def scene_index(self) -> Int[np.ndarray, "E"]:
        """A number for each episode that is equal for episodes of the same scene."""
        if self.scene_ids is None:
            return np.zeros(len(self), dtype=np.int64)
        return np.unique(self.scene_ids, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def scenes(self) -> frozenset[Scene]:
        """The scenes that are played in, where they are known."""
        return frozenset() if self.scene_ids is None else frozenset(map(as_scene, np.unique(self.scene_ids, axis=0)))

    def observe(self, episode: Int[np.ndarray, "frames"], time: Int[np.ndarray, "frames"] | int) -> np.ndarray:
        """Pictures (frames, height, width, 3) of the given episodes at the given times."""
        if self.pictures is not None:
            return np.asarray(self.pictures[episode, time])
        renderer, scene_ids, cells = self.state()
        return renderer.render(scene_ids[episode], cells[episode, time])

    def state(self) -> tuple[Renderer, Int[np.ndarray, "E K"], Int[np.ndarray, "E T+1 K"]]:
        """Renderer, scene ids and cells of data that has states."""
        if self.renderer is None or self.scene_ids is None or self.cells is None:
            raise HowmError("imported pixel data has no states; make data with `howm data make` for this")
        return self.renderer, self.scene_ids, self.cells

    def select(self, episodes: Int[np.ndarray, "some"]) -> "Episodes":
        """Some of the episodes."""

        def rows(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else array[episodes]

        return Episodes(
            self.actions[episodes],
            rows(self.scene_ids),
            rows(self.cells),
            self.renderer,
            rows(self.pictures),
            self.moving,
        )

    def some(self, count: int) -> "Episodes":
        """So many of the episodes, spread evenly over the scenes."""
        if not 0 < count <= len(self):
            raise HowmError(f"episodes={count} are more than the {len(self)} of the data; give 1 to {len(self)}")
        by_scene = np.argsort(self.scene_index, kind="stable")
        return self.select(np.sort(by_scene[np.arange(count) * len(self) // count]))


def collect(
    renderer: Renderer,
    scenes: SceneSet,
    episodes: int,
    steps: int,
    rng: np.random.Generator,
    moving: float | None = 0.9,
) -> Episodes:
    """Random play, spread over the scenes as evenly as the number of episodes allows."""
    scene_ids = scenes.to_array()[np.arange(episodes) * len(scenes) // episodes]
    headings = renderer.library.headings[scene_ids]
    start = renderer.grid.place(rng, episodes, scenes.k)
    cells, slots, directions = random_walk(renderer.grid, headings, start, steps, moving, rng)
    actions = np.take_along_axis(scene_ids, slots.astype(np.int64), axis=1) * 4 + directions
    return Episodes(actions, scene_ids, cells, renderer, moving=moving)


@dataclass(frozen=True)
class Amounts:
    """How much data to make; the defaults are the paper's (Section 6.1)."""

    train_episodes: int = 1_000
    train_steps: int = 100
    eval_episodes: int = 10_000
    eval_steps: int = 10
    moving: float | None = 0.9

    def __post_init__(self) -> None:
        for name in ("train_episodes", "train_steps", "eval_episodes", "eval_steps"):
            whole(name, getattr(self, name), 1)
        if self.moving is not None and not 0 <= self.moving <= 1:
            raise HowmError(f"moving={self.moving} is no share of transitions; give a number from 0 to 1")


@dataclass(frozen=True)
class Dataset:
    """Training episodes, evaluation episodes in unseen scenes, and as many in training scenes to compare with.

    Imported pixel data has no renderer, and no split where it does not name its objects.
    """

    world: str
    n: int
    k: int
    train: Episodes
    eval: Episodes
    eval_seen: Episodes
    seed: int = 0
    moving: float | None = 0.9
    split: SceneSplit | None = None
    renderer: Renderer | None = None
    cell_pixels: int = 10

    def __post_init__(self) -> None:
        if self.renderer is not None and self.renderer.cell_pixels != self.cell_pixels:
            raise HowmError(f"cell_pixels={self.cell_pixels} is not the renderer's {self.renderer.cell_pixels}")

    @property
    def library(self) -> ObjectLibrary | None:
        return None if self.renderer is None else self.renderer.library

    def part(self, name: str) -> Episodes:
        if name not in PARTS:
            raise HowmError(f"unknown part {name!r} of a dataset; choose one of {', '.join(PARTS)}")
        return getattr(self, name)  # type: ignore[no-any-return]

    def parts(self) -> Iterator[tuple[str, Episodes]]:
        for name in PARTS:
            yield name, self.part(name)

    def certificate(self) -> dict[str, Any]:
        """The split's certificate and the rules that the episodes themselves must keep."""
        if self.split is None:
            return {
                "n": self.n,
                "k": self.k,
                "unseen": "unknown: the imported data names no objects",
                "hash": None,
                "violations": list(_empty_parts(self)) or list(_pool_violations(self)),
            }
        certificate = self.split.certificate()
        train, evaluation = self.split.train.scenes, self.split.eval.scenes
        shared = self.train.scenes.union(train) & self.eval.scenes.union(evaluation)
        certificate["unseen"] = self.split.unseen_label(shared)
        certificate["violations"] += list(_empty_parts(self)) or [
            *_scene_violations(self),
            *_pool_violations(self),
            *_dynamics_violations(self),
        ]
        return certificate


def make_dataset(
    world: str,
    n: int,
    k: int,
    seed: int = 0,
    *,
    library_seed: int = 0,
    grid: Grid | None = None,
    cell_pixels: int = 10,
    amounts: Amounts | None = None,
    train_scenes: int | None = None,
    eval_scenes: int | None = None,
    consecutive: bool = False,
) -> Dataset:
    """Draw a split and collect random play in its scenes; the same arguments give the same data."""
    grid, amounts = grid or Grid(), amounts or Amounts()
    library = ObjectLibrary.make(world, n, library_seed)  # first: it refuses an n for which a split takes for ever
    grid.check_room(whole("k", k, 1))
    split = seeded_split(n, k, seed, train_scenes=train_scenes, eval_scenes=eval_scenes, consecutive=consecutive)
    renderer = Renderer(library, grid, cell_pixels)
    if amounts.train_episodes < len(split.train):
        raise HowmError(
            f"train_episodes={amounts.train_episodes} leaves some of the {len(split.train)} training scenes without "
            f"data; give {len(split.train)} or more, or fewer train_scenes"
        )
    # Pools of equal size and equally many frames per scene, or the gap between them would be biased.
    compared = min(len(split.train), len(split.eval), amounts.eval_episodes)

    def evaluation(name: str, scenes: SceneSet) -> Episodes:
        some = replace(scenes, scenes=scenes.scenes[:compared])
        return collect(renderer, some, amounts.eval_episodes, amounts.eval_steps, _stream(seed, name), amounts.moving)

    return Dataset(
        world,
        n,
        k,
        train=collect(
            renderer,
            split.train,
            amounts.train_episodes,
            amounts.train_steps,
            _stream(seed, "train"),
            amounts.moving,
        ),
        eval=evaluation("eval", split.eval),
        eval_seen=evaluation("eval_seen", split.train),
        seed=seed,
        moving=amounts.moving,
        split=split,
        renderer=renderer,
        cell_pixels=cell_pixels,
    )


def _empty_parts(dataset: Dataset) -> Iterator[str]:
    for name, episodes in dataset.parts():
        if not episodes.actions.size:
            yield f"emptiness: the part {name} has {len(episodes)} episodes of {episodes.steps} steps"


def _scene_violations(dataset: Dataset) -> Iterator[str]:
    assert dataset.split is not None
    for name, episodes in dataset.parts():
        if episodes.scene_ids is None:
            continue
        scenes = dataset.split.eval if name == "eval" else dataset.split.train
        foreign = sorted(scene for scene in episodes.scenes if not scenes.contains(scene))
        if foreign:
            yield f"scenes: {len(foreign)} scenes of the part {name} are not in its set, e.g. {foreign[0]}"
        if name == "train" and len(episodes.scenes) < len(scenes):
            yield f"scenes: {len(scenes) - len(episodes.scenes)} training scenes have no episode"
        if name != "eval_seen" and np.ptp(np.bincount(episodes.scene_index)) > 1:
            yield f"scenes: the part {name} has more episodes in some scenes than in others"


def _pool_violations(dataset: Dataset) -> Iterator[str]:
    """More references, or more of them in one scene, are harder to rank among: unequal pools would bias the gap."""
    pools = (dataset.eval, dataset.eval_seen)
    sizes = [sorted(np.bincount(pool.scene_index)) for pool in pools]
    if sizes[0] != sizes[1] or pools[0].steps != pools[1].steps:
        yield "pools: evaluation in unseen and in training scenes differs in episodes, scenes or steps"


def _dynamics_violations(dataset: Dataset) -> Iterator[str]:
    """Every stored transition must be what the world does."""
    for name, episodes in dataset.parts():
        if episodes.cells is None:
            continue
        renderer, scene_ids, cells = episodes.state()
        grid = renderer.grid
        arrangement = np.sort(cells.reshape(-1, dataset.k), axis=1)
        if cells.max(initial=0) >= grid.cell_count or (arrangement[:, 1:] == arrangement[:, :-1]).any():
            yield f"cells: objects of the part {name} share a cell or stand outside the grid"
            continue  # the world says nothing of such states
        before, after = cells[:, :-1].reshape(-1, dataset.k), cells[:, 1:].reshape(-1, dataset.k)
        every_scene = np.repeat(scene_ids, episodes.steps, axis=0)
        expected, _, absent = grid.act(renderer.library.headings, every_scene, before, episodes.actions.ravel())
        wrong = int((expected != after).any(axis=1).sum())
        if wrong:
            yield f"dynamics: {wrong} transitions of the part {name} are not what the world does"
        if absent.any():
            yield f"actions: {int(absent.sum())} actions of the part {name} are of absent objects"
