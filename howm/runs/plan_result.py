"""What planning with a run reached: plan-<planner>.json, read and written here alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from howm.config import from_plain, require_name, to_plain
from howm.data.storage import MAX_OBJECTS
from howm.errors import HowmError, short
from howm.files import atomic_write, read_json, refuse_links
from howm.runs.result import file_name, setting_name

VERSION = 1
BUCKETS = ("1-5", "6-10", "11-20", "21-40")  # optimal steps
REFERENCES = ("random", "exact", "true_dynamics", "true_state")
PRINTED = ("goals", "success", "ratio", "open_loop", "model_calls", "cpu_seconds")


@dataclass(frozen=True)
class Reached:
    """Of the goals of one bucket. Shares in percent; None where nothing was measured.

    ``ratio`` is of steps taken to optimal steps, where the goal was reached; ``bounded`` are goals of which the optimal
    steps are known as an upper bound only. ``cpu_seconds`` and ``model_calls`` are means over goals, of all its plans.
    """

    goals: int
    success: float | None = None
    success_ci: tuple[float, float] | None = None  # 95 %, over scenes
    ratio: float | None = None
    steps: float | None = None  # to success, on average
    open_loop: float | None = None  # first plans that end at the goal when carried out without looking
    came_true: float | None = None  # imagined steps that led where the plan said
    model_calls: float | None = None
    cpu_seconds: float | None = None
    detours: int = 0
    detour_success: float | None = None
    bounded: int = 0

    def __post_init__(self) -> None:
        shares = (self.success, self.open_loop, self.came_true, self.detour_success, *(self.success_ci or ()))
        if any(share is not None and not 0 <= share <= 100 for share in shares):
            raise HowmError("shares must be in [0, 100]")
        if min(self.goals, self.detours, self.bounded) < 0 or max(self.detours, self.bounded) > self.goals:
            raise HowmError(f"goals={self.goals}, detours={self.detours}, bounded={self.bounded} do not fit together")


ByLength = dict[str, Reached]


@dataclass(frozen=True)
class PlanResult:
    """What one planner reached with one run."""

    method: str
    method_title: str
    world: str
    world_title: str
    n: int
    k: int
    seed: int  # of the run
    planner: str
    settings: dict[str, Any]
    cost: Literal["objects", "embedding"]
    replan: bool
    budget: int  # steps in the world
    goal_seed: int
    unseen: ByLength = field(default_factory=dict)
    training: ByLength = field(default_factory=dict)
    references: dict[str, ByLength] = field(default_factory=dict)  # in unseen scenes, or in those that there are
    versions: dict[str, str] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        for key in ("method", "world"):  # paths are built from them
            require_name(key, getattr(self, key))
        if not MAX_OBJECTS >= self.n >= self.k > 0 <= self.seed:
            raise HowmError(f"n={self.n}, k={self.k}, seed={self.seed} must have n ≥ k ≥ 1 and seed ≥ 0")
        for part in (self.unseen, self.training, *self.references.values()):
            for bucket in part:
                if bucket not in BUCKETS:
                    raise HowmError(f"{short(bucket)} is not one of the lengths {', '.join(BUCKETS)}")

    @property
    def name(self) -> str:
        """What tells results of one run apart."""
        parts = (self.planner, *(["embedding"] * (self.cost == "embedding")), *(["open-loop"] * (not self.replan)))
        return "-".join(parts)

    def place(self, folder: Path) -> Path:
        """Where it stands among those of other runs."""
        setting = setting_name(self.world, self.n, self.k)
        return folder / "planning" / setting / f"{file_name(self.method)}-seed{self.seed}-{self.name}.json"

    def line(self) -> dict[str, Any]:
        """The record that ``howm plan --json`` prints."""

        def shown(part: ByLength) -> dict[str, dict[str, Any]]:
            return {bucket: {key: getattr(found, key) for key in PRINTED} for bucket, found in part.items()}

        about: dict[str, Any] = {"planner": self.planner, "world": self.world, "n": self.n, "k": self.k}
        references = {name: shown(part) for name, part in self.references.items()}
        return about | {"unseen": shown(self.unseen), "training": shown(self.training), "references": references}


def read_plan_result(path: Path) -> PlanResult:
    remedy = "remove it or make it again with `howm plan`"
    values = read_json(path, remedy)
    if not isinstance(values, Mapping) or "planner" not in values:
        raise HowmError(f"{path} is not a result of planning; {remedy}")
    if values.get("version") != VERSION:
        raise HowmError(
            f"{path} has planning format {short(values.get('version'))}, this howm reads {VERSION}; make it again"
        )
    try:
        return from_plain(PlanResult, values)
    except HowmError as error:
        raise HowmError(f"{path} is not a result of planning: {error}; {remedy}") from None


def write_plan_result(result: PlanResult, path: Path) -> Path:
    refuse_links(path)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(to_plain(result), indent=1) + "\n", encoding="utf-8")
    return path
