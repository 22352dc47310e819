"""Where models say where objects are: what is found, what is predicted, and how far off, in pixels."""

from howm.report.results_folder import Measure, Results, diagnosed, ended, lost_to, score
from howm.report.table import Cell, Column, Table
from howm.report.tables.entries import LEGEND, STEPS, cell, costs, scores, steps_of, worst
from howm.runs.result import RunResult

_STAGES = ("extraction", "binding", "transition")


def position_error(name: str) -> Measure:
    return lambda run: None if run.binding is None else run.binding.position_error.get(name)


def known(name: str) -> Measure:
    """The share of all objects, hidden or not, that are known after some frames."""
    return lambda run: None if run.binding is None else run.binding.memory.get(name)


def positions_table(results: Results) -> Table:
    """HOWM with structured states: without a grid, and where an action moves other objects as well."""
    columns = (
        *(
            Column("method", code=True),
            Column("world"),
            Column("N"),
            Column("K"),
            Column("seeds"),
            Column("references"),
        ),
        *(Column("frames", "one slot each, worst seed, %"), Column("visible objects", "one slot each, worst seed, %")),
        *steps_of("hard pool"),
        Column("worst seed, hard, 5 steps"),
        *(Column(stage, "MRR lost to, hard pool") for stage in _STAGES),
        *(Column(k, "pixels off after steps") for k in STEPS),
        *(Column("1 frame", "objects known after, %"), Column("5 frames", "objects known after, %")),
        Column("CPU minutes"),
    )
    found = [
        run for run in (*results.grid, *results.variants) if run.binding is not None and run.binding.position_error
    ]
    rows = []
    for key in dict.fromkeys((run.name, run.world, run.n, run.k) for run in found):
        runs = [run for run in found if (run.name, run.world, run.n, run.k) == key]
        rows.append((key[0], results.world_title(key[1]), *key[2:], len(ended(runs)), _references(runs), *_cells(runs)))
    note = (
        "Unseen scenes, MRR in percent. Objects of which less than a quarter is visible do not count in extraction; of "
        "those that are known, hidden ones do."
    )
    return Table("Objects anywhere", f"{note} {LEGEND}", columns, tuple(rows), 4)


def _references(runs: list[RunResult]) -> Cell:
    """Among how many states predictions were ranked, in the run with the fewest."""
    return min((run.references for run in ended(runs)), default=None)


def _cells(runs: list[RunResult]) -> list[Cell]:
    cells = [worst(runs, diagnosed(name)) for name in ("extraction", "visible_objects")]
    cells += [*scores(runs, "hard"), worst(runs, score("hard", "5"))]
    cells += [cell(runs, lost_to(stage), 2) for stage in _STAGES]
    cells += [cell(runs, position_error(f"after_{k}"), 2) for k in STEPS]
    cells += [cell(runs, known(name), 2) for name in ("one_frame", "5_frames")]
    return [*cells, costs(runs)[0]]
