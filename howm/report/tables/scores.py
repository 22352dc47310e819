"""The scores of what was run, a line for each library size and method, with the run's own control beside it."""

from collections.abc import Sequence

from howm.report.published import MEMORY_GB
from howm.report.results_folder import Measure, Results, control, ended, gap_of, megabytes, minutes, score
from howm.report.table import Cell, Column, Table
from howm.report.tables.entries import POOLS, Theirs, cell, notes, papers
from howm.runs.result import Pool, RunResult

_PAPERS: dict[str, Theirs] = {"1": lambda p: p.mrr_1, "5": lambda p: p.mrr_5}


def score_table(results: Results, world: str, k: int, pool: Pool) -> Table:
    """MRR in unseen scenes; in the paper's pool with the paper's numbers beside the runs that they belong to."""
    runs = results.of(world, k)
    steps, main = _steps(runs), results.headline_steps() or "5"
    theirs: dict[str, Theirs] = {f"MRR, {s}": _PAPERS[s] for s in steps if s in _PAPERS} if pool == "paper" else {}
    if theirs:
        theirs |= {"H@1, 5": lambda p: p.h1_5, "gap, 5": lambda p: p.gap_5}
    rows: list[tuple[Cell, ...]] = []
    for n, method, some in _lines(results, runs):
        ours = [cell(some, score(pool, s)) for s in steps]
        more = [cell(some, score(pool, main, "h1")), cell(some, gap_of(pool, main), sign=True)]
        still = [cell(some, control("do_nothing", pool, s)) for s in steps]
        reported = [papers(world, method, n, k, read) for read in theirs.values()]
        rows.append((n, method, len(ended(some)), *ours, *more, *still, *reported))
    columns = (
        *(Column("N"), Column("method", code=True), Column("seeds")),
        *(Column(s, "MRR after steps", bar=True) for s in steps),
        *(Column("H@1", f"after {main}"), Column("gap", f"after {main}")),
        *(Column(s, "doing nothing, after steps") for s in steps),
        *(Column(name, "the paper reports") for name in theirs),
    )
    fixed = len(columns) - len(theirs)
    if theirs and not any(entry is not None for row in rows for entry in row[fixed:]):
        columns, rows = columns[:fixed], [row[:fixed] for row in rows]
    note = (
        "Percent in unseen scenes, mean ± standard deviation over seeds. Gap: training scenes minus unseen ones. Doing "
        f"nothing: what the run's own encoder scores when no change is predicted. {notes(runs)}"
    )
    return Table(f"{results.study_title(world, k)}, {POOLS[pool]}", note.strip(), columns, tuple(rows), 2)


def _steps(runs: Sequence[RunResult]) -> list[str]:
    """All numbers of steps that were measured."""
    return sorted({s for run in ended(runs) for s in run.scores["unseen"]["hard"]}, key=int)


def _lines(results: Results, runs: Sequence[RunResult]) -> list[tuple[int, str, list[RunResult]]]:
    """What was run: library size, method and the runs, in the order of the tables."""
    order = results.methods()
    found = sorted({(run.n, order.index(run.method)) for run in runs})
    return [(n, order[i], [run for run in runs if (run.n, run.method) == (n, order[i])]) for n, i in found]


CONTROLS = {"oracle": "oracle", "random": "random", "constant": "constant"}


def control_table(results: Results, world: str, k: int) -> Table:
    """What needs no encoder: the ceiling of every query, and what luck and ties would score."""
    runs = ended(results.of(world, k))
    steps = _steps(runs)
    columns = (
        *(Column("N"), Column("control"), Column("references")),
        *(Column(s, f"{name} after steps", bar=True) for name in POOLS.values() for s in steps),
    )
    rows: list[tuple[Cell, ...]] = []
    for n, name, size in sorted({(run.n, name, run.references) for run in runs for name in CONTROLS},
                                key=lambda line: (line[0], list(CONTROLS).index(line[1]), -line[2])):  # fmt: skip
        some = [run for run in runs if (run.n, run.references) == (n, size) and name in run.controls]
        entries = [cell(some, control(name, pool, s), 2) for pool in POOLS for s in steps]
        rows += [(n, CONTROLS[name], f"{size:,}", *entries)] if some else []
    note = "MRR in percent. The oracle simulates the world; random and constant encoders show what luck and ties score."
    return Table(f"{results.study_title(world, k)}, controls", f"{note} {notes(runs)}".strip(), columns, tuple(rows), 3)


def cost_table(results: Results, world: str, k: int) -> Table:
    """Time, memory and size; the paper's memory is that of a GPU."""
    runs = results.of(world, k)
    kinds: dict[str, tuple[Measure, int]] = {
        "CPU minutes": (minutes, 1),
        "peak MB": (megabytes, 0),
        "thousand parameters": (lambda run: None if run.parameters is None else run.parameters / 1000, 0),
    }
    lines = _lines(results, runs)
    theirs = [MEMORY_GB.get(method) if (world, k, n) == ("shapes", 5, 20) else None for n, method, _ in lines]
    rows = [
        (n, method, len(ended(some)), *(cell(some, measure, digits) for measure, digits in kinds.values()))
        for n, method, some in lines
    ]
    columns = (Column("N"), Column("method", code=True), Column("seeds"), *(Column(name) for name in kinds))
    note = "Of the process that trains, on CPU cores."
    if any(theirs):
        columns = (*columns, Column("the paper, GPU"))
        rows = [(*row, None if gb is None else f"{gb} GB") for row, gb in zip(rows, theirs, strict=True)]
    return Table(f"{results.study_title(world, k)}, cost", f"{note} {notes(runs)}".strip(), columns, tuple(rows), 2)
