"""What a checkpoint knows about its run: the header of its file, read and written here alone."""

import json
from dataclasses import dataclass, field
from typing import Any

from howm.config import from_plain, require_name, to_plain
from howm.data.storage import MAX_OBJECTS, MAX_PIXELS
from howm.errors import HowmError, short
from howm.files import parse_json
from howm.worlds.spec import WorldSpec

FORMAT = "howm-checkpoint"
VERSION = 2
CONFIGURED = ("method", "preset", "seed", "model", "extractor", "represent", "train")  # what a config.yaml repeats

Scenes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Costs:
    """What training took, by wall clock, by CPU clock, and in memory."""

    train_seconds: float = 0.0
    train_cpu_seconds: float = 0.0
    peak_memory_mb: float = 0.0

    def after(self, earlier: "Costs") -> "Costs":
        """Both together, one after the other."""
        return Costs(
            self.train_seconds + earlier.train_seconds,
            self.train_cpu_seconds + earlier.train_cpu_seconds,
            max(self.peak_memory_mb, earlier.peak_memory_mb),
        )


@dataclass(frozen=True)
class DataRecord:
    """The data of a run, and what it takes to make fresh episodes of the same world in unseen scenes."""

    hash: str | None  # None where the data is in no file
    world: str
    world_title: str
    n: int
    k: int
    seed: int
    moving: float | None
    eval_episodes: int
    simulator: dict[str, Any] | None = None  # from which the world is made again; None for imported pictures
    train_scenes: Scenes | None = None  # None where the data names no objects
    split: str = "scenes"  # its kind
    eval_sizes: tuple[int, int] | None = None  # the smallest and largest scenes of evaluation, where training's differ

    def __post_init__(self) -> None:
        require_name("world", self.world)  # paths are built from it
        require_name("split", self.split)
        if not 0 < self.k <= self.n <= MAX_OBJECTS or not self.seed >= 0 or self.eval_episodes < 0:
            raise HowmError(f"n={self.n}, k={self.k}, seed={self.seed} must have n ≥ k ≥ 1 and seed ≥ 0")
        if self.moving is not None and not 0 <= self.moving <= 1:
            raise HowmError(f"moving must be in [0, 1], got {self.moving}")


@dataclass(frozen=True)
class ExtractorOrigin:
    """The run that trained the slots which this one took over, the scenes it saw, and what that took."""

    method: str
    seed: int
    data: str | None
    scenes: Scenes
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True)
class Progress:
    """How far training was when the checkpoint was written."""

    step: int = 0
    phase: str = "train"
    best_held_out_loss: float | None = None
    costs: Costs = field(default_factory=Costs)
    slots: Costs = field(default_factory=Costs)  # the part of it that runs which take over the slots need not spend
    scaler: dict[str, Any] | None = None


@dataclass(frozen=True)
class RunRecord:
    """A run as its checkpoints describe it. ``method`` is None for a model that was given to `fit` as an object."""

    method: str | None
    title: str
    seed: int
    spec: WorldSpec
    train: dict[str, Any]
    data: DataRecord
    versions: dict[str, str]
    preset: str | None = None
    model: dict[str, Any] = field(default_factory=dict)
    represent: dict[str, Any] | None = None
    extractor: ExtractorOrigin | None = None
    processes: int = 1
    threads: int | None = None  # of each process; None where it was not recorded
    progress: Progress = field(default_factory=Progress)
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.method is not None:
            require_name("method", self.method)
        if max(self.spec.height, self.spec.width) > MAX_PIXELS or (self.spec.n, self.spec.k) != (
            self.data.n,
            self.data.k,
        ):
            raise HowmError(f"spec={self.spec} does not match data of n={self.data.n}, k={self.data.k}")
        if self.seed < 0 or self.progress.step < 0:
            raise HowmError(f"seed={self.seed} and step={self.progress.step} must be 0 or more")

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **to_plain(self)})

    @classmethod
    def from_json(cls, text: str, path: object) -> "RunRecord":
        """Read the header of the checkpoint ``path``; an error names the file and the key."""
        values = parse_json(text, f"the header of {path}", "train a model with `howm train`")
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise HowmError(f"{path} is not a checkpoint of howm; train a model with `howm train`")
        values.pop("sha256", None)  # of the file that it stands in
        if values.get("version") != VERSION:
            raise HowmError(
                f"{path} has checkpoint format {short(values.get('version'))}, this howm reads {VERSION}; "
                "train it again"
            )
        try:
            return from_plain(cls, values)
        except HowmError as error:
            raise HowmError(f"checkpoint {path} cannot be read: {error}") from None

    def configuration(self) -> dict[str, Any]:
        """The keys of config.yaml that a checkpoint knows."""
        values = json.loads(json.dumps(to_plain(self)))  # with lists for tuples, which YAML does not have
        return {name: values[name] for name in CONFIGURED if values[name] not in (None, {})}
