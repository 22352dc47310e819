"""What was reached by planning, beside its references."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from howm.report.results_folder import Results
from howm.report.table import Cell, Column, Spread, Table
from howm.runs.plan_result import BUCKETS, REFERENCES, ByLength, PlanResult, Reached

Entry = Callable[[Reached], float | None]
Key = tuple[str, str, int, int, str]  # method, world, N, K, planner


def planning_groups(results: Results) -> dict[Key, list[PlanResult]]:
    """Runs that differ in their seed only."""
    found: dict[Key, list[PlanResult]] = {}
    for one in results.planning:
        found.setdefault((one.method, one.world, one.n, one.k, one.name), []).append(one)
    return dict(sorted(found.items(), key=lambda item: (item[0][1:4], item[0][0] != "howm", item[0][0], item[0][4])))


def planning_table(results: Results) -> Table:
    columns = (
        *(Column("world"), Column("N"), Column("K"), Column("method", code=True), Column("plans by", code=True)),
        Column("goals"),
        *(Column(bucket, "success %, by optimal steps", bar=True) for bucket in BUCKETS),
        *(Column(bucket, "steps / optimal") for bucket in BUCKETS),
        Column("open loop %"),
        *(Column("model calls"), Column("CPU seconds")),
    )
    rows: list[tuple[Cell, ...]] = []
    for (method, _, n, k, name), runs in planning_groups(results).items():
        about = (runs[0].world_title, n, k, method)
        rows.append((*about, name, *_row([run.unseen or run.training for run in runs])))
        for reference in REFERENCES:
            parts = [run.references[reference] for run in runs if reference in run.references]
            if parts:
                rows.append((*about, reference, *_row(parts)))
    note = (
        "Goal pictures in unseen scenes. Open loop: first plans that end at the goal without looking. Model calls, in "
        "states, and CPU seconds are means for a goal, of all its plans. The references: random actions; exact search "
        "on true states; the same planner with true dynamics and the learned encoder; and with single learned "
        "predictions from true states."
    )
    return Table("Goals reached by planning", note, columns, tuple(rows), 5)


def success(part: ByLength, bucket: str) -> float | None:
    found = part.get(bucket)
    return None if found is None else found.success


def _row(parts: Sequence[ByLength]) -> list[Cell]:
    goals = sum(found.goals for part in parts for found in part.values())

    def spread(bucket: str, entry: Entry, digits: int) -> Cell:
        values = [value for part in parts if bucket in part and (value := entry(part[bucket])) is not None]
        return Spread.of(values, digits) if values else None

    return [
        goals,
        *(spread(bucket, lambda found: found.success, 1) for bucket in BUCKETS),
        *(spread(bucket, lambda found: found.ratio, 3) for bucket in BUCKETS),
        _over_goals(parts, lambda found: found.open_loop, 1),
        _over_goals(parts, lambda found: found.model_calls, 0),
        _over_goals(parts, lambda found: found.cpu_seconds, 3),
    ]


def _over_goals(parts: Iterable[ByLength], entry: Entry, digits: int) -> Cell:
    """Means over the goals of all lengths."""
    means = []
    for part in parts:
        known = [(value, found.goals) for found in part.values() if (value := entry(found)) is not None]
        if known:
            means.append(sum(value * goals for value, goals in known) / sum(goals for _, goals in known))
    return Spread(mean(means), digits=digits) if means else None
