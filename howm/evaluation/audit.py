"""Does a run score as well on fresh episodes as on those it was evaluated on before?"""

from pathlib import Path

from howm.runs.result import Audit, RunResult, read_result

_MORE = 5.0  # points of MRR, beyond what the intervals of both explain


def audit(run: Path, fresh: RunResult) -> Audit | None:
    """The run's own result on stored episodes beside one on fresh episodes, where they differ most.

    None where ``results.json`` has no comparable result: of stored episodes, as many references and queries, the same
    version.
    """
    path = run / "results.json"
    stored = read_result(path) if path.is_file() else None
    if stored is None or not _comparable(stored, fresh):
        return None
    found = [
        Audit(pool, k, before.mrr, now.mrr, before.mrr_ci[0] > now.mrr_ci[1] and before.mrr - now.mrr > _MORE)
        for pool, by_step in fresh.scores["unseen"].items()
        for k, now in by_step.items()
        if (before := stored.metrics("unseen", pool, k)) is not None
    ]
    return max(found, key=lambda one: one.stored - one.fresh, default=None)


def _comparable(stored: RunResult, fresh: RunResult) -> bool:
    of_data = stored.data is not None and stored.data.fresh_seed is None
    alike = ("references", "queries", "evaluation_version")
    return of_data and all(getattr(stored, name) == getattr(fresh, name) for name in alike)
