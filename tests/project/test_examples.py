"""The scripts of examples/ run, and the notebook is what its script writes."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "train_and_evaluate": ["--steps", "6"],
    "own_world": ["--steps", "6"],
    "own_model": ["--steps", "6"],
    "imagine": [],
}
SAID = {
    "train_and_evaluate": "unseen   scenes, 5 ahead: MRR",
    "own_world": "breaks of the contract: []",
    "own_model": "5 ahead, hard pool, mlp   : MRR",
    "imagine": "imagined.png",
}


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)


def test_every_script_is_tested_and_listed():
    elsewhere = {"make_notebook", "imagined_dqn"}  # below, and among the tests of planning
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - elsewhere
    assert scripts == SMALL.keys() == SAID.keys()
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"`{path.name}`" in listed for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


# All in one process, which imports torch once.
TOGETHER = """
import json, os, runpy, sys
for name, words in json.loads(sys.argv[1]).items():
    os.mkdir(name)
    os.chdir(name)
    sys.argv = [name, *words]
    runpy.run_path(f"{EXAMPLES}/{name}.py", run_name="__main__")
    print("=== end of", name, flush=True)
    os.chdir("..")
"""


def test_the_examples_run(tmp_path):
    code = f"EXAMPLES = {str(EXAMPLES)!r}\n{TOGETHER}"
    done = run("-c", code, json.dumps(SMALL), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in SMALL:
        said, _, done.stdout = done.stdout.partition(f"=== end of {name}\n")
        assert SAID[name] in said


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_example_ends_within_its_two_minutes(name, tmp_path):
    """Of the processor: on a busy machine the wall clock says little."""
    begin = os.times()
    assert run(EXAMPLES / f"{name}.py", cwd=tmp_path).returncode == 0
    end = os.times()
    assert end.children_user + end.children_system - begin.children_user - begin.children_system < 120


def test_the_notebook_is_what_its_cells_give():
    """Rounding may differ between machines, so outputs are compared by their kind, and by their words."""
    spec = importlib.util.spec_from_file_location("make_notebook", EXAMPLES / "make_notebook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stored, made = json.loads((EXAMPLES / "first_look.ipynb").read_text(encoding="utf-8")), module.notebook()
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    assert [cell["source"] for cell in stored["cells"]] == [cell["source"] for cell in made["cells"]]
    for before, now in zip(stored["cells"], made["cells"], strict=True):
        assert before.keys() == now.keys()
        kinds = [[output["output_type"] for output in cell.get("outputs", [])] for cell in (before, now)]
        assert kinds[0] == kinds[1]
    pictures = [output for cell in stored["cells"] for output in cell.get("outputs", []) if "data" in output]
    assert len(pictures) == 2
    assert all(output["data"]["image/png"].startswith("iVBOR") for output in pictures)
    assert made["cells"][1]["outputs"] == stored["cells"][1]["outputs"]
