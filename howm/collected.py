"""A folder of results, and what can be read off each of them.

<env>-n<N>-k<K>/<method>-seed<S>.json   status ok; or OM or failed, with the reason; also of variants of methods
transfer/<model>-k<K>.json              a model in scenes of another number of objects

and below a folder of their own each, in the same layout as at the top:

ablation      HOWM with one thing changed
few-scenes    methods that have seen as many scenes in training as the library has objects
negatives     Σ_N-CSWM with controlled and uncontrolled negatives
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howm.errors import HowmError
from howm.library import WORLDS
from howm.models.methods import METHODS
from howm.sweep import results_folder

Result = dict[str, Any]
Measure = Callable[[Result], float | None]
MEASURED = ("eval", "eval_hard", "pool", "scenes", "unseen", "data")  # what a run that ended well has


def in_paper(run: Result) -> bool:
    """Whether the world has the sizes of the paper's: five objects in a scene, up to 30 in the library."""
    return bool(run["k"] == 5 and run["n"] <= 30)


@dataclass(frozen=True)
class Results:
    """The results of a folder; those of transfer stand under the names of their models.

    ``variants`` are methods with keys changed: never counted as seeds of the method itself. ``others`` are runs on
    imported data, whose worlds are none of ours.
    """

    grid: tuple[Result, ...]
    variants: tuple[Result, ...] = ()
    ablation: tuple[Result, ...] = ()
    few_scenes: tuple[Result, ...] = ()
    negatives: tuple[Result, ...] = ()
    transfer: tuple[tuple[str, Result], ...] = ()
    others: tuple[Result, ...] = ()

    def of(self, env: str, k: int | None = None, n: int | None = None, method: str | None = None) -> list[Result]:
        asked = {"env": env, "k": k, "n": n, "method": method}
        wanted = {key: value for key, value in asked.items() if value is not None}
        return [run for run in self.grid if all(run[key] == value for key, value in wanted.items())]

    def paper(self, env: str) -> list[Result]:
        """The runs whose world is one of the paper's."""
        return [run for run in self.of(env) if in_paper(run)]

    def worlds(self) -> list[str]:
        """Worlds with a run that belongs into the paper's tables."""
        return [env for env in WORLDS if self.paper(env)]

    def finished(self) -> list[Result]:
        return [run for run in self.grid if run["status"] == "ok"]


def read_results(folder: Path) -> Results:
    """All results below a folder; a sweep's are where it puts them."""
    place = results_folder(folder)
    root = place if place.is_dir() else folder
    runs = _sorted(root)
    if not runs:
        where = f"{folder} holds" if root == folder else f"{place}, where {folder} has its results, holds"
        raise HowmError(f"{where} no results; give the folder of a sweep, or of howm eval --results")
    ours, others = (tuple(run for run in runs if (run["env"] in WORLDS) == known) for known in (True, False))
    own, variants = (tuple(run for run in ours if ("variant" in run) == changed) for changed in (False, True))
    ablation, few_scenes, negatives = (
        tuple(run for run in _sorted(root / name) if run["env"] in WORLDS)
        for name in ("ablation", "few-scenes", "negatives")
    )
    moved = [(path.stem.rpartition("-")[0], _read(path)) for path in sorted(root.glob("transfer/*.json"))]
    transfer = tuple((name, run) for name, run in moved if run["env"] in WORLDS)
    return Results(own, variants, ablation, few_scenes, negatives, transfer, others)


def _sorted(folder: Path) -> list[Result]:
    """Results in the layout of `howm eval --results`, in the order of the tables; other worlds come last."""
    order = {name: place for place, name in enumerate((*WORLDS, *METHODS))}
    runs = [_read(path) for path in sorted(folder.glob("*-n*-k*/*.json"))]

    def place(run: Result) -> tuple[Any, ...]:
        world = order.get(run["env"], len(order)), run["env"]
        return *world, run["k"], order[run["method"]], run.get("variant", ""), run["n"], run["seed"]

    return sorted(runs, key=place)


def _read(path: Path) -> Result:
    try:
        run: Result = {"status": "ok", **json.loads(path.read_text(encoding="utf-8"))}
        if not (isinstance(run["env"], str) and run["method"] in METHODS and run["n"] >= run["k"] > 0 <= run["seed"]):
            raise ValueError(f"its world or method is unknown: {run['env']}, {run['method']}")
        lacks = [name for name in MEASURED if name not in run and run["status"] == "ok"]
        if lacks:
            raise ValueError(f"it has no {', '.join(lacks)}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HowmError(f"{path} is no result of howm ({error}); remove it or make it again") from error
    return run


def name_of(run: Result) -> str:
    """Of the variant, or else of the method."""
    return str(run.get("variant", run["method"]))


# What can be read off a run.


def score(part: str, steps: str, measure: str = "mrr") -> Measure:
    return lambda run: run.get(part, {}).get(steps, {}).get(measure)


def value(*keys: str) -> Measure:
    """A number at a path of keys."""

    def read(run: Result) -> float | None:
        found: Any = run
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, int | float) else None

    return read


def minutes(run: Result) -> float | None:
    return run["train_cpu_seconds"] / 60 if "train_cpu_seconds" in run else None


def pixel_error(name: str) -> Measure:
    """In millionths, mean square; a pixel is between 0 and 1."""
    read = value("binding", "pixel_error", name)
    return lambda run: None if (error := read(run)) is None else 1e6 * error


def reconstruction(run: Result) -> float | None:
    """Likewise, of held-out frames, by a representation that was trained for it."""
    errors = [row["held_out_reconstruction"] for row in run.get("curve", []) if "held_out_reconstruction" in row]
    return 1e6 * errors[-1] if errors else None


def ended(runs: Sequence[Result]) -> list[Result]:
    return [run for run in runs if run["status"] == "ok"]
