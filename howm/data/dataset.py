"""A dataset: episodes of training and evaluation, made in the scenes of a split."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from howm.data.certificate import dynamics_violations, empty_parts, pool_violations, scene_violations
from howm.data.episodes import PARTS, Episodes, _stream, collect
from howm.errors import HowmError, require_int
from howm.worlds.registry import WORLDS, make_world
from howm.worlds.scene_set import SceneSet
from howm.worlds.scenes import SceneSplit
from howm.worlds.sizes import read_sizes
from howm.worlds.spec import WorldSpec
from howm.worlds.splits import SplitKind, default_split, make_split
from howm.worlds.world import World


@dataclass(frozen=True)
class Amounts:
    """How much data to make; the defaults are the paper's (Section 6.1).

    Without ``train_episodes`` there are 1,000, or two for each training scene where that is more.
    """

    train_episodes: int | None = None
    train_steps: int = 100
    eval_episodes: int = 10_000
    eval_steps: int = 10
    moving: float | None = 0.9

    def __post_init__(self) -> None:
        for name in ("train_episodes", "train_steps", "eval_episodes", "eval_steps"):
            if getattr(self, name) is not None:
                require_int(name, getattr(self, name), 1)
        if self.moving is not None and not 0 <= self.moving <= 1:
            raise HowmError(f"moving, a share of transitions, must be in [0, 1], got {self.moving}")


@dataclass(frozen=True)
class Dataset:
    """Training episodes, evaluation episodes in unseen scenes, and as many in training scenes to compare with.

    Imported pixel data has a name but no world, and no split where it does not name its objects.
    """

    world_name: str
    n: int
    k: int
    train: Episodes
    eval: Episodes
    eval_seen: Episodes
    seed: int = 0
    moving: float | None = 0.9
    split: SceneSplit | None = None
    world: World | None = None
    cell_pixels: int | None = 10  # of imported pictures; a world knows its own

    def __post_init__(self) -> None:
        if self.world is not None:
            object.__setattr__(self, "cell_pixels", self.world.cell_pixels)
            if self.world.n != self.n:
                raise HowmError(f"a world of {self.world.n} objects is not one of n={self.n}")

    @property
    def spec(self) -> WorldSpec:
        """What a model may know of the world."""
        if self.world is not None:
            ids = self.train.scene_ids
            return replace(self.world.spec(self.k), varied_count=ids is not None and bool((ids < 0).any()))
        return WorldSpec(self.n, self.k, *self.train.picture_shape[:2], self.cell_pixels)

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
                "violations": list(empty_parts(self)) or list(pool_violations(self)),
            }
        certificate = self.split.certificate()
        train, evaluation = self.split.train.scenes, self.split.eval.scenes
        shared = self.train.scenes.union(train) & self.eval.scenes.union(evaluation)
        certificate["unseen"] = self.split.unseen_label(shared)
        certificate["violations"] += list(empty_parts(self)) or [
            *scene_violations(self),
            *pool_violations(self),
            *dynamics_violations(self),
        ]
        return certificate


def make_dataset(
    world: str | World,
    n: int | None = None,
    k: int | str | range | None = None,
    seed: int = 0,
    *,
    library_seed: int = 0,
    amounts: Amounts | None = None,
    train_scenes: int | None = None,
    eval_scenes: int | None = None,
    consecutive: bool = False,
    split: SplitKind | None = None,
    eval_k: int | str | range | None = None,
    **settings: Any,
) -> Dataset:
    """Draw a split and collect random play in its scenes; the same arguments give the same data.

    ``world`` is a world, or a name, of which ``n``, ``library_seed`` and the settings (such as ``grid``) make one.
    ``k`` may be a range of sizes, such as "3-7". ``split`` is a kind of `splits`, by default scenes, linked where
    objects change, or larger-k where ``eval_k`` gives the sizes of evaluation scenes.
    """
    amounts = amounts or Amounts()
    if isinstance(world, str):  # first: it refuses an n for which a split takes for ever
        world = make_world(world, 10 if n is None else n, library_seed, **settings)
    elif settings or library_seed or n not in (None, world.n):
        raise HowmError(f"{world!r} is made already; leave out n, library_seed and settings, or give a name")
    sizes, larger = read_sizes(world.default_k if k is None else k), None if eval_k is None else read_sizes(eval_k)
    for some in (sizes, larger or sizes):
        world.check_scene_size(some[-1])
    chosen = make_split(
        split or default_split(world, larger), world.n, sizes, seed, larger,
        train_scenes=train_scenes, eval_scenes=eval_scenes, consecutive=consecutive,
    )  # fmt: skip
    scenes = len(chosen.train)
    train_episodes = max(1_000, 2 * scenes) if amounts.train_episodes is None else amounts.train_episodes
    if train_episodes < scenes:
        raise HowmError(
            f"train_episodes={train_episodes} leaves some of the {scenes} training scenes without "
            f"data; give {scenes} or more, or fewer train_scenes"
        )
    if world.change_rate and not any(chosen.train.neighbours(scene) for scene in chosen.train.scenes):
        raise HowmError(
            f"the split {chosen.kind} has no training scenes that differ in one object, so none can change; use linked"
        )
    # Pools of equal size and equally many frames per scene, or the gap between them would be biased.
    compared = min(scenes, len(chosen.eval), amounts.eval_episodes)
    if chosen.kind == "minimal":  # which has too few training scenes for that
        compared = amounts.eval_episodes

    def evaluation(name: str, scenes: SceneSet) -> Episodes:
        some = replace(scenes, scenes=scenes.scenes[:compared])
        rng = _stream(seed, name)
        return collect(world, some, amounts.eval_episodes, amounts.eval_steps, rng, amounts.moving, width=chosen.k)

    return Dataset(
        WORLDS.name_of(type(world)),
        world.n,
        chosen.k,
        train=collect(
            world,
            chosen.train,
            train_episodes,
            amounts.train_steps,
            _stream(seed, "train"),
            amounts.moving,
            changing=True,
            width=chosen.k,
        ),
        eval=evaluation("eval", chosen.eval),
        eval_seen=evaluation("eval_seen", chosen.train),
        seed=seed,
        moving=amounts.moving,
        split=chosen,
        world=world,
    )
