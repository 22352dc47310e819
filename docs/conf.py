"""How the documentation is built: `make docs`, without network, and with every warning an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from reference import command_line, configuration, public_names

from howm.version import __version__

project = "howm"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"howm {version}"
html_show_sphinx = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # an included section of the README begins below the page's own title
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # those of Gymnasium and torch refer to their own pages
autodoc_typehints_format = "short"
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types of other packages, and jaxtyping's shapes, have no page here


def _generate(app, docname, source):
    """Put in what is read off the code, so that it is written once."""
    generated = {"cli": command_line, "api": public_names, "configuration": configuration}
    if docname in generated:
        source[0] += "\n" + generated[docname]()


def _export(app, error):
    """Write the page that play.md shows beside it."""
    if error is None and app.builder.format == "html":
        from howm.explorer.export.page import export_page

        export_page("howm-shapes-n10", Path(app.outdir) / "howm-shapes-n10.html")


def setup(app):
    app.connect("source-read", _generate)
    app.connect("build-finished", _export)
