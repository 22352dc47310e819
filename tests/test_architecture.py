"""The arrows of imports: every module may import only from modules to its left."""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "howm"

# From the bottom of the house to its roof; a module may import those before it and none after it.
ORDER = [
    *("version", "errors", "shapes", "library", "scenes", "grid", "render", "registration", "envs"),
    *("dataset", "storage", "remote", "interop", "batches", "config", "ranking", "losses"),
    *("models.mlp", "models.worldmodel", "models.extract", "models.bind", "models.transition", "models.cswm"),
    *(
        "models.slots",
        "models.align",
        "models.howm",
        "models.monet",
        "models.cswm_slots",
        "models.methods",
        "equivariance",
        "tabular",
        "checkpoint",
    ),
    *("segmentation", "evaluation", "diagnosis", "rundir", "train", "results", "figures", "published"),
    *("plan", "sweep", "engines", "collected", "table", "tables", "charts", "report", "cards", "hub"),
    *("commands.base", "commands.library", "commands.data", "commands.runs", "commands.sweeps", "commands.reports"),
    *("commands.hub", "cli", "child"),
]


def imported_modules(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("howm."):
            module = node.module.removeprefix("howm.")
            package = (PACKAGE / module.replace(".", "/")).is_dir()
            names |= {f"{module}.{alias.name}" for alias in node.names} if package else {module}
        elif isinstance(node, ast.Import):
            names |= {alias.name.removeprefix("howm.") for alias in node.names if alias.name.startswith("howm.")}
    return names


def module_names() -> dict[str, Path]:
    paths = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in paths}


def test_every_module_has_its_place():
    assert sorted(module_names()) == sorted(ORDER)


def test_imports_follow_the_arrows():
    against = [
        f"{name} imports {other}"
        for name, path in module_names().items()
        for other in imported_modules(path)
        if ORDER.index(other) >= ORDER.index(name)
    ]
    assert against == []


def test_importing_howm_is_cheap():
    heavy = ("torch", "h5py", "huggingface_hub", "matplotlib", "scipy", "accelerate", "minari")
    script = f"import sys, howm; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
