"""A report of hostile results: nothing runs in the page, and nothing is more than text in its tables."""

import csv
import io
import json
import os
import re
import signal

import pytest
from hostile import SCRIPT, hostile_folder
from test_report import Page
from test_tables import result

from howm.errors import HowmError
from howm.escape import markdown, markdown_code, spreadsheet
from howm.report.charts import Line, Strip, draw_strips
from howm.report.page import write_report
from howm.runs.directory import RunDirectory
from howm.runs.result import result_from_json, write_result


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = hostile_folder(tmp_path_factory.mktemp("hostile"))
    return write_report(folder, folder / "report.html")[0]


def test_the_page_holds_text_only(report):
    page = Page(report.read_text(encoding="utf-8"))
    tags = {tag for tag, _, _ in page.attributes}
    assert "script" not in tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert all(text.startswith(("data:image/png", "#")) for text in page.values("src") + page.values("href"))
    assert "default-src 'none'" in page.values("content")[0]
    assert any("window.ran" in text for text in page.words)  # it was shown, as text


def test_tables_beside_it_hold_text_only(report):
    rows = list(csv.reader(io.StringIO(report.with_suffix(".csv").read_text(encoding="utf-8"))))
    cells = [cell for row in rows for cell in row]
    assert any("HYPERLINK" in cell for cell in cells)
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    text = report.with_suffix(".md").read_text(encoding="utf-8")
    assert not re.search(r"<(script|img)", text)
    assert "](javascript" not in text
    assert not re.search(r"^# x", text, flags=re.MULTILINE)
    tex = report.with_suffix(".tex").read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)[#$&](?![\\^])[a-z]", tex.replace(" & ", ""))
    json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", ["variant", "method", "world"])
@pytest.mark.parametrize("name", ["../../x", "a/b", SCRIPT, "", "x\n", "-x", "a" * 300])
def test_names_that_could_lead_elsewhere_are_refused(key, name):
    with pytest.raises(HowmError, match=rf"{key}=.* cannot be a name"):
        result_from_json(result(**{key: name}), "a result")


def test_charts_take_their_classes_from_a_list():
    drawn = draw_strips("t", [Strip("x", '"><script>', (1.0,))])
    assert "<script" not in drawn
    assert 'class="m-other-0 dot"' in drawn
    assert Line("x", "m-howm theirs", ()).style == "m-howm theirs"


def test_cells_and_lines_are_made_harmless():
    assert spreadsheet("-1.5") == "-1.5"  # a number
    assert [spreadsheet(text) for text in ("=1", "+cmd", "-x", "@x", " =1", "x")] == [
        *("'=1", "'+cmd", "'-x", "'@x", "' =1", "x")
    ]
    assert markdown("a|b\n# c `d` <b> 1 < 2") == "a\\|b # c 'd' &lt;b> 1 < 2"
    assert markdown_code("a`b|c") == "`a_b\\|c`"


def test_nothing_is_written_through_a_link_of_a_folder(tmp_path):
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("mine")
    folder = hostile_folder(tmp_path / "folder")
    for name in ("report.html", "report.csv"):
        (folder / name).symlink_to(thesis)
        with pytest.raises(HowmError, match=r"link|not part of a report"):
            write_report(folder, folder / "report.html")
        (folder / name).unlink()
    (folder / "results.json").symlink_to(tmp_path / "new")
    with pytest.raises(HowmError, match="is a link"):
        write_result(result_from_json(result(), "a result"), folder / "results.json")
    (folder / "run").mkdir()
    (folder / "run" / "config.yaml").touch()
    (folder / "run" / "log.txt").symlink_to(thesis)
    with pytest.raises(HowmError, match="is a link"):
        RunDirectory(folder / "run", resume=True)
    assert thesis.read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_a_report_that_was_killed_says_what_is_older(report, monkeypatch, tmp_path):
    folder = hostile_folder(tmp_path)
    (page, *beside) = write_report(folder, folder / "report.html")
    whole = [path.read_bytes() for path in (page, *beside)]
    (folder / "shapes-n10-k5" / "own:Method-seed1.json").unlink()
    replace, count = os.replace, 0

    process = os.fork()
    if process == 0:  # replaces the page and one table, and dies

        def once(self, target):
            nonlocal count
            count += 1
            if count == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return replace(self, target)

        monkeypatch.setattr("pathlib.Path.replace", once)
        write_report(folder, folder / "report.html")
        os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    text = page.read_text(encoding="utf-8")
    assert "This report was interrupted" in text
    assert all(path.name in text for path in beside)
    assert list(folder.glob("*.part")) or list(folder.glob(".*.part"))
    write_report(folder, folder / "report.html")
    assert "interrupted" not in page.read_text(encoding="utf-8")
    assert not list(folder.glob(".*.part"))
    assert [path.read_bytes() for path in (page, *beside)] != whole
