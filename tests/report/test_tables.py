"""Tables of hand-made results, whose numbers are known; and what their five formats say of them."""

import csv
import io
import json
from pathlib import Path

import pytest

from howm.config import from_plain, read_yaml
from howm.errors import HowmError
from howm.experiments.plan import PAPER_METHODS, SweepConfig
from howm.models.registry import METHODS
from howm.report.formats import FORMATS, csv_file, latex, to_json, to_latex, to_markdown
from howm.report.html import to_html
from howm.report.provenance import provenance
from howm.report.published import library_sizes, out_of_memory, published
from howm.report.results_folder import read_results
from howm.report.splits import certificate_table
from howm.report.table import Column, Spread, Table, as_text
from howm.report.tables.all import readme_tables, report_tables
from howm.report.tables.beyond import ABLATION
from howm.report.tables.entries import notes
from howm.report.tables.ladder import ladder_table, split_table
from howm.report.tables.paper import glance
from howm.report.tables.scores import score_table
from howm.runs.plan_result import read_plan_result
from howm.runs.result import read_result, result_from_json, write_result

ROOT = Path(__file__).parents[2]


TITLES = {**{name: METHODS[name].title for name in METHODS}, "shapes": "Shapes", "rush_hour": "Rush Hour"}
STEPS = ("1", "5", "10")


def metrics(mrr=90.0, h1=None):
    return {"h1": mrr - 10 if h1 is None else h1, "h5": 99.0, "h10": 99.0, "mrr": mrr, "mrr_ci": [mrr, mrr]}


def pools(mrr=90.0, h1=None, steps=STEPS):
    return dict.fromkeys(("paper", "hard"), dict.fromkeys(steps, metrics(mrr, h1)))


def result(method="cswm-n", world="shapes", n=10, k=5, seed=0, mrr=90.0, **more):
    """A result as `howm eval` writes it, with one MRR everywhere."""
    return {
        **{"version": 2, "status": "ok", "method": method, "method_title": TITLES.get(method, method)},
        **{"world": world, "world_title": TITLES.get(world, world), "n": n, "k": k, "seed": seed, "preset": "cpu"},
        **{"unseen": "eval scenes are unseen in training", "hard_pool": "near misses", "references": 1000},
        **{"scenes": 100, "scores": dict.fromkeys(("unseen", "training"), pools(mrr))},
        "gap": dict.fromkeys(("paper", "hard"), dict.fromkeys(STEPS, -1.5)),
        "controls": dict.fromkeys(("do_nothing", "random", "constant", "oracle"), pools(10.0, 1.0)),
        **{"best_step": 20, "training_steps": 20, "parameters": 12_000},
        "costs": {"train_seconds": 90.0, "train_cpu_seconds": 60.0, "peak_memory_mb": 300.0},
        **{"data": {"hash": "abc", "seed": seed}, "versions": {"howm": "0.1.0", "commit": "c0ffee"}},
        **{"config": {"train": {"steps": 20, "same_scene": 0.5}}, "curve": [{"step": 10, "held_out_loss": 0.5}]},
        **more,
    }


def record(values):
    return result_from_json(values, "a result")


def failure(status="failed", **more):
    about = {"reason": "no luck & no money"} if status == "failed" else {"memory_limit_mb": 4000.0}
    kept = ("version", "method", "method_title", "world", "world_title", "n", "k", "seed")
    return {"status": status, **{key: result(**more)[key] for key in kept}, "failure": about}


def save(folder: Path, *runs: dict) -> Path:
    for run in runs:
        name = run.get("variant", run["method"])
        path = folder / f"{run['world']}-n{run['n']}-k{run['k']}" / f"{name}-seed{run['seed']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run), encoding="utf-8")
    return folder


def entries(table: Table, n: int, method: str, group: str) -> list[str]:
    """What a line of a table of scores has in one group of columns."""
    (row,) = [row for row in table.rows if row[:2] == (n, method)]
    return [
        "missing" if cell is None else str(cell)
        for column, cell in zip(table.columns, row, strict=True)
        if column.group == group
    ]


