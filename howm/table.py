"""A table as data, and the five ways to write it: Markdown, LaTeX, CSV, JSON and HTML."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from statistics import mean, stdev
from typing import Any

MISSING = "–"


@dataclass(frozen=True)
class Spread:
    """A number measured with some seeds: the mean and, of two or more, the standard deviation."""

    mean: float
    sd: float | None = None
    seeds: int = 1
    digits: int = 1
    sign: bool = False

    @classmethod
    def of(cls, values: Sequence[float], digits: int = 1, sign: bool = False) -> "Spread":
        return cls(mean(values), stdev(values) if len(values) > 1 else None, len(values), digits, sign)

    @property
    def number(self) -> str:
        return f"{self.mean:{'+' if self.sign else ''}z,.{self.digits}f}".replace("-", "−")

    @property
    def deviation(self) -> str:
        return "" if self.sd is None else f"± {self.sd:,.{self.digits}f}"

    def __str__(self) -> str:
        return f"{self.number} {self.deviation}".rstrip()


Cell = Spread | str | int | None  # None is what has not been measured


@dataclass(frozen=True)
class Column:
    """``group`` spans neighbours; ``code`` is for names to type; ``bar`` draws a number as a share of 100."""

    name: str
    group: str = ""
    code: bool = False
    bar: bool = False


@dataclass(frozen=True)
class Table:
    """The first ``labels`` columns name a row, the others hold what is known of it."""

    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.title

    def groups(self) -> list[tuple[str, list[int]]]:
        """Neighbouring columns of one group, by their positions; a column without a group stands alone."""

        def key(place: int) -> tuple[str, int]:
            group = self.columns[place].group
            return group, -1 if group else place

        return [(name, list(places)) for (name, _), places in groupby(range(len(self.columns)), key)]


def as_text(cell: Cell) -> str:
    return MISSING if cell is None else str(cell)


# Markdown knows no groups of columns: a group becomes one column, its parts divided by slashes.


def to_markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def written(place: int, cell: Cell) -> str:
        text = as_text(cell).replace("|", "\\|")
        return f"`{text}`" if table.columns[place].code and text else text

    groups = table.groups()
    names = [(group, " / ".join(table.columns[place].name for place in places)) for group, places in groups]
    head = [f"{group}: {name}" if group else name for group, name in names]
    body = [[" / ".join(written(place, row[place]) for place in places) for _, places in groups] for row in table.rows]
    return "\n".join([line(head), f"|{'---|' * len(head)}", *map(line, body)])


_LATEX = {
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"–": "--", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "Σ": r"$\Sigma$", "σ": r"$\sigma$", "·": r"$\cdot$"},
    **{"λ": r"$\lambda$", "≤": r"$\le$", "≥": r"$\ge$", "…": r"\dots{}", "→": r"$\to$", "‘": "`", "’": "'"},
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def latex(text: str) -> str:
    """Text in ASCII that LaTeX prints as it is, with the paper's indices; for a letter that it does not know, "?"."""

    def written(found: re.Match[str]) -> str:
        piece = found[0]
        if piece.startswith("Σ_"):
            return rf"$\Sigma_{piece[2]}$"
        if piece[0].translate(_RAISED) != piece[0]:
            return f"$^{{{piece.translate(_RAISED)}}}$"
        return _LATEX.get(piece, piece if piece.isascii() else "?")

    return re.sub("Σ_[NK]|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+|.", written, text, flags=re.DOTALL)


WIDE = 8  # columns: a table with more of them is shrunk to the width of the text


def to_latex(table: Table) -> str:
    """A table of the package booktabs; a wide one needs graphicx too."""

    def written(place: int, cell: Cell) -> str:
        text = latex(as_text(cell))
        return rf"\texttt{{{text}}}" if table.columns[place].code and text else text

    wide = len(table.columns) > WIDE
    groups = table.groups()
    rows = [[written(place, cell) for place, cell in enumerate(row)] for row in table.rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(f'{table.title}. {table.note}'.strip())}}}",
        *([r"\resizebox{\textwidth}{!}{%"] if wide else []),
        rf"\begin{{tabular}}{{{'l' * table.labels}{'r' * (len(table.columns) - table.labels)}}}",
        r"\toprule",
    ]
    if any(name for name, _ in groups):
        heads = [rf"\multicolumn{{{len(places)}}}{{c}}{{{latex(name)}}}" for name, places in groups]
        rules = [rf"\cmidrule(lr){{{places[0] + 1}-{places[-1] + 1}}}" for name, places in groups if name]
        lines += [" & ".join(heads) + r" \\", " ".join(rules)]
    lines.append(" & ".join(latex(column.name) for column in table.columns) + r" \\")
    lines += [r"\midrule", *(" & ".join(row) + r" \\" for row in rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}" + "}" * wide, r"\end{table}"])


def to_json(table: Table) -> dict[str, Any]:
    def plain(cell: Cell) -> Any:
        return {"mean": cell.mean, "sd": cell.sd, "seeds": cell.seeds} if isinstance(cell, Spread) else cell

    columns = [asdict(column) for column in table.columns]
    rows = [[plain(cell) for cell in row] for row in table.rows]
    return {"title": table.title, "note": table.note, "labels": table.labels, "columns": columns, "rows": rows}


