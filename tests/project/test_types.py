"""Users of howm get real types: their type checker knows every public name, and refuses the others."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import howm

SNIPPET = """
import numpy as np

import howm

data = howm.make_dataset("shapes", 6, 3)
model = howm.load("runs/mine")
reveal_type(howm.WorldModel)
reveal_type(howm.fit)
reveal_type(howm.evaluate)
reveal_type(howm.load)
reveal_type(howm.make_dataset)
reveal_type(howm.imagine)
reveal_type(data)
reveal_type(model)
reveal_type(howm.fit(model, data, howm.TrainConfig(), "runs/mine"))
reveal_type(howm.evaluate(model, howm.Rollouts(data.eval)).model)
reveal_type(howm.imagine(model, data.eval.observe(np.arange(1), 0), [1, 2]))
reveal_type(howm.METHODS["howm"])
reveal_type(howm.hub.push("runs/mine", "me/mine"))


class Mine(howm.WorldModel):
    def step(self, state: howm.State, action: int) -> howm.State:
        return state


howm.not_there
"""
ROOT = Path(__file__).parents[2]
CACHE = str(ROOT / ".mypy_cache" / "snippet")  # to read torch takes a quarter of a minute
EXPECTED = [
    r"def \(spec: howm\.worlds\.spec\.WorldSpec \| None =\) -> howm\.models\.world_model\.WorldModel",
    r"def \(model: howm\.models\.world_model\.WorldModel, dataset: howm\.data\.dataset\.Dataset, .*\) -> bool",
    r"def \(model: howm\.models.*rollouts: howm\.data\.rollouts\.Rollouts, .*\) -> howm\.evaluation.*\.Evaluation",
    r"def \(run: str \| os\.PathLike\[str\]\) -> howm\.models\.world_model\.WorldModel",
    r"def \(world: str \| howm\.worlds\.world\.World, .*\) -> howm\.data\.dataset\.Dataset",
    r"def \(model: howm\.models\.world_model\.WorldModel, .*\) -> howm\.models\.imagine\.Imagined",
    r"howm\.data\.dataset\.Dataset",
    r"howm\.models\.world_model\.WorldModel",
    r"bool",
    r"dict\[.*howm\.runs\.result\.Metrics\]\]",
    r"howm\.models\.imagine\.Imagined",
    r"howm\.models\.registry\.Method",
    r"str",
]


@pytest.mark.slow
def test_a_type_checker_knows_the_public_names(tmp_path):
    (tmp_path / "snippet.py").write_text(SNIPPET)
    heavy = "\n".join(f"[mypy-{name}.*]\nfollow_imports = skip\nignore_missing_imports = True" for name in
                      ("scipy", "h5py", "accelerate", "matplotlib", "gymnasium"))  # fmt: skip
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nfollow_imports = silent\ndisable_error_code = name-defined\n{heavy}\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", CACHE, "snippet.py"]
    env = os.environ | {"MYPYPATH": str(ROOT)}  # mypy does not follow the import hook of an editable install
    said = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300).stdout
    revealed = re.findall(r'Revealed type is "(.*)"$', said, flags=re.MULTILINE)
    assert len(revealed) == len(EXPECTED), said
    for found, expected in zip(revealed, EXPECTED, strict=True):
        assert re.fullmatch(expected, found), found
    errors = re.findall(r"error: (.*)$", said, flags=re.MULTILINE)
    assert any('"step" is incompatible with supertype "howm.models.world_model.WorldModel"' in line for line in errors)
    assert any('no attribute "not_there"' in line for line in errors)
    assert len(errors) == 2, said


def test_type_checkers_see_the_names_that_python_sees():
    source = ast.parse(Path(howm.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in source.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen.pop("hub") == "howm"
    assert seen == {name: f"howm.{module}" for name, module in howm._PUBLIC.items()}
    for name in howm.__all__:
        assert getattr(howm, name) is not None