MRR, REPORTED = "MRR after steps", "the paper reports"


def test_scores_are_means_over_seeds_with_the_papers_beside_the_runs_they_belong_to(tmp_path):
    save(tmp_path, result(mrr=90.0), result(mrr=94.0, seed=1), result("howm-paper", n=20, mrr=100.0), result("howm"))
    table = score_table(read_results(tmp_path), "shapes", 5, "paper")
    assert [row[:3] for row in table.rows] == [(10, "cswm-n", 2), (10, "howm", 1), (20, "howm-paper", 1)]  # and no more
    assert entries(table, 10, "cswm-n", MRR) == ["92.0 ± 2.8"] * 3
    assert entries(table, 10, "cswm-n", "after 5") == ["82.0 ± 2.8", "−1.5 ± 0.0"]
    assert [column.name for column in table.columns if column.group == REPORTED] == [
        *("MRR, 1", "MRR, 5", "H@1, 5", "gap, 5")
    ]
    assert entries(table, 10, "cswm-n", REPORTED) == ["100.0", "99.9", "99.8", "0.0"]
    assert entries(table, 20, "howm-paper", REPORTED) == ["99.7", "75.1", "66.3", "22.9"]
    assert entries(table, 10, "howm", REPORTED) == ["missing"] * 4


def test_the_paper_says_nothing_of_the_hard_pool_nor_of_what_it_has_not_run(tmp_path):
    save(tmp_path, result(), result("howm", n=6, k=3), result("mine", "billiards"))
    results = read_results(tmp_path)
    for world, k, pool in (("shapes", 5, "hard"), ("shapes", 3, "paper"), ("billiards", 5, "paper")):
        assert REPORTED not in {column.group for column in score_table(results, world, k, pool).columns}


def test_every_run_has_its_own_control_beside_it(tmp_path):
    save(tmp_path, result("howm", controls={"do_nothing": pools(30.0, 20.0)}), result("cswm-n", controls={}))
    table = score_table(read_results(tmp_path), "shapes", 5, "hard")
    assert entries(table, 10, "howm", "doing nothing, after steps") == ["30.0"] * 3
    assert entries(table, 10, "cswm-n", "doing nothing, after steps") == ["missing"] * 3
    assert "the run's own encoder" in table.note


def test_what_did_not_end_well_is_named(tmp_path):
    runs = [failure("OM", n=20), failure(n=30), result(n=10), failure(n=10, seed=1)]
    table = score_table(read_results(save(tmp_path, *runs)), "shapes", 5, "hard")
    assert entries(table, 20, "cswm-n", MRR) == ["OM"] * 3
    assert entries(table, 30, "cswm-n", MRR) == ["failed"] * 3
    assert entries(table, 10, "cswm-n", MRR) == ["90.0"] * 3  # of the seed that ended well
    assert "cswm-n, N=30, seed 0: failed (no luck & no money)." in table.note
    assert "cswm-n, N=20, seed 0: out of 4,000 MB of memory." in table.note
    assert "cswm-n, N=10, seed 1: failed" in table.note


def test_the_steps_of_a_table_are_those_that_were_measured(tmp_path):
    run = result(scores=dict.fromkeys(("unseen", "training"), pools(steps=("1", "3"))), gap={"hard": {"3": 2.0}})
    table = score_table(read_results(save(tmp_path, run)), "shapes", 5, "hard")
    assert entries(table, 10, "cswm-n", MRR) == ["90.0", "90.0"]
    assert entries(table, 10, "cswm-n", "after 3") == ["80.0", "+2.0"]  # the most, where it was not measured after five


