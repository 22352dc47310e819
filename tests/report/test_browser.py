"""The report in a browser: nothing from elsewhere, nothing broken, nothing wider than a phone (`make test-browser`)."""

from pathlib import Path

import pytest
from hostile import hostile_folder

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
    (page, *_) = write_report(ROOT / "results", tmp_path_factory.mktemp("report") / "report.html")
    return page


@pytest.fixture
def open_page(browser, report):
    """A page with the report, and what it complained of and asked for."""
    contexts = []

    def opened(**options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        errors, requests = [], []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(report.as_uri())
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


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_is_whole(view, open_page, pictures):
    page, errors, requests = open_page(**VIEWS[view])
    page.screenshot(path=pictures / f"{view}.png")
    page.screenshot(path=pictures / f"{view}-whole.png", full_page=True)
    assert errors == []
    assert {url.split(":")[0] for url in requests} <= {"file", "data"}
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    loaded = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
    assert loaded
    assert all(loaded)


def test_wide_tables_scroll_in_their_own_box(open_page):
    page, _, _ = open_page(**VIEWS["phone"])
    box = page.locator(".scroll").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    box.evaluate("box => box.scrollLeft = 1000")
    head = page.locator("tbody th.first").first
    assert head.evaluate("head => head.getBoundingClientRect().left") >= 0  # the names of the rows stay in sight


def test_it_prints_in_light_with_nothing_cut_off(open_page, pictures):
    page, errors, _ = open_page(viewport={"width": A4, "height": 1000}, color_scheme="dark")
    page.emulate_media(media="print")
    page.screenshot(path=pictures / "print.png", full_page=True)
    page.pdf(path=pictures / "report.pdf", format="A4")
    assert errors == []
    widths = page.evaluate("[...document.querySelectorAll('table')].map(table => table.getBoundingClientRect().right)")
    assert max(widths) <= A4
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (pictures / "report.pdf").stat().st_size > 10_000
