"""Put the tables of results/ into README.md.

python benchmarks/table.py --write
"""

import argparse
from pathlib import Path

from howm.collected import read_results
from howm.table import Table, to_markdown
from howm.tables import glance, readme_tables

ROOT = Path(__file__).parent.parent


def blocks(folder: Path) -> dict[str, str]:
    """What stands between the marks <!-- name --> and <!-- /name -->."""
    results = read_results(folder)
    return {
        name: _rendered(found) for name, found in (("glance", [glance(results)]), ("results", readme_tables(results)))
    }


def _rendered(tables: list[Table]) -> str:
    return "\n\n".join(f"**{table.title}.** {table.note}\n\n{to_markdown(table)}" for table in tables)


def split(text: str, name: str) -> tuple[str, str, str]:
    """What stands before, in and after a block."""
    before, rest = text.split(f"<!-- {name} -->\n")
    inside, after = rest.split(f"\n<!-- /{name} -->")
    return before, inside, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    options = parser.parse_args()
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    for name, rendered in blocks(ROOT / "results").items():
        print(rendered, end="\n\n")
        before, _, after = split(text, name)
        text = f"{before}<!-- {name} -->\n{rendered}\n<!-- /{name} -->{after}"
    if options.write:
        readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
