"""What the README and docs/results.md show: the paper's entries, run or not, with ours beside them."""

from collections.abc import Sequence

from howm.experiments.plan import PAPER_METHODS
from howm.report.published import PAPER_WORLDS, library_sizes
from howm.report.results_folder import Results, control, ended, in_paper, minutes, score
from howm.report.table import Cell, Column, Table
from howm.report.tables.entries import COSTS, ENCODER, LEGEND, POOLS, cell, costs, notes, papers, scores, steps_of
from howm.runs.result import RunResult


def glance(results: Results) -> Table:
    """All methods at one size, in few columns: for the top of the README."""
    env, n, k = "shapes", 10, 5
    columns = (
        *(Column("method", code=True), Column("seeds"), Column("the paper has")),
        *(Column(pool, bar=True) for pool in POOLS.values()),
        COSTS[0],
    )
    everything = [run for run in (*results.grid, *results.variants) if (run.world, run.n, run.k) == (env, n, k)]
    rows: list[tuple[Cell, ...]] = []
    for method, name in rows_of(everything):
        runs = [run for run in everything if run.name == name]
        theirs = papers(env, name, n, k) if name == method else None
        pools = [cell(runs, score(part, "5")) for part in POOLS]
        rows.append((name, len(ended(runs)), theirs, *pools, cell(runs, minutes)))
    still = [run for run in everything if run.name == ENCODER]
    pools = [cell(still, control("do_nothing", part, "5")) for part in POOLS]
    rows.append(("do_nothing", len(ended(still)), None, *pools, None))
    note = (
        "Shapes, N=10, K=5: MRR in percent of predictions five steps ahead in unseen scenes. `do_nothing` is "
        f"the control: what `{ENCODER}` would score if it predicted that nothing moves. {notes(everything)}"
    )
    return Table("At a glance", note.strip(), columns, tuple(rows))


def rows_of(runs: Sequence[RunResult], *more: str) -> list[tuple[str, str]]:
    """Methods of runs and more, each followed by its variants: the name of the method, and its own."""
    found = {(run.method, run.name) for run in runs} | {(method, method) for method in more}
    return sorted(found, key=lambda row: ((*PAPER_METHODS, row[0]).index(row[0]), row[0], row[0] != row[1], row[1]))


def overview(results: Results, env: str) -> Table:
    """All methods at the paper's sizes, run or not, and all else that was run on one world, in a line each."""
    columns = (
        *(Column("method", code=True), Column("N"), Column("seeds"), Column("paper, 5 steps")),
        *steps_of("unseen, hard pool"),
        *steps_of("training scenes, hard pool"),
        *steps_of("unseen, paper's pool"),
        *COSTS,
    )
    everything = [*results.paper(env), *(run for run in results.variants if run.world == env and in_paper(run))]
    rows = []
    papers_own = PAPER_METHODS if env in PAPER_WORLDS else ()
    for method, name in rows_of(everything, *papers_own):
        sizes = {run.n for run in everything if run.name == name}
        for n in sorted({*sizes, *library_sizes(env)} if name == method else sizes):
            runs = [run for run in everything if (run.name, run.n) == (name, n)]
            head = (name, n, len(ended(runs)), papers(env, name, n, 5) if name == method else None)
            pools = [*scores(runs, "hard"), *scores(runs, "hard", part="training"), *scores(runs, "paper")]
            rows.append((*head, *pools, *costs(runs)))
    note = f"K=5, MRR in percent. {LEGEND} {notes(everything)}".strip()
    return Table(results.world_title(env), note, columns, tuple(rows), 2)
