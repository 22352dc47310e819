"""The page that `howm report` writes: whole, without a reference to elsewhere, and the same from the same results."""

import csv
import io
import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_cli import howm
from test_tables import failure, pools, result, save

from howm.cli.main import main
from howm.errors import HowmError
from howm.experiments.folder import Sweep
from howm.experiments.plan import SweepConfig
from howm.report.charts import Chart, Line, draw, number, ticks
from howm.report.figures import draw_figures, glance
from howm.report.page import write_report
from howm.report.results_folder import read_results
from howm.report.splits import certificate_table
from howm.report.summary import missing, summary
from howm.report.tables.all import report_tables
from howm.runs.result import EVALUATION_VERSION
from howm.worlds.scenes import seeded_split
from howm.worlds.splits import make_split

VOID = {"meta", "img", "link", "br", "hr", "col", "input"}


class Page(HTMLParser):
    """Refuses what is not closed in order; keeps attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, text or "") for name, text in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, text or "") for name, text in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [text for _, attribute, text in self.attributes if attribute == name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A few results of everything; no HOWM, so that no model is drawn."""
    folder = tmp_path_factory.mktemp("results")
    save(folder, result(), result(seed=1, mrr=94.0), result(n=5), result("cwm-n", mrr=40.0), failure(n=20))
    save(folder, failure("OM", method="monet-bm"), result(world="rush_hour"), result(n=6, k=3))
    save(folder / "negatives", result(mrr=90.0, variant="controlled"), result(mrr=50.0, variant="uncontrolled"))
    return folder


@pytest.fixture(scope="module")
def written(folder, tmp_path_factory):
    return write_report(folder, tmp_path_factory.mktemp("report") / "page.html")


def test_the_page_is_whole_html(written):
    page = Page(written[0].read_text(encoding="utf-8"))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {target.removeprefix("#") for target in page.values("href")} <= set(ids)
    assert all(page.values("alt"))
    svgs = sum(tag == "svg" and name == "role" for tag, name, _ in page.attributes)
    assert svgs == sum(tag == "svg" and name == "aria-label" for tag, name, _ in page.attributes) > 0
    text = " ".join(page.words)
    for words in ("no luck & no money", "OM", "c0ffee", "train.same_scene", "Negative sampling", "Learning curves"):
        assert words in text


def test_nothing_is_asked_of_elsewhere(written):
    text = written[0].read_text(encoding="utf-8")
    page = Page(text)
    references = page.values("src") + page.values("href")
    assert all(reference.startswith(("data:", "#")) for reference in references)
    assert "@import" not in text
    assert "url(" not in text
    assert "<script" not in text


def test_the_same_results_give_the_same_bytes(folder, written, tmp_path):
    for first, again in zip(written, write_report(folder, tmp_path / "page.html"), strict=True):
        assert first.name == again.name
        assert first.read_bytes() == again.read_bytes()


def test_the_tables_lie_beside_the_page(written):
    assert [path.suffix for path in written] == [".html", ".csv", ".json", ".md", ".tex"]
    csv_path, json_path, markdown, latex = written[1:]
    rows = list(csv.DictReader(io.StringIO(csv_path.read_text(encoding="utf-8"))))
    titles = [table["title"] for table in json.loads(json_path.read_text(encoding="utf-8"))["tables"]]
    assert {row["table"] for row in rows} <= set(titles)
    assert len(titles) == len(set(titles))
    assert markdown.read_text(encoding="utf-8").count("\n## ") + 1 == len(titles)
    text = latex.read_text(encoding="utf-8")
    assert text.count(r"\begin{table}") == len(titles)
    assert text.isascii()
    assert "?" not in text


def test_the_summary_is_computed(folder):
    first, second = summary(read_results(folder))
    assert first == (
        "Six runs of two methods in Shapes and Rush Hour, with libraries of 5 to 20 objects, are measured here; "
        "1 ran out of memory; 1 failed."
    )
    assert second == (
        "Five steps ahead in unseen scenes, Σ_N-CSWM has an MRR of 92.0 % in the hard pool in Shapes, N = 10, K = 5, "
        "the one setting that the two methods have in common, where predicting no change has 10.0 % at most; next is "
        "C-WM(N) with 40.0 %. In all its three settings Σ_N-CSWM has 90.0 % or more."
    )


