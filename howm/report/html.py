"""Tables as HTML."""

import re
from html import escape
from itertools import groupby

from howm.report.table import Cell, Column, Spread, Table, _status, as_text


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


def _mood(cell: Cell) -> list[str]:
    return {"ok": [], "missing": ["missing"]}.get(_status(cell), ["word"])


def _bar(column: Column, cell: Cell) -> str:
    share = cell.mean if isinstance(cell, Spread) and column.bar else None
    return "" if share is None else f' style="--share:{min(max(share / 100, 0), 1):.3f}"'
