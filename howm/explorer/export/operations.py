"""The operations that the executor of a page has, read off its source, so that they are listed once."""

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("tensor.js", "ops_elements.js", "ops_layout.js", "ops_index.js", "ops_linear.js", "executor.js")  # in order


@cache
def operations() -> frozenset[str]:
    text = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SOURCES)
    return frozenset(re.findall(r'^  "([\w.]+)":', text, flags=re.MULTILINE))
