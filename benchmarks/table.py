"""Put the tables of results/ into README.md, docs/results.md and docs/planning.md.

python benchmarks/table.py --write
"""

import argparse
from pathlib import Path

from howm.report.formats import to_markdown
from howm.report.results_folder import read_results
from howm.report.table import Table
from howm.report.tables.all import readme_tables
from howm.report.tables.paper import glance
from howm.report.tables.planning import planning_table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {"glance": ROOT / "README.md", "results": DOCS / "results.md", "planning": DOCS / "planning.md"}


def blocks(folder: Path) -> dict[str, str]:
    """What stands between the marks <!-- name --> and <!-- /name --> of the pages."""
    results = read_results(folder)
    found = {"glance": [glance(results)], "results": readme_tables(results), "planning": [planning_table(results)]}
    return {name: _rendered(tables) for name, tables in found.items()}


def _rendered(tables: list[Table]) -> str:
    return "\n\n".join(f"**{table.title}.** {table.note}\n\n{to_markdown(table)}" for table in tables)


def split(text: str, name: str) -> tuple[str, str, str]:
    """What stands before, in and after a block."""
    before, rest = text.split(f"<!-- {name} -->\n")
    inside, after = rest.split(f"\n<!-- /{name} -->")
    return before, inside, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    options = parser.parse_args()
    for name, rendered in blocks(ROOT / "results").items():
        print(rendered, end="\n\n")
        if options.write:
            before, _, after = split(PAGES[name].read_text(encoding="utf-8"), name)
            text = f"{before}<!-- {name} -->\n{rendered}\n<!-- /{name} -->{after}"
            PAGES[name].write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
