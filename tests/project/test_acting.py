"""The numbers on the page about acting are those of results/."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_page_come_from_results():
    spec = importlib.util.spec_from_file_location("acting_tables", ROOT / "benchmarks" / "acting_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = (ROOT / "docs" / "acting.md").read_text(encoding="utf-8")
    for name, make in tables.TABLES.items():
        assert f"<!-- {name} -->\n{make()}\n<!-- /{name} -->" in text