def test_a_method_with_fewer_settings_does_not_look_better_for_it(tmp_path):
    save(tmp_path, result("howm", n=10, mrr=100.0), result("howm", n=20, mrr=70.0), result("cwm-n", n=10, mrr=80.0))
    save(tmp_path, result("cswm-k", n=6, k=3, mrr=99.0))  # has nothing in common with the others
    second = summary(read_results(tmp_path))[1]
    assert "HOWM (ours) has an MRR of 100.0 % in the hard pool in Shapes, N = 10, K = 5, the one setting" in second
    assert "that two of the three methods have in common" in second
    assert "next is C-WM(N) with 80.0 %. In all its two settings HOWM (ours) has 70.0 % or more." in second


@pytest.mark.parametrize(
    ("runs", "first", "second"),
    [
        (
            [result("howm", mrr=80.0)],
            "One run of HOWM (ours) in Shapes, with a library of 10 objects, is measured here.",
            "Five steps ahead in unseen scenes, HOWM (ours) has an MRR of 80.0 % in the hard pool in Shapes, N = 10, "
            "K = 5, where predicting no change has 10.0 %.",
        ),
        (
            [result("howm", mrr=80.0), result("cwm-n", mrr=70.0)],
            "Two runs of two methods in Shapes, with a library of 10 objects, are measured here.",
            "Five steps ahead in unseen scenes, HOWM (ours) has an MRR of 80.0 % in the hard pool in Shapes, N = 10, "
            "K = 5, where predicting no change has 10.0 % at most; next is C-WM(N) with 70.0 %. There is one seed of "
            "each: other seeds may change the order.",
        ),
        (
            [result(), result(n=20, mrr=80.0)],
            "Two runs of Σ_N-CSWM in Shapes, with libraries of 10 to 20 objects, are measured here.",
            "Five steps ahead in unseen scenes, Σ_N-CSWM has an MRR of 80.0 % or more in the hard pool in two settings "
            "(world, N and K), where predicting no change has 10.0 % at most.",
        ),
        (
            [result(n=5)],
            "One run of Σ_N-CSWM in Shapes, with a library of 5 objects, is measured here.",
            "Five steps ahead in unseen scenes, nothing has been measured: where N = K, no scene is unseen.",
        ),
        (
            [result(scores=dict.fromkeys(("unseen", "training"), pools(70.0, steps=("1",))))],
            "One run of Σ_N-CSWM in Shapes, with a library of 10 objects, is measured here.",
            "One step ahead in unseen scenes, Σ_N-CSWM has an MRR of 70.0 % in the hard pool in Shapes, N = 10, K = 5, "
            "where predicting no change has 10.0 %.",
        ),
    ],
)
def test_sentences_are_right_for_few_runs(runs, first, second, tmp_path):
    assert summary(read_results(save(tmp_path, *runs))) == (first, second)


def test_only_gaps_among_what_was_run_are_said_to_be_missing(tmp_path):
    assert missing(read_results(save(tmp_path, result(curve=[])))) == [
        "Learning curves: 1 of 1 results do not have one."
    ]
    save(tmp_path, result(), result("howm"), result("howm", n=20), result("cwm-n", n=20), result("mine", "pond"))
    assert missing(read_results(tmp_path)) == ["Shapes, K = 5, not run at N = 20: cswm-n; at N = 10: cwm-n."]


def test_charts_come_before_tables_and_the_hard_pool_before_the_papers(written):
    text = written[0].read_text(encoding="utf-8")
    order = ['class="glance"', 'id="mrr-by-library-size-figure"', 'id="learning-curves-figure"', "<table>"]
    assert [text.index(mark) for mark in order] == sorted(text.index(mark) for mark in order)
    assert text.index("Shapes, K = 5, hard pool") < text.index("Shapes, K = 5, paper&#x27;s pool")
    assert text.index('id="scores-hard-pool-section"') < text.index('id="scores-paper-s-pool-section"')


