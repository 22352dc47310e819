"""The paper's tables, with ours beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

from howm.experiments.plan import PAPER_METHODS
from howm.report.published import MEMORY_GB, library_sizes
from howm.report.results_folder import Measure, Results, control, ended, gap_of, in_paper, megabytes, minutes, score
from howm.report.table import Cell, Column, Table
from howm.report.tables.entries import (
    COSTS,
    ENCODER,
    LEGEND,
    POOLS,
    STEPS,
    Theirs,
    cell,
    costs,
    notes,
    papers,
    scores,
    sizes_of,
    steps_of,
)
from howm.runs.result import Pool, RunResult

# The paper's tables: methods below each other, library sizes beside each other.


@dataclass(frozen=True)
class Measured:
    """One column under each library size: how to read it off a run and off the paper."""

    name: str
    of: Measure
    theirs: Theirs | None = None
    still: Measure = lambda run: None  # the same of predicting no change
    digits: int = 1
    sign: bool = False


def paper_table(results: Results, env: str, title: str, note: str, measured: Sequence[Measured]) -> Table:
    """All methods of one world, the paper's numbers under ours where it has some; last, what they must beat."""
    runs = results.paper(env)
    sizes = sizes_of(env, runs)
    columns = [Column("method", code=True), Column("")]
    for n in sizes:
        columns += [Column("seeds", f"N = {n}")]
        columns += [Column(one.name, f"N = {n}", bar=not one.sign) for one in measured]
    rows: list[tuple[Cell, ...]] = []
    for method in results.methods(env):
        cells = {n: results.of(env, 5, n, method) for n in sizes}
        ours: list[Cell] = []
        theirs: list[Cell] = []
        for n, found in cells.items():
            ours += [len(ended(found)) or None, *(cell(found, one.of, one.digits, one.sign) for one in measured)]
            theirs += [None, *(papers(env, method, n, 5, one.theirs) for one in measured)]
        rows.append((method, "ours", *ours))
        if any(entry is not None for entry in theirs):
            rows.append((method, "paper", *(entry if entry is not None else "" for entry in theirs)))
    still: list[Cell] = []
    for n in sizes:
        found = results.of(env, 5, n, ENCODER)
        still.append(len(ended(found)) or None)
        still += [cell(found, one.still, one.digits) for one in measured]
    rows.append(("do_nothing", "control", *still))
    note += f" do_nothing predicts no change, with the encoder of {ENCODER}."
    return Table(title, f"{note} {LEGEND} {notes(runs)}".strip(), tuple(columns), tuple(rows), labels=2)


_PAPERS: dict[str, Theirs] = {"1": lambda p: p.mrr_1, "5": lambda p: p.mrr_5}
_NUMBERS = {"shapes": "Table 1", "rush_hour": "Table 2"}


def mrr_table(results: Results, env: str, pool: Pool) -> Table:
    theirs = pool == "paper"
    number = f" ({_NUMBERS[env]} of the paper)" if theirs and env in _NUMBERS else ""
    title = f"{results.world_title(env)}, MRR in the {POOLS[pool]}{number}"
    note = "Percent on unseen scenes after 1, 5 and 10 steps; gap: training scenes minus unseen scenes after 5."
    measured = [
        Measured(k, score(pool, k), _PAPERS.get(k) if theirs else None, control("do_nothing", pool, k)) for k in STEPS
    ]
    gap = Measured("gap", gap_of(pool, "5"), (lambda p: p.gap_5) if theirs else None, sign=True)
    return paper_table(results, env, title, note, [*measured, gap])


def h1_table(results: Results, env: str, pool: Pool) -> Table:
    theirs = pool == "paper" and env in _NUMBERS
    title = f"{results.world_title(env)}, H@1 in the {POOLS[pool]}" + (" (the paper's appendix)" if theirs else "")
    note = "Percent on unseen scenes after 1, 5 and 10 steps."
    if theirs:
        note += " The appendix has H@1 after 5 steps only; HOWM's rows, which it swaps, are swapped back."
    measured = [
        Measured(k, score(pool, k, "h1"), (lambda p: p.h1_5) if theirs and k == "5" else None,
                 control("do_nothing", pool, k, "h1"))
        for k in STEPS
    ]  # fmt: skip
    return paper_table(results, env, title, note, measured)


