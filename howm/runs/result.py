"""The results of a run: results.json, read and written here alone. docs/results-format.md describes the file."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from howm.config import from_plain, require_name, to_plain
from howm.data.storage import MAX_OBJECTS
from howm.errors import HowmError, short, shorten
from howm.files import atomic_write, read_json, refuse_links
from howm.runs.record import Costs

VERSION = 2
EVALUATION_VERSION = 2  # grows when a model would no longer get the same scores; docs/trust.md says what changed
Part = Literal["unseen", "training"]  # scenes
Pool = Literal["paper", "hard"]  # references: frame k of every episode; and each query's own near misses as well
Status = Literal["ok", "OM", "failed"]
HardPool = Literal["near misses", "earlier frames only"]  # the latter where nothing can simulate the world


@dataclass(frozen=True)
class Metrics:
    """Shares of ranks up to 1, 5 and 10 and the mean reciprocal rank with its 95 % interval, in percent."""

    h1: float
    h5: float
    h10: float
    mrr: float
    mrr_ci: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return asdict(self) | {"mrr_ci": list(self.mrr_ci)}


Scores = dict[Pool, dict[str, Metrics]]  # pool → number of steps → metrics


@dataclass(frozen=True)
class Diagnosis:
    """All in percent, but for pixel errors, mean squares of colours in 0-1, and position errors.

    Objects of which less than a quarter can be seen do not count in extraction."""

    extraction: float  # frames in which every object has a slot of its own
    binding: float  # present objects whose actions go to the slot that holds them
    weight: float  # how much of an action arrives there, on average
    absent_to_background: float | None  # absent objects whose actions go to the background; None where there is none
    steps: int  # of prediction, for all below
    hard_mrr: dict[str, float | None]  # in the hard pool: of the model, with oracles, and by states aligned
    lost_to: dict[str, float | None]  # 100 minus the model's, split by stage
    pixel_error: dict[str, float]  # of predicted frames; of the slots' own picture; of showing frame 0 again
    visible_objects: float | None = None  # objects of which enough can be seen that have a slot of their own
    count: float | None = None  # frames in which as many objects are named as there are
    memory: dict[str, float] = field(default_factory=dict)  # objects of frame 4 that are known, by one frame and by all
    position_error: dict[str, float] = field(default_factory=dict)  # pixels: of slots, predicted, of idling

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Segmentation:
    """In percent, means over frames. Of the ARI only pixels of objects count."""

    foreground_ari: float
    matched_iou: float

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class EvaluationSource:
    """Where the episodes of an evaluation come from: a dataset, or a seed of fresh ones."""

    hash: str | None = None  # of the dataset's file
    seed: int | None = None  # of the dataset
    moving: float | None = None
    split: str | None = None  # the hash of its scenes, which older results do not have
    fresh_seed: int | None = None


@dataclass(frozen=True)
class Audit:
    """MRR in unseen scenes on a dataset's episodes and on fresh ones, where they differ most."""

    pool: Pool
    steps: str
    stored: float
    fresh: float
    remembers: bool  # whether the stored ones are higher than chance explains


@dataclass(frozen=True)
class Failure:
    """Why a run has no scores, and in which stage of it that was seen."""

    reason: str | None = None
    stage: str | None = None
    peak_memory_mb: float | None = None
    memory_limit_mb: float | None = None


