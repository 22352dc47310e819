"""What is explored: a world, one or two models of it, and the scenes that can be played."""

from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Num

from howm.data.episodes import Episodes
from howm.errors import HowmError, short
from howm.evaluation.episodes import EvaluationData, stored_episodes
from howm.explorer.places import moves_of, sprite
from howm.explorer.subject import Sight, Subject
from howm.models.world_model import WorldModel
from howm.runs.checkpoint import Checkpoint, load_checkpoint
from howm.runs.locate import find_checkpoint, rebuild
from howm.runs.provenance import training_world, world_title
from howm.worlds.scene_set import Scene, SceneSet, as_scene, scene_of
from howm.worlds.scenes import draw_unseen
from howm.worlds.world import World

LARGEST_SCENE = 25  # objects that a page is still clear with
KINDS = ("unseen", "training")


@dataclass(frozen=True)
class Stage:
    """``stored`` are episodes of a dataset, whose scenes and starts are shown instead of new ones where they fit."""

    world: World
    title: str
    subjects: tuple[Subject, ...]
    moving: float | None = 0.9
    stored: EvaluationData | None = None
    _moves: dict[int, list[list[float] | None]] = field(default_factory=dict)

    @cached_property
    def known(self) -> dict[int, SceneSet]:
        """By size, the scenes that some part of some model was trained on."""
        found: dict[int, set[Scene]] = {}
        for subject in self.subjects:
            for scene in () if subject.training_scenes is None else subject.training_scenes.scenes:
                found.setdefault(len(scene), set()).add(scene)
        return {k: SceneSet(self.world.n, k, tuple(sorted(scenes))) for k, scenes in found.items()}

    @cached_property
    def sizes(self) -> list[int]:
        """The sizes of scenes that the world has room for and every model can take."""
        largest = max(LARGEST_SCENE, self.size)
        return [k for k in range(1, min(self.world.n, largest) + 1) if self._fits(k)]

    def _fits(self, k: int) -> bool:
        try:
            self.world.check_scene_size(k)
        except HowmError:
            return False
        return all(subject.takes(k) for subject in self.subjects)

    @property
    def size(self) -> int:
        """How many objects scenes have unless another size is asked for."""
        return self.subjects[0].trained_sizes[-1]

    def training_scenes(self, k: int) -> list[Scene]:
        """The scenes of k objects that the first model was trained on."""
        known = self.subjects[0].training_scenes
        return [] if known is None else [scene for scene in known.scenes if len(scene) == k]

    def unseen_exists(self, k: int) -> bool:
        return comb(self.world.n, k) > len(self.known.get(k, ()))

    @cached_property
    def kinds(self) -> dict[int, list[str]]:
        """Which kinds of scenes there are of each size."""
        if not self.known:
            return {k: ["any"] for k in self.sizes}
        exists = {"unseen": self.unseen_exists, "training": self.training_scenes}
        return {k: [kind for kind in KINDS if exists[kind](k)] for k in self.sizes}

    def draw(self, kind: str, k: int, rng: np.random.Generator) -> tuple[Scene, Num[np.ndarray, "K F"]]:
        """A random scene of a kind and size, and a start in it."""
        if k not in self.kinds:
            raise HowmError(f"scenes of {short(k)} objects cannot be played here; sizes are {_listed(self.sizes)}")
        if kind not in self.kinds[k]:
            raise HowmError(f"there is no scene of {k} objects of the kind {short(kind)}; choose another size or kind")
        episodes = None if self.stored is None else self.stored.seen if kind == "training" else self.stored.unseen
        if episodes is not None and (found := _stored_start(episodes, k, rng)) is not None:
            return found
        if kind == "training":
            scenes = self.training_scenes(k)
            scene = scenes[int(rng.integers(len(scenes)))]
        else:
            (scene,) = draw_unseen(self.known.get(k, SceneSet(self.world.n, k, ())), 1, rng).scenes
        return scene, self.start(scene, rng)

    def chosen(self, objects: Any) -> Scene:
        """A scene that a person chose."""
        numbers = isinstance(objects, list) and all(type(item) is int for item in objects)
        if not numbers or len(set(objects)) < len(objects) or not set(objects) <= set(range(self.world.n)):
            raise HowmError(f"objects must be different numbers from 0 to {self.world.n - 1}, got {short(objects)}")
        if len(objects) not in self.sizes:
            raise HowmError(f"{len(objects)} objects cannot be played here; choose {_listed(self.sizes)}")
        return as_scene(objects)

    def start(self, scene: Scene, rng: np.random.Generator) -> Num[np.ndarray, "K F"]:
        return np.asarray(self.world.reset(np.array([scene]), rng)[0])

    def kind_of(self, scene: Scene) -> str:
        if not self.known:
            return "any"
        return "training" if len(scene) in self.known and self.known[len(scene)].contains(scene) else "unseen"

    def scene_text(self, scene: Scene) -> str:
        """What the models know of a scene, in a sentence."""
        saw = [subject.name for subject in self.subjects if _trained_on(subject, scene)]
        if saw:
            return "A scene of training" + (f" of {' and '.join(saw)}." if len(self.subjects) > 1 else ".")
        sizes = sorted(self.known)
        if sizes and len(scene) not in sizes:
            return f"It has {len(scene)} objects; training scenes have {_listed(sizes)}."
        if not sizes:
            return "Whether the model was trained on it is not known."
        return "No training scene has these objects together."

    def sights(self, k: int) -> list[Sight]:
        return [Sight(self.world, subject.for_size(k)) for subject in self.subjects]

    def moves(self, scene: Scene) -> dict[int, list[list[float] | None]]:
        """Where the actions of each object of a scene take it, which does not depend on the scene."""
        for item in scene:
            if item not in self._moves:
                self._moves[item] = moves_of(self.world, item)
        return {item: self._moves[item] for item in scene}

    @cached_property
    def sprites(self) -> list[np.ndarray]:
        return [sprite(self.world, item) for item in range(self.world.n)]


