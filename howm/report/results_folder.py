"""A folder of results, and what can be read off each of them.

<world>-n<N>-k<K>/<method>-seed<S>.json   status ok; or OM or failed, with the reason; also of variants of methods
transfer/<model>-k<K>.json              a model in scenes of another number of objects
planning/<world>-n<N>-k<K>/<method>-seed<S>-<planner>.json   goals that were reached by planning

and below a folder of their own each, in the same layout as at the top:

ablation      HOWM with one thing changed
few-scenes    methods that have seen as many scenes in training as the library has objects
negatives     Σ_N-CSWM with controlled and uncontrolled negatives
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howm.errors import HowmError
from howm.experiments.folder import results_folder
from howm.experiments.plan import PAPER_METHODS
from howm.report.published import PAPER_TITLES, PAPER_WORLDS
from howm.runs.plan_result import PlanResult, read_plan_result
from howm.runs.result import Metrics, Part, Pool, RunResult, Scores, read_result

Measure = Callable[[RunResult], float | None]


def in_paper(run: RunResult) -> bool:
    """Whether the world has the sizes of the paper's: five objects in a scene, up to 30 in the library."""
    return run.k == 5 and run.n <= 30


@dataclass(frozen=True)
class Results:
    """The results of a folder; those of transfer stand under the names of their models.

    ``variants`` are methods with keys changed: never counted as seeds of the method itself. ``imported`` are runs on
    imported pictures: worlds of the same name need not be the same, so each stands for itself.
    """

    grid: tuple[RunResult, ...]
    variants: tuple[RunResult, ...] = ()
    ablation: tuple[RunResult, ...] = ()
    few_scenes: tuple[RunResult, ...] = ()
    negatives: tuple[RunResult, ...] = ()
    transfer: tuple[tuple[str, RunResult], ...] = ()
    imported: tuple[RunResult, ...] = ()
    planning: tuple[PlanResult, ...] = ()

    def of(
        self, world: str, k: int | None = None, n: int | None = None, method: str | None = None
    ) -> list[RunResult]:  # fmt: skip
        return [
            run
            for run in self.grid
            if run.world == world and k in (None, run.k) and n in (None, run.n) and method in (None, run.method)
        ]

    def paper(self, world: str) -> list[RunResult]:
        """The runs of a world whose sizes are the paper's."""
        return [run for run in self.of(world) if in_paper(run)]

    def worlds(self) -> list[str]:
        """Worlds with a run that belongs into tables as the paper's are."""
        return list(dict.fromkeys(run.world for run in self.grid if in_paper(run)))

    def methods(self, world: str | None = None) -> list[str]:
        """The rows of the tables of a world: in the paper's those of its methods, run or not; and all that were run."""
        runs = self.everything() if world is None else [run for run in self.everything() if run.world == world]
        first = PAPER_METHODS if world is None or world in PAPER_WORLDS else ()
        run = sorted((run.method for run in runs), key=lambda name: (*PAPER_METHODS, name).index(name))
        return list(dict.fromkeys((*first, *run)))

    def method_title(self, method: str) -> str:
        """The title of a method, as its records have it; of one that only the paper has, the paper's."""
        found = (run.method_title for run in self.everything() if run.method == method)
        return next(found, PAPER_TITLES.get(method, method))

    def everything(self) -> tuple[RunResult, ...]:
        moved = tuple(run for _, run in self.transfer)
        more = (*self.ablation, *self.few_scenes, *self.negatives, *moved, *self.imported)
        return *self.grid, *self.variants, *more

    def world_title(self, world: str) -> str:
        """The title of a world, as its records have it."""
        found = (run.world_title for run in self.everything() if run.world == world)
        return next(found, PAPER_WORLDS.get(world, world))

    def finished(self) -> list[RunResult]:
        return ended(self.grid)