def test_every_table_says_which_runs_an_earlier_evaluation_measured(tmp_path):
    masks = {"foreground_ari": 90.0, "matched_iou": 50.0}
    stages = {
        **{"extraction": 99.0, "binding": 99.0, "weight": 99.0, "absent_to_background": None, "steps": 5},
        **{"hard_mrr": {"model": 90.0}, "lost_to": {"binding": 1.0}, "pixel_error": {}},
    }
    versions = [
        result("howm", n=n, evaluation_version=version, segmentation=masks, binding=stages)
        for n, version in ((10, 1), (20, 2))
    ]
    save(tmp_path, *versions, *(run | {"variant": "mine"} for run in versions))
    for folder in ("negatives", "ablation", "few-scenes"):
        save(tmp_path / folder, *(run | {"training_scenes": 10} for run in versions))
    found = report_tables(read_results(tmp_path))
    assert len(found) == 8
    for table in (table for some in found.values() for table in some):
        assert "By an earlier version of the evaluation (1)" in table.note, table.title


def test_pools_of_different_size_and_scenes_that_are_not_unseen_are_noted():
    def said(*runs: dict) -> str:
        return notes([record(run) for run in runs])

    assert said(result(), result(seed=1)) == ""
    assert "monet-bm among 500; the others among 1,000" in said(result(), result("monet-bm", references=500))
    assert "nothing is unseen" in said(result(n=5))
    old, new = result(evaluation_version=1), result("howm", evaluation_version=2)
    assert "By an earlier version of the evaluation (1), with other near misses: cswm-n, N=10." in said(old, new)
    assert said(old, result(seed=1, evaluation_version=1)) == ""
    assert (
        said(result(queries=100), result(seed=1, queries=100)) == "Queries that were ranked among the references: 100."
    )
    assert "the references: 100 to 1,000." in said(result(queries=100), result("howm"))
    knowing = "Privileged, given which objects are in the scene: howm."
    assert said(result(), result("howm", privileged=True), result("howm", seed=1, privileged=True)) == knowing
    assert said(failure(), failure(seed=2)) == "cswm-n, N=10, seeds 0, 2: failed (no luck & no money)."


def test_every_world_and_number_of_objects_has_a_table(tmp_path):
    found = report_tables(read_results(save(tmp_path, result("howm", n=6, k=3), result("howm", n=300))))
    assert {table.title: [row[0] for row in table.rows] for table in found["Scores, hard pool"]} == {
        "Shapes, K = 3, hard pool": [6],
        "Shapes, K = 5, hard pool": [300],
    }
    assert list(found)[:2] == ["Scores, hard pool", "Scores, paper's pool"]


def test_a_variant_is_no_seed_of_its_method(tmp_path):
    changed = result("howm", mrr=40.0, variant="no-identity-loss")
    lost = {**failure(method="howm", seed=1), "variant": "no-identity-loss"}
    save(tmp_path, result("howm", mrr=100.0), changed, lost)
    results = read_results(tmp_path)
    assert entries(score_table(results, "shapes", 5, "paper"), 10, "howm", MRR) == ["100.0"] * 3
    (table,) = report_tables(results)["Variants"]
    ((name, *_, method, seeds, mrr), *others) = [row[:7] for row in table.rows]
    assert (name, method, seeds, str(mrr), others) == ("no-identity-loss", "howm", 1, "40.0", [])
    assert "no-identity-loss, N=10, seed 1: failed" in table.note


def test_the_readme_has_variants_under_their_methods_and_the_control_last(tmp_path):
    changed = result("cswm-slots", mrr=40.0, variant="cswm-slots-matched", references=500)
    still = {"do_nothing": {"paper": {"1": metrics(99.0)}, "hard": {}}}  # and not after five steps
    save(tmp_path, result("howm", variant="howm-changed", controls=still))
    save(tmp_path, result("howm", mrr=100.0), changed, result("cswm-slots", mrr=60.0), result("cswm-n", n=20))
    results = read_results(tmp_path)
    table = glance(results)
    names = ["cswm-slots", "cswm-slots-matched", "howm", "howm-changed", "do_nothing"]
    assert [row[0] for row in table.rows] == names
    assert [str(row[3]) for row in table.rows] == ["60.0", "40.0", "100.0", "90.0", "10.0"]
    assert table.rows[-1][1] == 1
    assert "cswm-slots-matched among 500; the others among 1,000" in table.note
    shapes = readme_tables(results)[0]
    run = [row[:2] for row in shapes.rows if row[2]]
    assert run == [("cswm-n", 20), *((name, 10) for name in names[:-1])]


