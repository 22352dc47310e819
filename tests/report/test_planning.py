"""What was reached by planning, in the report."""

import shutil
from pathlib import Path

import pytest

from howm.errors import HowmError
from howm.report.figures import draw_figures
from howm.report.results_folder import read_results
from howm.report.tables.planning import planning_table
from howm.runs.plan_result import REFERENCES, read_plan_result, write_plan_result

RESULTS = Path(__file__).parents[2] / "results"
PLAN = Path("planning", "shapes-n10-k5", "howm-seed0-search.json")


@pytest.fixture
def folder(tmp_path):
    for path in (Path("shapes-n10-k5", "howm-seed0.json"), PLAN):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(RESULTS / path, tmp_path / path)
    return tmp_path


def test_a_table_and_a_chart(folder):
    results = read_results(folder)
    (stored,) = results.planning
    table = planning_table(results)
    assert [row[4] for row in table.rows] == ["search", *REFERENCES]
    assert [row[3] for row in table.rows] == ["howm"] * 5
    shown = table.rows[0][6]
    assert shown.mean == stored.unseen["1-5"].success
    assert table.rows[0][5] == sum(found.goals for found in stored.unseen.values())
    (figure,) = (one for one in draw_figures(results) if one.title == "Success by optimal length")
    assert "random actions" in figure.panels[0]
    assert dict(figure.legend).keys() == {stored.method_title, "random actions"}


def test_results_without_plans_have_neither(folder):
    shutil.rmtree(folder / "planning")
    results = read_results(folder)
    assert not planning_table(results).rows
    assert "Success by optimal length" not in {figure.title for figure in draw_figures(results)}


def test_plans_in_the_directories_of_runs_count_too(folder):
    stored = read_plan_result(folder / PLAN)
    run = folder / "runs" / "shapes-n10-k5" / "howm-seed0"
    run.mkdir(parents=True)
    write_plan_result(stored, run / "plan-search.json")
    assert len(read_results(folder).planning) == 1  # the same one
    (folder / PLAN).unlink()
    assert read_results(folder).planning == (stored,)
    (run / "plan-search.json").write_text("{}")
    with pytest.raises(HowmError, match=r"plan-search\.json is not a result of planning"):
        read_results(folder)