def read_results(folder: Path) -> Results:
    """All results below a folder; a sweep's are where it puts them."""
    place = results_folder(folder)
    root = place if place.is_dir() else folder
    runs = _sorted(root)
    if not runs:
        where = f"{folder} holds" if root == folder else f"{place}, where {folder} has its results, holds"
        raise HowmError(f"{where} no results; give the folder of a sweep, or of howm eval --results")
    ours, imported = (tuple(run for run in runs if is_imported(run) == which) for which in (False, True))
    own, variants = (tuple(run for run in ours if (run.variant is not None) == changed) for changed in (False, True))
    ablation, few_scenes, negatives = (
        tuple(run for run in _sorted(root / name) if not is_imported(run))
        for name in ("ablation", "few-scenes", "negatives")
    )
    moved = [(path.stem.rpartition("-")[0], read_result(path)) for path in sorted(root.glob("transfer/*.json"))]
    transfer = tuple((name, run) for name, run in moved if not is_imported(run))
    return Results(own, variants, ablation, few_scenes, negatives, transfer, imported, _planning(folder, root))


def _planning(folder: Path, root: Path) -> tuple[PlanResult, ...]:
    """What `howm plan` wrote with --results, and, of others, into the directories of a sweep's runs."""
    paths = [*sorted(root.glob("planning/*-n*-k*/*.json")), *sorted(folder.glob("runs/*/*/plan-*.json"))]
    found = {one.place(Path()): one for one in map(read_plan_result, reversed(paths))}
    return tuple(found[place] for place in sorted(found))


def is_imported(run: RunResult) -> bool:
    return run.hard_pool == "earlier frames only"


def _sorted(folder: Path) -> list[RunResult]:
    """Results in the layout of `howm eval --results`, in the order of the tables; other worlds and methods last."""
    order = {name: place for place, name in enumerate((*PAPER_WORLDS, *PAPER_METHODS))}

    def place(run: RunResult) -> tuple[Any, ...]:
        world = order.get(run.world, len(order)), run.world
        method = order.get(run.method, len(order)), run.method
        return *world, run.k, *method, run.variant or "", run.n, run.seed

    return sorted((read_result(path) for path in folder.glob("*-n*-k*/*.json")), key=place)


# What can be read off a run.


def measured(metrics: Metrics | None, measure: str) -> float | None:
    return None if metrics is None else metrics.h1 if measure == "h1" else metrics.mrr


def score(pool: Pool, steps: str, measure: str = "mrr", part: Part = "unseen") -> Measure:
    return lambda run: measured(run.metrics(part, pool, steps), measure)


def control(name: str, pool: Pool, steps: str, measure: str = "mrr") -> Measure:
    """Likewise, of one of the controls."""

    def read(run: RunResult) -> float | None:
        none: Scores = {}
        return measured(run.controls.get(name, none).get(pool, {}).get(steps), measure)

    return read


def gap_of(pool: Pool, steps: str) -> Measure:
    return lambda run: run.gap.get(pool, {}).get(steps)


def minutes(run: RunResult) -> float | None:
    return None if run.costs is None else run.costs.train_cpu_seconds / 60


def megabytes(run: RunResult) -> float | None:
    return None if run.costs is None else run.costs.peak_memory_mb


def diagnosed(stage: str) -> Measure:
    """A share of the diagnosis: extraction, binding, weight or absent_to_background."""
    return lambda run: None if run.binding is None else getattr(run.binding, stage)


def lost_to(stage: str) -> Measure:
    return lambda run: None if run.binding is None else run.binding.lost_to.get(stage)


def pixel_error(name: str) -> Measure:
    """In millionths, mean square; a pixel is between 0 and 1."""

    def read(run: RunResult) -> float | None:
        error = None if run.binding is None else run.binding.pixel_error.get(name)
        return None if error is None else 1e6 * error

    return read


def reconstruction(run: RunResult) -> float | None:
    """Likewise, of held-out frames, by a representation that was trained for it."""
    errors = [row["held_out_reconstruction"] for row in run.curve if "held_out_reconstruction" in row]
    return 1e6 * errors[-1] if errors else None


def ended(runs: Sequence[RunResult]) -> list[RunResult]:
    return [run for run in runs if run.status == "ok"]