def test_a_report_has_only_what_was_run_and_the_docs_have_all_of_the_papers_entries(tmp_path):
    results = read_results(save(tmp_path, result("howm", n=8), result("howm", variant="howm-changed")))
    for name, (table, *others) in report_tables(results).items():
        if name not in ("Variants", "Controls", "Negative sampling"):
            assert others == []
            assert [row[:2] for row in table.rows] == [(8, "howm")], name
    (shapes, *_) = readme_tables(results)
    sizes = [(row[0], row[1]) for row in shapes.rows if row[0] != "howm-changed"]
    expected = dict.fromkeys(PAPER_METHODS, (5, 10, 20, 30)) | {"howm": (5, 8, 10, 20, 30)}
    assert sizes == [(method, n) for method, some in expected.items() for n in some]
    assert [row[1] for row in shapes.rows if row[0] == "howm-changed"] == [10]
    (missing,) = [row for row in shapes.rows if row[:2] == ("cswm-slots", 20)]
    assert missing[2:] == (0, *[None] * 12)
    assert "– has not been run" in shapes.note


def test_controls_and_costs(tmp_path):
    found = report_tables(read_results(save(tmp_path, result(mrr=90.0), result(n=20), result("howm", n=20))))
    (cost,) = found["Cost"]
    assert [tuple(map(str, row)) for row in cost.rows] == [
        ("10", "cswm-n", "1", "1.0", "300", "12", "None"),
        ("20", "cswm-n", "1", "1.0", "300", "12", "8.1 GB"),
        ("20", "howm", "1", "1.0", "300", "12", "None"),
    ]
    (controls,) = found["Controls"]
    assert [row[:3] for row in controls.rows] == [
        (n, name, "1,000") for n in (10, 20) for name in ("oracle", "random", "constant")
    ]
    assert {str(entry) for entry in controls.rows[0][3:]} == {"10.00"}


def test_negatives_are_told_apart_by_the_names_of_their_variants(tmp_path):
    save(tmp_path, result())
    for name, mrr in (("controlled", 99.0), ("uncontrolled", 40.0)):
        save(tmp_path / "negatives", result(mrr=mrr, variant=name))
    (table,) = report_tables(read_results(tmp_path))["Negative sampling"]
    assert [(row[2], str(row[4]), str(row[5])) for row in table.rows] == [
        ("controlled", "89.0", "99.0"),
        ("uncontrolled", "30.0", "40.0"),
    ]


def test_a_gap_is_seen_where_training_had_few_scenes(tmp_path):
    run = result(training_scenes=10, gap={"hard": {"5": 12.5}})
    save(save(tmp_path, result()) / "few-scenes", run, result(world="rush_hour", training_scenes=10))
    (table,) = [table for table in report_tables(read_results(tmp_path))["Other scenes"] if "few" in table.title]
    assert [row[:5] for row in table.rows] == [("cswm-n", world, 10, "10", 1) for world in ("Shapes", "Rush Hour")]
    assert str(table.rows[0][-1]) == "+12.5"


