"""A comparison of models as one page: the paired differences first, then all scores."""

from pathlib import Path

from howm.errors import HowmError
from howm.evaluation.comparison import Comparison
from howm.files import atomic_write, refuse_links
from howm.report.charts import OTHERS, Interval, draw_intervals
from howm.report.html import prose, to_html
from howm.report.page import render_template
from howm.report.summary import listed
from howm.report.table import Cell, Column, Spread, Table
from howm.report.tables.entries import POOLS
from howm.runs.result import Pool


def check_page(out: Path) -> None:
    """Refuse, before any work, what is not the name of a page."""
    if out.suffix != ".html":
        raise HowmError(f"{out} is not the name of a page; give one that ends in .html")
    refuse_links(out)


def write_comparison(found: Comparison, out: Path) -> Path:
    """Write the page, in place of an earlier one; it needs nothing from elsewhere."""
    check_page(out)
    text = render_template("comparison.html", title=title(found), summary=[prose(text) for text in sentences(found)],
                           pools=[_pool(found, pool) for pool in POOLS])  # fmt: skip
    with atomic_write(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return out


def title(found: Comparison) -> str:
    first, *others = found.names
    return f"{listed(others)} compared with {first}"


def sentences(found: Comparison) -> list[str]:
    """What is compared on what, and for each model what the hard pool says after the most steps."""
    steps = found.of("hard")[-1].steps
    said = [
        f"{len(found.names)} models on the same {found.references:,} queries in {found.scenes} unseen "
        f"scene{'s' * (found.scenes != 1)}: {found.data}."
    ]
    for entry in found.of("hard"):
        change = entry.difference
        if entry.steps == steps and change is not None:
            low, high = change.mrr_ci
            better = "better" if change.mrr > 0 else "worse"
            verdict = f"is {better} than" if change.is_clear else "does not clearly differ from"
            text = (
                f"{entry.name} {verdict} {found.names[0]} after {steps} step{'s' * (steps != '1')} in the hard pool: "
            )
            text += f"{change.mrr:+.2f} points of MRR (95 % interval {low:+.2f} to {high:+.2f})."
            said.append(text.replace(" -", " −").replace(" %", "\u00a0%"))
    return said


def _pool(found: Comparison, pool: Pool) -> dict[str, str]:
    """The chart and the table of a pool."""
    changes = [(entry, entry.difference) for entry in found.of(pool) if entry.difference is not None]
    many = len(found.names) > 2
    rows = [
        Interval(
            f"{f'{entry.name}, ' if many else ''}{entry.steps} step{'s' * (entry.steps != '1')}",
            f"m-other-{(found.names.index(entry.name) - 1) % OTHERS}", change.mrr, *change.mrr_ci,
        )
        for entry, change in sorted(changes, key=lambda pair: found.names.index(pair[0].name))
    ]  # fmt: skip
    name = POOLS[pool]
    return {
        "name": prose(name.capitalize()),
        "chart": draw_intervals(f"Difference of MRR in the {name}", rows),
        "table": to_html(_table(found, pool), f"{pool}-table"),
    }


def _table(found: Comparison, pool: Pool) -> Table:
    columns = (
        *(Column("steps"), Column("model", code=True), Column("MRR", bar=True), Column("H@1")),
        *(Column(name, "difference of MRR") for name in ("points", "95 % from", "to")),
        *(Column(name, "queries ranked, %") for name in ("better", "worse")),
    )
    rows: list[tuple[Cell, ...]] = []
    for entry in found.of(pool):
        scores = (Spread(entry.metrics.mrr, digits=2), Spread(entry.metrics.h1))
        change: tuple[Cell, ...] = ("",) * 5
        if entry.difference is not None:
            one = entry.difference
            values = (one.mrr, *one.mrr_ci)
            shares = (one.better, one.worse)
            change = (*(Spread(v, digits=2, sign=True) for v in values), *(Spread(share) for share in shares))
        rows.append((int(entry.steps), entry.name, *scores, *change))
    note = (
        f"Percent in unseen scenes. Differences are to {found.names[0]}, query by query; intervals are a bootstrap "
        "over scenes, in which all models see the same scenes."
    )
    if pool == "hard" and found.hard_pool != "near misses":
        note += f" The hard pool has {found.hard_pool}: nothing simulates this world."
    return Table(f"Scores in the {POOLS[pool]}", note, columns, tuple(rows), 2)
