"""One page that holds a model and its world: it opens from disk and asks nothing of anyone."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from howm.errors import HowmError
from howm.explorer.export import operations, world_data
from howm.explorer.export.page_data import Report, page_data, silent
from howm.explorer.server import SCRIPTS as PAGE_SCRIPTS
from howm.explorer.stage import open_stage
from howm.files import atomic_write
from howm.models.world_model import WorldModel
from howm.worlds.world import World

HERE = Path(__file__).parent
SCRIPTS = (*operations.SOURCES, *world_data.SOURCES, "mind.js", "planner.js", "local.js")  # of the model and the world
_START = """"use strict";
const backend = new LocalBackend(JSON.parse(document.getElementById("data").textContent));
startExplorer(backend);
"""


def export_page(
    run: str | WorldModel,
    out: str | os.PathLike[str],
    *,
    world: World | None = None,
    against: str | WorldModel | None = None,
    sizes: Sequence[int] | None = None,
    report: Report = silent,
) -> Path:
    """Write the page of a run, or of a model of your own and its world, for scenes of ``sizes`` objects.

    By default these are the sizes of training and two more or less, where the model can see them.
    """
    path = Path(out)
    if path.suffix != ".html":
        raise HowmError(f"{path} is not the name of a page; give one that ends in .html")
    if path.is_file() and not _is_page(path):
        raise HowmError(f"{path} exists and is not a page of the explorer; move it away, or choose another name")
    page = render_page(page_data(open_stage(run, against, world=world), sizes, report))
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
    return path


def _is_page(path: Path) -> bool:
    """Whether a file was written here, and may be replaced."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "<title>howm explorer</title>" in file.read(10_000)


def render_page(data: dict[str, Any]) -> str:
    """The page of `howm explore` with its style, its scripts and the data inside; only these scripts may run."""
    folder = HERE.parent
    style = (folder / "page.css").read_text(encoding="utf-8")
    scripts = [(folder / name).read_text(encoding="utf-8") for name in PAGE_SCRIPTS if name != "start.js"]
    scripts += [model_script(), _START]
    template = (folder / "page.html").read_text(encoding="utf-8")
    template, linked = re.subn(r'<link rel="stylesheet"[^>]*>', lambda _: f"<style>{style}</style>", template)
    template, named = re.subn(r'<script src="[^"]*"></script>\n', "", template)
    assert (linked, named) == (1, len(PAGE_SCRIPTS)), "page.html names a style sheet and its scripts, and nothing else"
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    body = [f'<script type="application/json" id="data">{_json(data)}</script>']
    body += [f"<script>{script}</script>" for script in scripts]
    page = template.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{head}', 1)
    return page.replace("</body>", "\n".join(body) + "\n</body>", 1)


def model_script() -> str:
    """What runs world and model, in a room of its own: of its names the page sees LocalBackend alone."""
    parts = [(HERE / name).read_text(encoding="utf-8").removeprefix('"use strict";\n') for name in SCRIPTS]
    return '"use strict";\nconst LocalBackend = (() => {\n' + "\n".join(parts) + "\nreturn LocalBackend;\n})();\n"


def _digest(text: str) -> str:
    """As a content security policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """JSON that cannot end the element which holds it."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
