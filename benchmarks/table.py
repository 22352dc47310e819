"""Put the tables of results/ into README.md.

python benchmarks/table.py --write
"""

import argparse
from pathlib import Path

from howm.table import to_markdown
from howm.tables import read_results, readme_tables

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results -->", "<!-- /results -->"


def tables(folder: Path) -> str:
    found = readme_tables(read_results(folder))
    return "\n\n".join(f"**{table.title}.** {table.note}\n\n{to_markdown(table)}" for table in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    options = parser.parse_args()
    rendered = tables(ROOT / "results")
    print(rendered)
    if options.write:
        readme = ROOT / "README.md"
        before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        readme.write_text(f"{before}{BEGIN}\n{rendered}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