CONTROLS = {"do_nothing": "do nothing", "oracle": "oracle", "random": "random", "constant": "constant"}


def control_table(results: Results, env: str, pool: Pool) -> Table:
    """What a model must beat. Doing nothing is seen through the encoder of each model; the others are not."""
    runs = ended(results.paper(env))
    sizes = sizes_of(env, results.paper(env))
    columns = [Column("control"), Column("of")]
    columns += [Column(k, f"N = {n}", bar=True) for n in sizes for k in STEPS]
    rows: list[tuple[Cell, ...]] = []

    def add(name: str, label: str, some: list[RunResult]) -> None:
        read = {k: control(name, pool, k) for k in STEPS}
        found = [cell([run for run in some if run.n == n], read[k], 2) for n in sizes for k in STEPS]
        rows.append((CONTROLS[name], label, *found))

    for name in CONTROLS:
        if name == "do_nothing":
            for method in results.methods(env):
                add(name, method, [run for run in runs if run.method == method])
        else:
            for size in sorted({run.references for run in runs}, reverse=True):
                add(name, f"{size:,} references", [run for run in runs if run.references == size])
    note = "MRR in percent after 1, 5 and 10 steps. Doing nothing is the model's own encoding of the first frame."
    return Table(
        f"{results.world_title(env)}, controls in the {POOLS[pool]}", f"{note} {LEGEND}", tuple(columns), tuple(rows), 2
    )


def cost_table(results: Results, env: str) -> Table:
    """Memory, time and size of all methods; the paper's memory is that of a GPU."""
    sizes = sizes_of(env, results.paper(env))
    kinds: dict[str, tuple[Measure, int]] = {
        "peak memory, MB": (megabytes, 0),
        "training, CPU minutes": (minutes, 1),
        "parameters, thousands": (lambda run: None if run.parameters is None else run.parameters / 1000, 0),
    }
    columns = [Column("method", code=True), Column("")]
    columns += [Column(f"N = {n}", group) for group in kinds for n in sizes]
    rows: list[tuple[Cell, ...]] = []
    for method in results.methods(env):
        found = [results.of(env, 5, n, method) for n in sizes]
        theirs = MEMORY_GB.get(method) if env == "shapes" else None
        ours = [cell(some, measure, digits) for measure, digits in kinds.values() for some in found]
        rows.append((method, "ours", *ours))
        if theirs is not None:
            blank = [""] * (len(sizes) * (len(kinds) - 1))
            rows.append((method, "paper", *(f"{theirs} GB" if n == 20 else "" for n in sizes), *blank))
    note = "Of the process that trains, on CPU cores."
    if env == "shapes":
        note += " The paper gives GPU memory at N = 20."
    return Table(f"{results.world_title(env)}, cost", f"{note} {LEGEND}", tuple(columns), tuple(rows), 2)


# Tables of one line for each cell.


def glance(results: Results) -> Table:
    """All methods at one size, in few columns: for the top of the README."""
    env, n, k = "shapes", 10, 5
    columns = (
        *(Column("method", code=True), Column("seeds"), Column("the paper has")),
        *(Column("paper's pool", bar=True), Column("hard pool", bar=True), COSTS[0]),
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
        *steps_of("unseen, paper's pool"),
        *steps_of("unseen, hard pool"),
        *steps_of("training scenes, hard pool"),
        *COSTS,
    )
    everything = [*results.paper(env), *(run for run in results.variants if run.world == env and in_paper(run))]
    rows = []
    for method, name in rows_of(everything, *results.methods(env)):
        sizes = {run.n for run in everything if run.name == name}
        for n in sorted({*sizes, *library_sizes(env)} if name == method else sizes):
            runs = [run for run in everything if (run.name, run.n) == (name, n)]
            head = (name, n, len(ended(runs)), papers(env, name, n, 5) if name == method else None)
            pools = [*scores(runs, "paper"), *scores(runs, "hard"), *scores(runs, "hard", part="training")]
            rows.append((*head, *pools, *costs(runs)))
    note = f"K=5, MRR in percent. {LEGEND} {notes(everything)}".strip()
    return Table(results.world_title(env), note, columns, tuple(rows), 2)
