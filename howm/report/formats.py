"""Tables as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from howm.escape import markdown, markdown_code, spreadsheet
from howm.report.table import Cell, Spread, Table, _status, as_text

# Markdown knows no groups of columns: a group becomes one column, its parts divided by slashes.


def to_markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def written(place: int, cell: Cell) -> str:
        text = as_text(cell)
        return markdown_code(text) if table.columns[place].code and text else markdown(text)

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
        return _LATEX.get(piece, piece if piece.isascii() and piece.isprintable() else " " if piece.isspace() else "?")

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


# Several tables in one file.


def markdown_file(tables: Sequence[Table]) -> str:
    parts = [f"## {markdown(table.title)}\n\n{markdown(table.note)}\n\n{to_markdown(table)}" for table in tables]
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
                cells = [table.title, label, column.group, column.name, *known, _status(cell)]
                writer.writerow([spreadsheet(one) for one in cells])
    return file.getvalue()


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "csv": csv_file,
    "json": json_file,
    "md": markdown_file,
    "tex": latex_file,
}
