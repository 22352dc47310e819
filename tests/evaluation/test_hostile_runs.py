"""A checkpoint that tries to make `howm eval` write elsewhere: names are checked before a path is made of them."""

import json
import shutil

import pytest
from test_results import run  # noqa: F401

from howm.cli.main import main
from howm.errors import HowmError
from howm.runs.checkpoint import load_checkpoint, write_sealed

NAMES = ("../../x", "/tmp/x", "a/b", "..", "x\n", "")


def changed(record: str, path: tuple[str, ...], value: object) -> str:
    values = json.loads(record)
    group = values
    for key in path[:-1]:
        group = group[key]
    assert path[-1] in group
    group[path[-1]] = value
    return json.dumps(values)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", [("data", "world"), ("method",)])
def test_no_name_of_a_checkpoint_leads_out_of_the_results(run, tmp_path, capsys, name, path):  # noqa: F811
    copy = tmp_path / "folder" / "run"
    shutil.copytree(run, copy)
    checkpoint = load_checkpoint(run / "best.safetensors")
    write_sealed(checkpoint.tensors, changed(checkpoint.record.to_json(), path, name), copy / "best.safetensors")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(HowmError, match=r"name|method|world"):
        load_checkpoint(copy / "best.safetensors")
    assert main(["eval", str(copy), "--steps", "1", "--results", str(tmp_path / "folder" / "results")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("seed", [-1, "../../x", 1.5, None, 10**30])
def test_a_seed_is_a_number(run, tmp_path, seed):  # noqa: F811
    checkpoint = load_checkpoint(run / "best.safetensors")
    path = tmp_path / "best.safetensors"
    write_sealed(checkpoint.tensors, changed(checkpoint.record.to_json(), ("seed",), seed), path)
    with pytest.raises(HowmError, match="seed"):
        load_checkpoint(path)
