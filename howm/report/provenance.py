"""How each number was made."""

from collections.abc import Iterator
from typing import Any

from howm.report.results_folder import Results
from howm.runs.result import Failure


def provenance(results: Results) -> list[dict[str, Any]]:
    """How each number was made."""
    found = []
    special = [(f"variant, {run.variant}", run) for run in results.variants]
    special += [(f"ablation, {run.name}", run) for run in results.ablation]
    special += [("few scenes", run) for run in results.few_scenes]
    special += [(f"negatives, {run.name}", run) for run in results.negatives]
    special += [(f"transfer, {name}", run) for name, run in results.transfer]
    special += [("imported pictures", run) for run in results.imported]
    special += [("ladder", run) for run in results.ladder] + [("splits", run) for run in results.splits]
    special += [("", run) for run in results.others]
    for where, run in [*(("", run) for run in results.grid), *special]:
        failure, data, costs = run.failure or Failure(), run.data, run.costs
        versions = {name: text for name, text in run.versions.items() if name != "commit"}
        facts = {
            "status": run.status,
            "reason": failure.reason,
            "preset": run.preset,
            "steps": None if run.best_step is None else f"{run.training_steps or 0:,}, best at {run.best_step:,}",
            "seconds": None
            if costs is None
            else f"{costs.train_seconds:,.0f}, of a CPU {costs.train_cpu_seconds:,.0f}",
            "references": f"{run.references:,} of {run.scenes} scenes; {run.unseen}" if run.references else None,
            "hard pool": run.hard_pool,
            "privileged": "reads which objects are in the scene" if run.privileged else None,
            "data": None if data is None else f"{data.hash}, seed {data.seed}",
            "commit": run.versions.get("commit", "not recorded"),
            "versions": ", ".join(f"{name} {text}" for name, text in versions.items()) or None,
        }
        split = "" if run.split == "scenes" else f", split {run.split}"
        title = f"{run.method}, {run.world_title}, N={run.n}, K={run.scene_size}{split}, seed {run.seed}"
        found.append({
            "title": title + (f" ({where})" if where else ""),
            "facts": {name: text for name, text in facts.items() if text is not None},
            "config": dict(_flat(run.config, "")),
        })  # fmt: skip
    return found


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, entry in values.items():
        if isinstance(entry, dict):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(entry).lower() if isinstance(entry, bool) else entry