def test_the_report_of_two_runs_shows_nothing_else(tmp_path):
    save(tmp_path, result("cwm-n", n=6, k=3, mrr=40.0), result("mine", n=6, k=3, mrr=60.0, method_title="Mine"))
    write_report(tmp_path, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    words = " ".join(page.words)
    assert "Mine has an MRR of 60.0\u00a0%" in words
    for absent in ("HOWM", "CSWM", "Rush Hour", "MONet", "paper reports", "Negative", "What is not here", "K = 5"):
        assert absent not in words, absent
    shown = [label for tag, name, label in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert shown[0] == "MRR in the hard pool after 5 steps: C-WM(N) 40.0; Mine 60.0."
    assert [label.split(":")[0] for label in shown[1:3]] == [
        f"Shapes, K = 3, N = 6, {pool}" for pool in ("hard pool", "paper's pool")
    ]


def test_results_without_any_run_that_ended_make_a_page(tmp_path):
    write_report(save(tmp_path, failure()), tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "no luck & no money" in " ".join(page.words)


def splits(folder):
    """Training scenes, evaluation scenes, violations, hash and origin of the splits of a folder."""
    return [(*row[6:8], *row[-3:]) for row in certificate_table(folder, read_results(folder)).rows]


def test_the_split_is_that_of_the_data_or_of_the_seed(tmp_path):
    from howm.data.dataset import Amounts, make_dataset
    from howm.data.storage import save_dataset
    from howm.files import file_hash

    split = seeded_split(6, 3, 0, train_scenes=7)
    about = {"hash": "abc", "seed": 0, "split": split.hash}
    save(tmp_path, result(n=6, k=3, training_scenes=7, scenes=10, data=about))
    assert splits(tmp_path) == [(7, 10, "none", split.hash, "its seed")]
    small = Amounts(train_episodes=20, train_steps=2, eval_episodes=20, eval_steps=2)
    path = tmp_path / "data/shapes-n6-k3-seed0.h5"
    save_dataset(make_dataset("shapes", 6, 3, amounts=small, train_scenes=7), path)
    assert splits(tmp_path)[0][-1] == "its seed"  # the file is not the one that was measured with
    save(tmp_path, result(n=6, k=3, training_scenes=7, scenes=10, data=about | {"hash": file_hash(path)}))
    assert splits(tmp_path) == [(7, 10, "none", split.hash, "its data")]


@pytest.mark.parametrize("options", [{"consecutive": True}, {"eval_scenes": 10}])
def test_a_split_that_the_seed_does_not_give_is_unknown(options, tmp_path):
    split = seeded_split(10, 5, 0, **options)
    about = {"hash": "abc", "seed": 0, "split": split.hash}
    save(tmp_path, result(training_scenes=len(split.train), scenes=10, data=about))
    assert splits(tmp_path) == [(len(split.train), 10, None, split.hash, "unknown")]


@pytest.mark.parametrize("options", [{}, {"training_scenes": 100}, {"n": 5, "scenes": 1, "training_scenes": 1}])
def test_the_split_of_an_older_result_is_that_of_its_seed_where_the_numbers_agree(options, tmp_path):
    ((training, evaluation, *_, name, source),) = splits(save(tmp_path, result(**options)))
    assert (training, evaluation) == ((1, 1) if "n" in options else (100, 100))
    assert (name, source) == (seeded_split(options.get("n", 10), 5, 0).hash, "its seed, unchecked")


@pytest.mark.parametrize("options", [{"scenes": 10}, {"n": 100}, {"data": {"fresh_seed": 0}}, {"training_scenes": 200}])
def test_the_split_of_an_older_result_is_unknown_where_it_may_have_been_another(options, tmp_path):
    """Of N = 100 objects, 100 evaluation scenes may be the consecutive ones."""
    ((_, evaluation, *_, name, source),) = splits(save(tmp_path, result(**options)))
    assert (evaluation, name, source) == (options.get("scenes", 100), None, "unknown")


def test_a_split_of_another_kind_is_that_of_its_seed(tmp_path):
    split = make_split("larger-k", 8, range(2, 4), 0, range(4, 6))
    about = {"hash": "abc", "seed": 0, "split": split.hash}
    more = {"split": "larger-k", "sizes": "2-3 to 4-5", "training_scenes": len(split.train), "scenes": 100}
    save(tmp_path, result(n=8, k=5, data=about, **more))
    assert splits(tmp_path) == [(len(split.train), len(split.eval), "none", split.hash, "its seed")]
    page = tmp_path / "report.html"
    write_report(tmp_path, page)
    words = "".join(Page(page.read_text(encoding="utf-8")).words)
    assert "larger-k" in words
    assert "2-3 to 4-5" in words
    assert "are not the paper's" in " ".join(summary(read_results(tmp_path)))


def test_a_result_without_measurements_is_one_error(tmp_path, capsys):
    for name in ("scores", "gap", "references", "scenes", "unseen", "data", "method_title"):
        run = result()
        del run[name]
        save(tmp_path, run)
        assert main(["report", str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"cswm-n-seed0.json is not a result of howm: {name} is missing; remove it" in line


def test_imported_pictures_are_listed_and_stay_out_of_the_other_tables(tmp_path):
    scores = dict.fromkeys(("unseen", "training"), pools(70.0, steps=("2", "10")))
    other = result(world="pixels", n=5, k=3, scores=scores, hard_pool="earlier frames only")
    alone, beside = save(tmp_path / "alone", other), save(tmp_path / "beside", other, result())
    save(beside / "negatives", other)
    for folder, titles in ((alone, []), (beside, ["Scores, hard pool", "Scores, paper's pool"])):
        tables = report_tables(read_results(folder))
        assert list(tables)[: len(titles)] == titles
        (table,) = tables["Imported pictures"]
        assert "earlier frames only" in table.note
        assert [column.name for column in table.columns[5:-1]] == ["2", "10", "2", "10"]
        ((*names, first, _, _, _, scenes),) = table.rows
        assert (names, str(first), scenes) == (["cswm-n", "pixels", 5, 3, 0], "70.0", other["unseen"])
        write_report(folder, folder / "report.html")
        text = " ".join(Page((folder / "report.html").read_text(encoding="utf-8")).words)
        assert "cswm-n, pixels, N=5, K=3, seed 0 (imported pictures)" in text
        assert ("1 run on imported pictures, and no other." in text) == (folder == alone)
    assert report_tables(read_results(save(tmp_path / "ours", result()))).get("Imported pictures") is None


def test_a_report_shows_methods_and_worlds_that_it_does_not_know(tmp_path):
    known = result("cwm-n", mrr=40.0)
    others = [result(f"lab.models:M{i}", mrr=60.0 + i, method_title=f"Method {i}") for i in range(7)]
    own = result("lab.models:M0", "lab.worlds:Billiards", method_title="Method 0", world_title="Billiards")
    write_report(save(tmp_path, known, *others, own), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    words = " ".join(Page(text).words)
    for title in ("Method 0", "Method 6", "Billiards", "lab.models:M0"):
        assert title in words
    styles = set(re.findall(r"m-other-\d", text))
    assert styles == {f"m-other-{i}" for i in range(5)}
    assert all(f".{style} {{ color" in text for style in styles)
    assert "Method 6 has an MRR of 66.0 %" in summary(read_results(tmp_path))[1]


def test_the_results_of_a_sweep_are_where_it_puts_them(tmp_path, capsys):
    sweep = Sweep(tmp_path / "sweep", SweepConfig(methods=("cswm-n",), n=(10,)), results=tmp_path / "elsewhere")
    sweep.begin()
    save(tmp_path / "sweep" / "results", result(mrr=10.0))  # of an earlier beginning
    made = {"evaluation_version": EVALUATION_VERSION}
    save(tmp_path / "elsewhere", result(**made), result(seed=1, **made))
    assert [run.scores["unseen"]["paper"]["5"].mrr for run in read_results(tmp_path / "sweep").grid] == [90.0, 90.0]
    assert main(["sweep", "status", str(tmp_path / "sweep")]) == 0
    assert "2 ok" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "sweep")]) == 0
    assert (tmp_path / "sweep" / "report.html").is_file()


def test_no_picture_is_of_a_model_that_was_not_run(tmp_path):
    save(tmp_path, result("howm"))
    write_report(tmp_path, tmp_path / "report.html")
    assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).values("alt") == []


def test_the_command_prints_what_it_wrote_and_replaces_it(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "all.html").write_text("an earlier one")
    done = howm("report", folder, "-o", tmp_path / "out" / "all.html")
    assert done.returncode == 0, done.stderr
    assert "an earlier one" not in (tmp_path / "out" / "all.html").read_text(encoding="utf-8")
    assert [Path(line).name for line in done.stdout.splitlines()] == [
        f"all.{suffix}" for suffix in ("html", "csv", "json", "md", "tex")
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        Path(line).name for line in done.stdout.splitlines()
    )


def test_errors_are_one_line(folder, tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "holds no results" in line
    with pytest.raises(HowmError, match=r"ends in \.html"):
        write_report(folder, tmp_path / "report.csv")


@pytest.mark.parametrize("page", [None, "<p>my notes</p>"])
def test_files_that_are_not_of_a_report_are_kept(page, folder, tmp_path, capsys):
    (tmp_path / "notes.md").write_text("my notes")
    if page is not None:
        (tmp_path / "notes.html").write_text(page)
    before = sorted(tmp_path.iterdir())
    assert main(["report", str(folder), "-o", str(tmp_path / "notes.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'notes.md'} exists and is not part of a report; move it away" in line
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "notes.md").read_text() == "my notes"


def test_all_files_are_written_or_none(folder, tmp_path):
    page, *tables = write_report(folder, tmp_path / "page.html")
    page.write_text(page.read_text(encoding="utf-8") + "<!-- earlier -->", encoding="utf-8")
    tables[-1].unlink()
    tables[-1].mkdir()  # cannot be replaced by a file
    before = {path: path.read_bytes() for path in (page, *tables[:-1])}
    with pytest.raises(HowmError, match=r"cannot write .*page\.tex"):
        write_report(folder, page)
    assert {path: path.read_bytes() for path in before} == before
    assert len([*tmp_path.iterdir()]) == 5
    tables[-1].rmdir()
    write_report(folder, page)
    assert "earlier" not in page.read_text(encoding="utf-8")


# Charts.


def figure(results, title):
    (found,) = [one for one in draw_figures(results) if one.title == title]
    return found


def test_equal_results_of_negatives_are_both_seen_in_both_pools(folder):
    panels = figure(read_results(folder), "Controlled negatives").panels[:4]
    names = ("H@1, hard pool", "MRR, hard pool", "H@1, paper's pool", "MRR, paper's pool")
    for panel, name in zip(panels, names, strict=True):
        assert escape(f"Shapes, {name}") in panel
        dot, halo = re.findall(r'<g class="(?:un)?controlled (\w+)">.*?<circle [^>]* r="([\d.]+)"/>', panel)
        assert (dot[0], halo[0]) == ("dot", "halo")
        assert float(halo[1]) > float(dot[1]) + 1


def test_doing_nothing_is_that_of_each_run(tmp_path):
    def controls(mrr):
        return {"do_nothing": pools(mrr, steps=("5",))}

    save(tmp_path, *(result(n=n, controls=controls(60.0)) for n in (10, 20, 30)))
    save(tmp_path, *(result("howm", n=n, controls=controls(20.0)) for n in (10, 30)))
    results = read_results(tmp_path)
    by_size = figure(results, "MRR by library size")
    for panel in by_size.panels:
        for name, mrr in (("Σ_N-CSWM", 60), ("HOWM (ours)", 20)):
            assert f"doing nothing, encoder of {name} {mrr}" in panel
    assert by_size.legend[-1] == ("doing nothing, with the encoder of each", "control")
    strips = glance(results)
    assert strips.count('class="control floor"><line') == 2


def test_the_papers_numbers_are_on_the_axis_of_its_own_pool_and_of_what_was_run(tmp_path):
    results = read_results(save(tmp_path, result(n=10), result(n=20), result("howm")))
    hard, paper = figure(results, "MRR by library size").panels
    assert "in the paper" not in hard
    rings = re.findall(r'<g class="(\S+) theirs ring">.*?</g>', paper)
    assert rings == ["m-cswm-n"]
    assert re.search(r'theirs ring">.*?</g>', paper)[0].count("<circle") == 2
    assert "ring" not in glance(results)


def test_learning_curves_have_an_upright_line_for_each_end_of_a_phase(tmp_path):
    curve = [{"step": step, "held_out_loss": 0.5} for step in (0, 500, 1000, 5000)]
    for n, steps in ((10, 800), (20, 800), (30, 3000)):
        save(tmp_path, result("howm", n=n, curve=curve, config={"represent": {"steps": steps}}))
    save(tmp_path, result(curve=curve))
    plain, howm = figure(read_results(tmp_path), "Learning curves").panels
    assert (plain.count('class="rule"'), howm.count('class="rule"')) == (0, 2)


def test_ticks_are_round_and_few():
    assert ticks(0, 100, log=False) == [0, 25, 50, 75, 100]
    assert ticks(0, 6500, log=False) == [0, 2000, 4000, 6000]
    assert ticks(1e-5, 1, log=True) == [1e-5, 1e-3, 1e-1]
    assert [number(value) for value in (0, 2.5, 3000, 1e-5, 2e-4)] == ["0", "2.5", "3,000", "10⁻⁵", "2·10⁻⁴"]


def test_a_line_breaks_where_nothing_was_measured():
    points = ((1.0, 10.0), (2.0, 20.0), (2.5, None), (3.0, 30.0), (4.0, 40.0))
    chart = Chart("A < B", "x", "y", (Line("one", "m-howm", points, "none"),), (1, 4))
    svg = draw(chart)
    Page(svg)
    assert svg.count("<path") == 2
    assert "A &lt; B" in svg
    assert "one 40" in svg


def test_a_loss_of_zero_and_a_single_point_can_be_drawn():
    lone = Chart("t", "x", "y", (Line("one", "m-howm", ((5.0, 0.0),), "none"),), (5,), log_x=True, log_y=True)
    assert draw(lone).count("<circle") == 1
    assert not re.search(r"nan|inf", draw(lone))