def test_other_splits_and_sizes_are_no_seeds_of_the_papers(tmp_path):
    plain, pairs = result("howm", mrr=100.0), result("howm", mrr=40.0, seed=1, split="pairs")
    sizes = result("howm", mrr=30.0, seed=2, k=7, sizes="3-7")
    for run, setting in ((plain, "shapes-n10-k5"), (pairs, "shapes-n10-k5-pairs"), (sizes, "shapes-n10-k3-7")):
        write_result(record(run), tmp_path / setting / f"howm-seed{run['seed']}.json")
        assert record(run).place(tmp_path).parent.name == setting
    results = read_results(tmp_path)
    assert entries(score_table(results, "shapes", 5, "hard"), 10, "howm", MRR) == ["100.0"] * 3
    (table,) = report_tables(results)["Splits of other kinds"]
    assert [row[1:6] for row in table.rows] == [("Shapes", 10, "5", "pairs", 1), ("Shapes", 10, "3-7", "scenes", 1)]
    assert {row[1:4] for row in certificate_table(tmp_path, results).rows} == {
        (10, "5", "scenes"),
        (10, "5", "pairs"),
        (10, "3-7", "scenes"),
    }
    assert "K=3-7" in str(provenance(results))


def test_the_ladder_has_worlds_beside_each_other_and_ends_with_the_controls(tmp_path):
    runs = [result(method, world, mrr=mrr) for method, world, mrr in (("howm", "shapes", 90.0), ("howm", "free", 50.0))]
    runs += [result("howm", "grand", k=7, sizes="3-7"), result("cswm-n", "free", mrr=20.0)]
    save(save(tmp_path, result()) / "ladder", *runs, failure(world="grand"))
    results = read_results(tmp_path)
    assert len(results.grid) == 1  # where none of the ladder stands
    table = ladder_table(results)
    assert [column.name for column in table.columns] == ["method", "Shapes", "free", "grand"]
    assert [[as_text(cell) for cell in row] for row in table.rows] == [
        ["cswm-n", "–", "20.0", "failed"],
        ["howm", "90.0", "50.0", "90.0"],
        ["do_nothing", "10.0", "10.0", "10.0"],
        ["oracle", "10.0", "10.0", "10.0"],
    ]
    assert "N=10, K=5; grand with K=3-7" in table.note
    assert "cswm-n, howm 20; 1 seed." in table.note
    assert "Not run: rush_hour, push, team, classes, layers, textured, changing." in table.note
    assert "cswm-n, grand, N=10, seed 0: failed" in table.note
    assert ladder_table(results, "1").title != table.title


def test_splits_stand_beside_each_other_with_their_numbers_of_scenes(tmp_path):
    runs = [result(split="scenes", training_scenes=100), result(mrr=40.0, split="minimal", training_scenes=2, scenes=2)]
    save(tmp_path, result())
    for run in runs:
        write_result(record(run), record(run).place(tmp_path / "splits"))
    table = split_table(read_results(tmp_path))
    assert [column.group for column in table.columns[1::4]] == ["scenes, after steps", "minimal, after steps"]
    assert [as_text(cell) for cell in table.rows[0]] == ["cswm-n", *["90.0"] * 3, "−1.5", *["40.0"] * 3, "−1.5"]
    assert "minimal: 2 of training, 2 of evaluation" in table.note
    assert [row[0] for row in table.rows] == ["cswm-n", "do_nothing", "oracle"]


def test_a_folder_without_results_and_a_broken_result_are_one_error(tmp_path):
    with pytest.raises(HowmError, match="holds no results"):
        read_results(tmp_path)
    path = save(tmp_path, result()) / "shapes-n10-k5" / "cswm-n-seed0.json"
    for text, words in (
        ("{", "is not JSON"),
        ("[]", "is not a result"),
        ("{}", "is not a result"),
        (json.dumps(result() | {"version": 1}), "results format 1, this howm reads 2"),
        (json.dumps(result() | {"magic": 1}), "unknown key magic"),
        (json.dumps(result() | {"n": "ten"}), "n='ten' is of the wrong type; it should be int"),
        (json.dumps(result() | {"scores": {"unseen": pools()}}), r"scores\.training\.paper is missing"),
        (json.dumps(result() | {"controls": {"oracle": {"easy": {}}}}), r"controls\.oracle='easy' is not one of paper"),
        (json.dumps(result(k=11)), "n=10, k=11"),
    ):
        path.write_text(text)
        with pytest.raises(HowmError, match=rf"cswm-n-seed0\.json .*{words}") as caught:
            read_results(tmp_path)
        assert "\n" not in str(caught.value)