def open_stage(
    run: str | WorldModel,
    against: str | WorldModel | None = None,
    data: Path | None = None,
    world: World | None = None,
) -> Stage:
    """The stage of a run, or of a model of your own and its world; with a second model, and the scenes of a dataset."""
    runs = [run] if against is None else [run, against]
    checkpoints = [None if isinstance(one, WorldModel) else load_checkpoint(find_checkpoint(one)) for one in runs]
    worlds = [found for found in (world, *map(_world_of, checkpoints)) if found is not None]
    if not worlds:
        raise HowmError("a model alone does not say what its world is; give world=howm.make_world(...)")
    for other in worlds[1:]:
        if other != worlds[0]:
            raise HowmError(
                f"the models were trained in different worlds ({worlds[0]} and {other}); give two of one world"
            )
    stored = None
    if data is not None:
        if checkpoints[0] is None:
            raise HowmError(f"--data {data} needs a run, whose training scenes are known; give a run, not a model")
        stored = stored_episodes(checkpoints[0], data)
        if stored.unseen.states is None:
            raise HowmError(f"{data} holds imported pictures, whose world is unknown; leave out `data`")
    subjects = [_subject(one, checkpoint) for one, checkpoint in zip(runs, checkpoints, strict=True)]
    record = None if checkpoints[0] is None else checkpoints[0].record.data
    title = world_title(type(worlds[0]).__name__ if record is None else record.world)
    moving = 0.9 if record is None else record.moving
    return Stage(worlds[0], title, _named_apart(subjects), moving, stored)


def _world_of(checkpoint: Checkpoint | None) -> World | None:
    return None if checkpoint is None else training_world(checkpoint.record.data)[0]


def _subject(run: str | WorldModel, checkpoint: Checkpoint | None) -> Subject:
    if checkpoint is None:
        assert isinstance(run, WorldModel)
        if run.spec is None:
            raise HowmError(f"{type(run).__name__} has no spec; give it to super().__init__(spec)")
        scenes = run.training_scenes
        sizes = range(run.spec.k, run.spec.k + 1) if scenes is None else scenes.sizes
        name = type(run).__name__
        return Subject(name, run.title or name, run.eval(), sizes, scenes)
    record, model = checkpoint.record, rebuild(checkpoint)
    _, scenes = training_world(record.data)
    sizes = range(record.spec.k, record.spec.k + 1) if scenes.k_min is None else scenes.sizes
    return Subject(
        Path(str(run)).name.removesuffix(".safetensors") or str(run), record.title, model, sizes, model.training_scenes
    )


def _named_apart(subjects: list[Subject]) -> tuple[Subject, ...]:
    if len(subjects) == 2 and subjects[0].name == subjects[1].name:
        for letter, subject in zip("AB", subjects, strict=True):
            subject.name = f"{subject.name} {letter}"
    return tuple(subjects)


def _stored_start(episodes: Episodes, k: int, rng: np.random.Generator) -> tuple[Scene, Num[np.ndarray, "K F"]] | None:
    """A random episode's scene and start, where some episode has k objects."""
    _, ids, states = episodes.state()
    rows = np.flatnonzero((ids >= 0).sum(axis=1) == k)
    if not len(rows):
        return None
    row = int(rng.choice(rows))
    return scene_of(ids[row]), states[row, 0, :k].copy()


def _trained_on(subject: Subject, scene: Scene) -> bool:
    return subject.training_scenes is not None and subject.training_scenes.contains(scene)


def _listed(sizes: list[int]) -> str:
    """1-5, or 3 and 7 where there are gaps."""
    if len(sizes) > 2 and sizes == list(range(sizes[0], sizes[-1] + 1)):
        return f"{sizes[0]}-{sizes[-1]}"
    return " and ".join(map(str, sizes))
