"""One page that shows all of a folder's results: tables, charts, pictures, and how each number was made.

It needs nothing from elsewhere and holds no clock: the same results give the same bytes.
"""

from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Any

from howm.errors import HowmError
from howm.files import atomic_write, refuse_links
from howm.report.figures import draw_figures, glance
from howm.report.formats import FORMATS
from howm.report.html import prose, to_html
from howm.report.pictures import draw_pictures
from howm.report.provenance import provenance
from howm.report.results_folder import Results, read_results
from howm.report.splits import certificate_table
from howm.report.summary import missing, summary
from howm.report.table import Table
from howm.report.tables.all import report_tables
from howm.version import __version__


def write_report(folder: Path, out: Path) -> list[Path]:
    """The page and, beside it, its tables as CSV, JSON, Markdown and LaTeX.

    Those of an earlier report are replaced; other files of these names are not. While they are being replaced, and
    after a kill, the page says that the tables beside it may be older.
    """
    if out.suffix != ".html":
        raise HowmError(f"{out} is not the name of a page; give one that ends in .html")
    beside = {out.with_suffix(f".{name}"): render for name, render in FORMATS.items()}
    taken = [path for path in beside if path.exists()]
    if taken and not _is_report(out):
        raise HowmError(f"{taken[0]} exists and is not part of a report; move it away, or give the page another name")
    refuse_links(out, *beside)
    results = read_results(folder)
    tables = report_tables(results)
    splits = certificate_table(folder, results)
    if splits.rows:
        tables["Splits"] = [splits]
    page = _page(folder, results, tables)
    listed = [table for some in tables.values() for table in some]
    rendered = {path: render(listed) for path, render in beside.items()}
    if all(path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text
           for path, text in {out: page, **rendered}.items()):  # fmt: skip
        return [out, *rendered]
    names = ", ".join(escape(path.name) for path in rendered)
    unfinished = f'<p class="missing"><b>This report was interrupted:</b> {names} may be older; make it again.</p>'
    with ExitStack() as stack:  # all are written out before the first takes its place
        last = stack.enter_context(atomic_write(out))
        last.write_text(page, encoding="utf-8")
        for path, text in rendered.items():
            stack.enter_context(atomic_write(path)).write_text(text, encoding="utf-8")
        with atomic_write(out) as first:
            first.write_text(page.replace("<main>", f"{unfinished}\n<main>", 1), encoding="utf-8")
    return [out, *rendered]


def _is_report(page: Path) -> bool:
    """Whether a page was written here: by the line above its heading."""
    return page.is_file() and '<p class="eyebrow">howm ' in page.read_text(encoding="utf-8", errors="replace")


def render_template(name: str, **values: Any) -> str:
    """A page of this folder, with its style sheet inside."""
    try:
        import jinja2
    except ImportError as error:
        raise HowmError(f"a page needs {error.name}, which is not installed; pip install 'howm[viz]'") from error
    here = Path(__file__).parent
    loader = jinja2.FileSystemLoader(here)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    style = (here / "page.css").read_text(encoding="utf-8")
    return environment.get_template(name).render(version=__version__, style=style, **values)


def _page(folder: Path, results: Results, tables: dict[str, list[Table]]) -> str:
    try:
        import matplotlib  # noqa: F401  # for the pictures: said before any work
        from markupsafe import Markup
    except ImportError as error:
        raise HowmError(f"a report needs {error.name}, which is not installed; pip install 'howm[viz]'") from error
    pictures, unseen = draw_pictures(folder, results)
    return render_template(
        "page.html",
        summary=[Markup(prose(text.replace(" %", "\u00a0%"))) for text in summary(results)],
        glance=glance(results),
        glance_steps=results.headline_steps(),
        nothing_unseen=all(run.n == run.k for run in results.finished()),
        sections={
            name: [to_html(table, _anchor(name, i)) for i, table in enumerate(some)] for name, some in tables.items()
        },
        figures=draw_figures(results),
        prose=lambda text: Markup(prose(text)),
        pictures=pictures,
        unseen=unseen,
        missing=missing(results),
        runs=provenance(results),
        anchor=_anchor,
    )


def _anchor(name: str, place: int = 0) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words) + (f"-{place}" if place else "")