def test_results_of_an_unknown_method_in_an_unknown_world_are_in_the_tables(tmp_path):
    own = result("my_package.models:Mine", "billiards", mrr=70.0, method_title="Mine", world_title="Billiards")
    save(tmp_path, own, result("my_package.models:Mine", mrr=60.0, method_title="Mine"), result())
    save(tmp_path, result("howm", "billiards", n=6, k=3, world_title="Billiards"))
    tables = {table.title: table for table in report_tables(read_results(tmp_path))["Scores, hard pool"]}
    billiards = tables["Billiards, K = 5, hard pool"]
    assert entries(billiards, 10, "my_package.models:Mine", MRR) == ["70.0"] * 3
    assert [row[1] for row in tables["Shapes, K = 5, hard pool"].rows] == ["cswm-n", "my_package.models:Mine"]
    assert [row[:2] for row in tables["Billiards, K = 3, hard pool"].rows] == [(6, "howm")]


def test_a_record_survives_its_file(tmp_path):
    for values in (result(variant="mine"), failure(), failure("OM")):
        run = record(values)
        path = write_result(run, run.place(tmp_path))
        assert read_result(path) == run
    assert path == tmp_path / "shapes-n10-k5" / "cswm-n-seed0.json"
    named = record(result("package.module:Name", "other.module:World"))
    assert named.place(tmp_path) == tmp_path / "other.module-World-n10-k5" / "package.module-Name-seed0.json"


def test_the_committed_results_are_records():
    results = ROOT / "results"
    plans = [*results.glob("planning/*-n*-k*/*.json")]
    paths = {*results.rglob("*-n*-k*/*.json"), *results.glob("transfer/*.json")}.difference(plans)
    assert len(paths) >= 130
    assert {read_plan_result(path).planner for path in plans} >= {"search"}
    assert {read_result(path).status for path in paths} == {"ok"}


def test_the_folder_of_a_sweep_has_its_results_inside(tmp_path):
    save(tmp_path / "results", result())
    assert len(read_results(tmp_path).grid) == 1


def test_the_ablation_has_a_name_for_every_variant(tmp_path):
    asked = from_plain(SweepConfig, read_yaml(str(ROOT / "benchmarks" / "ablation.yaml")))
    assert set(asked.rows) == set(ABLATION)
    save(save(tmp_path, result()) / "ablation", result("howm", variant="no-identity-loss"))
    save(tmp_path / "ablation", result("howm"))
    (table,) = [table for table in report_tables(read_results(tmp_path))["Variants"] if "part" in table.title]
    assert [row[0] for row in table.rows] == ["howm", "no identity loss"]


# The paper.


@pytest.mark.parametrize(
    ("env", "method", "n", "mrr_5", "h1_5"),
    [
        ("shapes", "cswm-n", 5, 99.9, 99.9),
        ("shapes", "cswm-k", 30, 29.4, 20.1),
        ("shapes", "monet-bm", 20, 55.9, 44.4),
        ("shapes", "howm-paper", 20, 75.1, 66.3),  # the appendix has these under Rush Hour
        ("rush_hour", "howm-paper", 10, 63.2, 51.7),  # and these under Shapes
        ("shapes", "howm-paper", 30, 81.8, None),
        ("rush_hour", "cwm-n", 20, 45.3, 36.4),
    ],
)
def test_the_papers_numbers(env, method, n, mrr_5, h1_5):
    found = published(env, method, n, k=5)
    assert (found.mrr_5, found.h1_5) == (mrr_5, h1_5)


def test_what_the_paper_does_not_have():
    assert published("rush_hour", "howm-paper", 30, k=5) is None
    assert published("shapes", "cswm-n", 30, k=5) is None
    assert out_of_memory("shapes", "cswm-n", 30, 5)
    assert not out_of_memory("rush_hour", "cswm-n", 30, 5)  # not run
    assert library_sizes("rush_hour") == (5, 10, 20)


