"""The table of objects anywhere is read off the committed results."""

from pathlib import Path

from howm.report.formats import to_markdown
from howm.report.results_folder import read_results
from howm.report.tables.positions import positions_table

RESULTS = Path(__file__).parents[2] / "results"


def test_runs_that_know_positions_are_listed_with_their_references() -> None:
    results = read_results(RESULTS)
    table = positions_table(results)
    known = [run for run in results.grid if run.binding is not None and run.binding.position_error]
    assert {(run.world_title, run.n, run.k) for run in known} == {row[1:4] for row in table.rows if row[0] == "howm"}
    for row in table.rows:
        runs = [run for run in known if (run.name, run.world_title, run.n, run.k) == row[:4]]
        if runs:
            assert row[4:6] == (len(runs), min(run.references for run in runs))
    assert "pixels off" in to_markdown(table)