@dataclass(frozen=True)
class RunResult:
    """What is known about one run, with all the names that a table needs, so that no plug-in has to be asked for them.

    A run whose status is not ok has a ``failure`` and no scores.
    """

    status: Status
    method: str
    method_title: str
    world: str
    world_title: str
    n: int
    k: int
    seed: int
    variant: str | None = None
    preset: str | None = None
    split: str = "scenes"  # the kind of split; "minimal-on-pairs" where data of another kind is evaluated on
    sizes: str | None = None  # of scenes, where they differ: 3-7, or "3-5 to 6-8" in training and evaluation
    privileged: bool = False  # whether the model reads which objects are in the scene
    unseen: str = ""  # what can be said of the scenes of evaluation
    hard_pool: HardPool | None = None
    references: int = 0
    queries: int | None = None  # that were ranked among them; None: as many
    scenes: int = 0  # of evaluation
    training_scenes: int | None = None
    matched: bool = False  # whether slots are matched with slots, which limits the references
    scores: dict[Part, Scores] = field(default_factory=dict)
    gap: dict[Pool, dict[str, float]] = field(default_factory=dict)  # training minus unseen MRR, by number of steps
    controls: dict[str, Scores] = field(default_factory=dict)
    binding: Diagnosis | None = None
    segmentation: Segmentation | None = None
    equivariance: dict[str, Any] | None = None
    parameters: int | None = None
    training_steps: int | None = None
    best_step: int | None = None
    costs: Costs | None = None
    threads: int | None = None
    curve: tuple[dict[str, int | float], ...] = ()  # what was measured on held-out training episodes along the way
    config: dict[str, Any] = field(default_factory=dict)
    data: EvaluationSource | None = None
    versions: dict[str, str] = field(default_factory=dict)
    evaluation_version: int | None = None
    audit: Audit | None = None  # of a result on fresh episodes
    failure: Failure | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        for key in ("method", "world", "variant", "split"):  # paths are built from them
            if getattr(self, key) is not None:
                require_name(key, getattr(self, key))
        if self.sizes is not None and not re.fullmatch(r"\d{1,6}(-\d{1,6})?( to \d{1,6}(-\d{1,6})?)?", self.sizes):
            raise HowmError(f"sizes={short(self.sizes)} should be such as 3-7 or 3-5 to 6-8")
        if not MAX_OBJECTS >= self.n >= self.k > 0 <= self.seed:
            raise HowmError(f"n={self.n}, k={self.k}, seed={self.seed} must have n ≥ k ≥ 1 and seed ≥ 0")
        if min(self.references, self.scenes, self.training_scenes or 0, self.queries or 0) < 0:
            raise HowmError("references, queries and scenes must be 0 or more")
        for key, value in self.config.items():
            if not isinstance(value, dict) or not isinstance(value.get("steps", 0), int):
                raise HowmError(f"config.{shorten(key, 60)}={short(value)} should be a group of keys")
        for row in self.curve:
            if not {"step", "held_out_loss"} <= row.keys():
                raise HowmError(f"curve has {short(row)}; each row needs step and held_out_loss")
        if self.status == "ok":
            self._require_scores()

    def _require_scores(self) -> None:
        """A run that ended well has scores of both parts in both pools, by numbers of steps."""
        needed = ("unseen", "hard_pool", "references", "scenes", "scores", "gap", "data")
        lacking = [name for name in needed if not getattr(self, name)]
        pools: tuple[Pool, Pool] = ("paper", "hard")
        parts: tuple[Part, Part] = ("unseen", "training")
        for part in parts:
            lacking += [f"scores.{part}.{pool}" for pool in pools if not self.scores.get(part, {}).get(pool)]
        if lacking:
            raise HowmError(f"{lacking[0]} is missing")
        measured = (*self.scores.values(), *self.controls.values())
        for steps in {step for scores in measured for by in scores.values() for step in by}.union(*self.gap.values()):
            if not re.fullmatch(r"[1-9]\d{0,5}", steps):
                raise HowmError(f"steps of scores must be an integer from 1 to 999999, got {short(steps)}")

    @property
    def name(self) -> str:
        """Of the variant, or else of the method."""
        return self.variant or self.method

    @property
    def scene_size(self) -> str:
        """How many objects scenes have."""
        return self.sizes or str(self.k)

    @property
    def setting(self) -> str:
        """World, library, sizes of scenes and split: results of different ones are never seeds of each other."""
        return setting_name(self.world, self.n, self.scene_size, self.split)

    @property
    def is_plain(self) -> bool:
        """Whether the scenes are as in the paper: of one size, and split without a further rule."""
        return self.split == "scenes" and self.sizes is None

    def metrics(self, part: Part, pool: Pool, steps: str) -> Metrics | None:
        """The scores after so many steps; None where they were not measured."""
        return self.scores.get(part, {}).get(pool, {}).get(steps)

    def place(self, folder: Path) -> Path:
        """Where the results of a run stand among those of others."""
        return result_path(folder, self.setting, self.name, self.seed)

    def to_json(self) -> dict[str, Any]:
        return to_plain(self)


def file_name(name: str) -> str:
    """A name as a part of a path: ``package.module:Name`` has a colon, which not every system takes."""
    return re.sub(r"[^\w.-]+", "-", name)


def setting_name(world: str, n: int, sizes: int | str, split: str = "scenes") -> str:
    """Such as shapes-n10-k5, grand-n10-k3-7, shapes-n10-k5-pairs or shapes-n10-k3-5-to-6-8-larger-k."""
    return file_name(f"{world}-n{n}-k{sizes}" + ("" if split == "scenes" else f"-{split}"))


def result_path(folder: Path, setting: str, name: str, seed: int) -> Path:
    return folder / setting / f"{file_name(name)}-seed{seed}.json"


def result_from_json(values: Any, path: object) -> RunResult:
    """A result of the file ``path``; an error names the file and the key."""
    if not isinstance(values, Mapping) or "version" not in values or "method" not in values:
        raise HowmError(f"{path} is not a result of this howm; remove it or make it again with `howm eval`")
    if values["version"] != VERSION:
        raise HowmError(
            f"{path} has results format {short(values['version'])}, this howm reads {VERSION}; make it again"
        )
    try:
        return from_plain(RunResult, values)
    except HowmError as error:
        raise HowmError(f"{path} is not a result of howm: {error}; remove it or make it again") from None


def read_result(path: Path) -> RunResult:
    return result_from_json(read_json(path, "remove it or make it again with `howm eval`"), path)


def write_result(result: RunResult, path: Path) -> Path:
    refuse_links(path)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    return path


def refuse_other_data(path: Path, data: EvaluationSource, force: bool = False) -> None:
    """Refuse to replace a result that was computed on other data, unless ``force`` allows it."""
    if force or not path.exists():
        return
    old = read_result(path)
    if old.data is not None and old.data != data:
        raise HowmError(f"{path} was computed on other data; choose another place, or replace it with `force=True`")