# The formats.

TABLE = Table(
    "A & B",
    "100 % of it_all.",
    (Column("name", code=True), Column("1", "pool"), Column("5", "pool", bar=True), Column("note")),
    (("x_1", Spread(1.0, 0.5, 2), None, "<b>"), ("y|z", Spread(-2.25, digits=2, sign=True), "OM", "a\\b")),
)


def test_markdown_joins_the_columns_of_a_group():
    assert to_markdown(TABLE).splitlines() == [
        "| name | pool: 1 / 5 | note |",
        "|---|---|---|",
        "| `x_1` | 1.0 ± 0.5 / – | &lt;b> |",
        "| `y\\|z` | −2.25 / OM | a\\b |",
    ]


def test_latex_is_escaped_and_its_rows_are_of_one_length():
    text = to_latex(TABLE)
    assert r"\caption{A \& B. 100 \% of it\_all.}" in text
    assert r"\texttt{x\_1} & 1.0 $\pm$ 0.5 & -- & <b> \\" in text
    assert r"$-$2.25 & OM & a\textbackslash{}b \\" in text
    assert r"\multicolumn{2}{c}{pool}" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert latex("{~^$#}") == r"\{\textasciitilde{}\textasciicircum{}\$\#\}"
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert {line.replace(r"\&", "").count("&") for line in body} == {3}


def test_latex_raises_powers_lowers_indices_and_has_no_letter_that_it_cannot_print():
    assert latex("Σ_N, Σ_K, Σ_x") == r"$\Sigma_N$, $\Sigma_K$, $\Sigma$\_x"
    assert latex("10⁶ and 10⁻¹²") == r"10$^{6}$ and 10$^{-12}$"
    assert latex("‘so’ −1 漢\n") == "`so' $-$1 ? "


def test_a_wide_table_is_shrunk_to_the_text_in_latex():
    columns = tuple(Column(f"c{i}") for i in range(9))
    wide, narrow = (Table("t", "", columns[:width], (tuple(range(width)),)) for width in (9, 8))
    lines = to_latex(wide).splitlines()
    assert lines[3] == r"\resizebox{\textwidth}{!}{%"
    assert lines[-2:] == [r"\end{tabular}}", r"\end{table}"]
    assert "resizebox" not in to_latex(narrow)
    text = FORMATS["tex"]([wide])
    assert text.count("{") == text.count("}")
    assert [line for line in text.splitlines() if line.startswith("%")] == [
        r"% \usepackage{booktabs}",
        r"% \usepackage{graphicx}",
        r"% \usepackage[T1]{fontenc}",
    ]


def test_csv_and_json_can_be_read_again():
    rows = list(csv.DictReader(io.StringIO(csv_file([TABLE]))))
    assert [tuple(row.values())[1:] for row in rows] == [
        ("x_1", "pool", "1", "1.0", "0.5", "2", "ok"),
        ("x_1", "pool", "5", "", "", "", "missing"),
        ("x_1", "", "note", "<b>", "", "", "ok"),
        ("y|z", "pool", "1", "-2.25", "", "1", "ok"),
        ("y|z", "pool", "5", "", "", "", "OM"),
        ("y|z", "", "note", "a\\b", "", "", "ok"),
    ]
    (table,) = json.loads(FORMATS["json"]([TABLE]))["tables"]
    assert table == to_json(TABLE)
    assert table["rows"][0] == ["x_1", {"mean": 1.0, "sd": 0.5, "seeds": 2}, None, "<b>"]


def test_html_is_escaped_and_says_what_heads_what():
    text = to_html(TABLE, "name")
    assert "<b>" not in text
    assert "<caption><span>A &amp; B</span></caption>" in text
    assert '<th scope="colgroup" colspan="2"' in text
    assert text.count('scope="row"') == 2
    assert '<td class="missing">–</td>' in text
