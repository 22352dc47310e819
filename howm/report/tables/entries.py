"""What an entry of a table holds, and the columns that tables share."""

from collections.abc import Callable, Sequence

from howm.report.published import Published, out_of_memory, published
from howm.report.results_folder import Measure, diagnosed, ended, gap_of, megabytes, minutes, score
from howm.report.table import Cell, Column, Spread
from howm.runs.result import Failure, Part, Pool, RunResult

Theirs = Callable[[Published], float | None]

POOLS: dict[Pool, str] = {"hard": "hard pool", "paper": "paper's pool"}
STEPS = ("1", "5", "10")
ENCODER = "howm"  # through whose encoder doing nothing is seen, where one row stands for all
LEGEND = "– has not been run; OM is out of memory."


def cell(runs: Sequence[RunResult], measure: Measure, digits: int = 1, sign: bool = False) -> Cell:
    """The runs that ended well, where some did; else why none did."""
    values = [found for run in ended(runs) if (found := measure(run)) is not None]
    if values:
        return Spread.of(values, digits, sign)
    statuses = {run.status for run in runs} - {"ok"}
    return None if ended(runs) or not statuses else "OM" if "OM" in statuses else "failed"


def scores(
    runs: Sequence[RunResult], pool: Pool, steps: Sequence[str] = STEPS, part: Part = "unseen"
) -> list[Cell]:  # fmt: skip
    return [cell(runs, score(pool, k, part=part)) for k in steps]


def worst(runs: Sequence[RunResult], measure: Measure) -> Cell:
    values = [found for run in ended(runs) if (found := measure(run)) is not None]
    return Spread(min(values), seeds=len(values), digits=2) if values else None


def binding(runs: Sequence[RunResult]) -> list[Cell]:
    """Extraction and binding of the worst seed."""
    return [worst(runs, diagnosed(stage)) for stage in ("extraction", "binding")]


def gap(runs: Sequence[RunResult]) -> Cell:
    """Training scenes minus unseen ones."""
    return cell(runs, gap_of("hard", "5"), sign=True)


def costs(runs: Sequence[RunResult]) -> list[Cell]:
    return [cell(runs, minutes), cell(runs, megabytes, 0)]


BINDING = (Column("extraction", "worst seed, %"), Column("binding", "worst seed, %"))
COSTS = (Column("CPU minutes"), Column("MB"))
GAP = Column("gap, hard pool, 5 steps")


def steps_of(group: str, steps: Sequence[str] = STEPS) -> tuple[Column, ...]:
    return tuple(Column(k, f"{group} after steps", bar=True) for k in steps)


def papers(env: str, method: str, n: int, k: int, read: Theirs | None = lambda p: p.mrr_5) -> Cell:
    """The paper's number, as it stands there; nothing of what it does not report."""
    if read is None:
        return None
    if out_of_memory(env, method, n, k):
        return "OM"
    found = published(env, method, n, k)
    number = None if found is None else read(found)
    return None if number is None else str(number)


# What has to be said beside the numbers.


def notes(runs: Sequence[RunResult]) -> str:
    """What a reader of a table of these runs must know of them."""
    said = []
    if any(run.n == run.k for run in runs):
        said.append("At N = K there is one scene, so nothing is unseen.")
    pools: dict[int, set[str]] = {}
    sizes = {(run.name, run.references) for run in ended(runs)}
    several = {name for name, size in sizes if any(other == name and size != its for other, its in sizes)}
    for run in ended(runs):
        where = f" ({run.world_title} with K={run.k})" if run.name in several else ""
        pools.setdefault(run.references, set()).add(f"{run.name}{where}")
    if len(pools) > 1:
        most = max(pools, key=lambda size: len(pools[size]))
        parts = [f"{', '.join(sorted(pools[size]))} among {size:,}" for size in sorted(pools) if size != most]
        said.append(f"References differ: {'; '.join(parts)}; the others among {most:,}.")
    versions = {run.evaluation_version or 0 for run in ended(runs)}
    for version in sorted(versions - {max(versions, default=0)}):
        old: dict[str, set[int]] = {}
        for run in ended(runs):
            if (run.evaluation_version or 0) == version:
                old.setdefault(run.name, set()).add(run.n)
        names = "; ".join(f"{name}, N={', '.join(map(str, sorted(sizes)))}" for name, sizes in sorted(old.items()))
        said.append(f"By an earlier version of the evaluation ({version}), with other near misses: {names}.")
    queries = {run.queries or run.references for run in ended(runs)}
    if any(run.queries for run in ended(runs)):
        some = " to ".join(f"{count:,}" for count in sorted({min(queries), max(queries)}))
        said.append(f"Queries that were ranked among the references: {some}.")
    knowing = sorted({run.name for run in runs if run.privileged})
    if knowing:
        said.append(f"Privileged, given which objects are in the scene: {', '.join(knowing)}.")
    lost: dict[tuple[str, str], list[str]] = {}
    worlds = len({run.world for run in runs}) > 1
    for run in runs:
        if run.status != "ok":
            name = f"{run.name}, {f'{run.world_title}, ' * worlds}N={run.n}"
            lost.setdefault((name, _reason(run)), []).append(str(run.seed))
    said += [f"{name}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}: {why}." for (name, why), seeds in lost.items()]
    return " ".join(said)


def _reason(run: RunResult) -> str:
    failure = run.failure or Failure()
    if run.status == "OM":
        limit = failure.memory_limit_mb
        return "out of memory" if limit is None else f"out of {limit:,.0f} MB of memory"
    return f"failed ({failure.reason or 'no reason was given'})"


def setting(runs: Sequence[RunResult]) -> str:
    """The worlds, sizes and pools of some runs, as far as they have them in common."""
    worlds = dict.fromkeys(run.world_title for run in runs)
    sizes, objects = {run.n for run in runs}, {run.k for run in runs}
    pools = {run.references for run in ended(runs)}
    parts = [", ".join(worlds)]
    parts += [f"{name}={next(iter(found))}" for name, found in (("N", sizes), ("K", objects)) if len(found) == 1]
    parts += [f"{next(iter(pools)):,} references"] if len(pools) == 1 else []
    return ", ".join(parts)
