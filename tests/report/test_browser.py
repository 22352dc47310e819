"""The report in a browser: nothing from elsewhere, nothing broken, nothing wider than a phone (`make test-browser`)."""

from pathlib import Path

import pytest
from hostile import hostile_folder
from test_tables import result, save

import howm
from howm.report.comparison_page import write_comparison
from howm.report.page import write_report

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
A4 = 703  # pixels of a page's width between the margins of the style sheet
VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 812}, "device_scale_factor": 2},
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """By name: all results of the repository, two runs of one's own, and a comparison."""
    folder = tmp_path_factory.mktemp("report")
    save(folder / "two", result("cwm-n", n=6, k=3, mrr=40.0), result("mine", n=6, k=3, method_title="Mine"))
    models = {"first": "howm-shapes-n10", "same": "howm-shapes-n10"}
    found = howm.compare(models, fresh_seed=0, episodes=20, steps=(1, 5))
    return {
        "results": write_report(ROOT / "results", folder / "results.html")[0],
        "two": write_report(folder / "two", folder / "two.html")[0],
        "compare": write_comparison(found, folder / "compare.html"),
    }


@pytest.fixture
def open_page(browser, report):
    """A page with the report, and what it complained of and asked for."""
    contexts = []

    def opened(name="results", **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        errors, requests = [], []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(report[name].as_uri())
        return page, errors, requests

    yield opened
    for context in contexts:
        context.close()


def test_nothing_runs_in_a_report_of_hostile_results(browser, tmp_path):
    (report, *_) = write_report(hostile_folder(tmp_path), tmp_path / "report.html")
    page = browser.new_page()
    requests, refused = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: refused.append(message.text))
    page.goto(report.as_uri())
    assert "window.ran=1" in page.inner_text("body")  # all is shown, as text
    assert page.evaluate("typeof window.ran") == "undefined"
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.querySelectorAll('[onerror], [onload], [onclick], iframe, object').length") == 0
    assert {url.split(":")[0] for url in requests} <= {"file", "data"}
    assert refused == []
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran=1'}))"
    )
    assert page.evaluate("typeof window.ran") == "undefined"  # the policy of the page forbids it
    page.close()


@pytest.mark.parametrize("name", ["results", "two", "compare"])
@pytest.mark.parametrize("view", VIEWS)
def test_the_page_is_whole(view, name, open_page, screenshots):
    page, errors, requests = open_page(name, **VIEWS[view])
    page.screenshot(path=screenshots / f"{name}-{view}.png")
    page.screenshot(path=screenshots / f"{name}-{view}-whole.png", full_page=True)
    assert errors == []
    assert {url.split(":")[0] for url in requests} <= {"file", "data"}
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    loaded = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
    assert all(loaded)


def test_wide_tables_scroll_in_their_own_box(open_page):
    page, _, _ = open_page(**VIEWS["phone"])
    box = page.locator(".scroll").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    box.evaluate("box => box.scrollLeft = 1000")
    head = page.locator("tbody th.first").first
    assert head.evaluate("head => head.getBoundingClientRect().left") >= 0  # the names of the rows stay in sight


def test_it_prints_in_light_with_nothing_cut_off(open_page, screenshots):
    page, errors, _ = open_page(viewport={"width": A4, "height": 1000}, color_scheme="dark")
    page.emulate_media(media="print")
    page.screenshot(path=screenshots / "print.png", full_page=True)
    page.pdf(path=screenshots / "report.pdf", format="A4")
    assert errors == []
    widths = page.evaluate("[...document.querySelectorAll('table')].map(table => table.getBoundingClientRect().right)")
    assert max(widths) <= A4
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (screenshots / "report.pdf").stat().st_size > 10_000