def to_html(table: Table, name: str) -> str:
    """A figure with the element id ``name``; rows that begin alike share their first head."""
    columns, labels = table.columns, table.labels
    groups = table.groups()
    starts = {places[0] for group, places in groups if group}

    def kind(place: int, *more: str) -> str:
        names = [*more, *(["first"] if place == 0 else []), *(["words"] if place < labels else [])]
        names += ["begins"] if place in starts else []
        return f' class="{" ".join(names)}"' if names else ""

    grouped = any(group for group, _ in groups)
    span = ' rowspan="2"' if grouped else ""
    top, below = [], []
    for group, places in groups:
        if group:
            top.append(f'<th scope="colgroup" colspan="{len(places)}" class="group begins">{prose(group)}</th>')
            below += [f'<th scope="col"{kind(place)}>{prose(columns[place].name)}</th>' for place in places]
        else:
            top.append(f'<th scope="col"{span}{kind(places[0])}>{prose(columns[places[0]].name)}</th>')
    head = "".join(f"<tr>{''.join(cells)}</tr>\n" for cells in (top, below) if cells)

    body = ""
    for _, together in groupby(table.rows, lambda row: row[0]):
        rows = list(together)
        merge = labels > 1
        for i, row in enumerate(rows):
            cells = ""
            for place, cell in enumerate(row):
                text = f"<code>{escape(as_text(cell))}</code>" if columns[place].code and cell else _html(cell)
                if place >= labels:
                    cells += f"<td{_bar(columns[place], cell)}{kind(place, *_mood(cell))}>{text}</td>"
                elif place == 0 and merge:
                    rest = f' rowspan="{len(rows)}"' if len(rows) > 1 else ""
                    cells += f'<th scope="rowgroup"{rest}{kind(place)}>{text}</th>' if i == 0 else ""
                else:
                    cells += f'<th scope="row"{kind(place)}>{text}</th>'
            theirs = ' class="theirs"' if "paper" in row[1:labels] else ""
            body += f"<tr{theirs}>{cells}</tr>\n"
        if merge:
            body += "</tbody>\n<tbody>\n"
    body = body.removesuffix("</tbody>\n<tbody>\n")
    note = f"<figcaption>{prose(table.note)}</figcaption>\n" if table.note else ""
    return (
        f'<figure class="table" id="{name}">\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{prose(table.title)}">\n'
        f"<table>\n<caption><span>{prose(table.title)}</span></caption>\n"
        f"<thead>\n{head}</thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n{note}</figure>\n"
    )


def prose(text: str) -> str:
    """Text for HTML as print has it: its apostrophe, and the paper's indices."""
    text = re.sub(r"\b([NK]) = (?=[NK\d])", "\\1\u00a0=\u00a0", text.replace("'", "’"))
    return re.sub(r"Σ_([NK])", r"Σ<sub>\1</sub>", escape(text))


def _html(cell: Cell) -> str:
    if isinstance(cell, Spread) and cell.deviation:
        return f"{cell.number}<small>{cell.deviation}</small>"
    return prose(as_text(cell))


def _status(cell: Cell) -> str:
    if cell is None:
        return "missing"
    return str(cell) if cell in ("OM", "failed") else "ok"


def _mood(cell: Cell) -> list[str]:
    return {"ok": [], "missing": ["missing"]}.get(_status(cell), ["word"])


def _bar(column: Column, cell: Cell) -> str:
    share = cell.mean if isinstance(cell, Spread) and column.bar else None
    return "" if share is None else f' style="--share:{min(max(share / 100, 0), 1):.3f}"'


# Several tables in one file.


def markdown_file(tables: Sequence[Table]) -> str:
    parts = [f"## {table.title}\n\n{table.note}\n\n{to_markdown(table)}" for table in tables]
    return "\n\n".join(parts) + "\n"


def latex_file(tables: Sequence[Table]) -> str:
    """Opens with the packages that it needs, as a comment: for rules, for wide tables, and for < and >."""
    needed = ("{booktabs}", "{graphicx}", "[T1]{fontenc}")
    head = "".join(f"% \\usepackage{name}\n" for name in needed)
    return f"{head}\n" + "\n\n".join(map(to_latex, tables)) + "\n"


def json_file(tables: Sequence[Table]) -> str:
    return json.dumps({"tables": [to_json(table) for table in tables]}, indent=1, ensure_ascii=False) + "\n"


def csv_file(tables: Sequence[Table]) -> str:
    """One line for every cell: tables of different columns fit into one file. What is not ok has no value."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["table", "row", "group", "column", "value", "sd", "seeds", "status"])
    for table in tables:
        for row in table.rows:
            label = " ".join(as_text(cell) for cell in row[: table.labels])
            for column, cell in list(zip(table.columns, row, strict=True))[table.labels :]:
                if cell == "":
                    continue  # there is nothing to measure
                known: list[Any] = [cell if _status(cell) == "ok" else "", "", ""]
                if isinstance(cell, Spread):
                    known = [cell.mean, "" if cell.sd is None else cell.sd, cell.seeds]
                writer.writerow([table.title, label, column.group, column.name, *known, _status(cell)])
    return file.getvalue()


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "csv": csv_file,
    "json": json_file,
    "md": markdown_file,
    "tex": latex_file,
}
