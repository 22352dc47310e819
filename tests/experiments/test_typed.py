"""Only a person can make howm import something: of a file that names package.module:Name nothing is imported."""

import sys

import pytest
import yaml
from test_sweep import GRID, SETTINGS

import howm
from howm.cli.main import main
from howm.data.dataset import Amounts
from howm.experiments.plan import SweepConfig
from howm.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

TRAP = '''
"""Leaves a mark when it is imported."""

from pathlib import Path

from howm.models.cswm import CSWMN, CSWMConfig
from howm.models.extractors.proposals import Proposals
from howm.worlds.grid_world import Shapes

Path(__file__).with_suffix(".mark").touch()


class Method(CSWMN):
    Config = CSWMConfig


class Slots(Proposals):
    pass


class World(Shapes):
    pass
'''


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """The file that is there once the module `trap`, which could be imported, has been."""
    place = tmp_path / "trap"
    place.mkdir()
    (place / "trap.py").write_text(TRAP)
    monkeypatch.syspath_prepend(place)
    for registry in (howm.WORLDS, howm.METHODS, howm.EXTRACTORS):  # what other tests have typed is not typed here
        monkeypatch.setattr(registry, "_typed", {})
        monkeypatch.setattr(registry, "_loaded", {})
    yield place / "trap.mark"
    sys.modules.pop("trap", None)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.h5"
    amounts = Amounts(train_episodes=40, train_steps=6, eval_episodes=40, eval_steps=2)
    howm.save_dataset(howm.make_dataset("shapes", 6, 3, amounts=amounts), path)
    return path


def refused(capsys, *words: object) -> str:
    """The one line by which a command refuses."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_the_configuration_of_a_run(trap, data, tmp_path, capsys):
    config, out = tmp_path / "config.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump({"method": "trap:Method", "model": {"extractor": {"kind": "trap:Slots"}}}))
    train = ("train", "--method", "howm", "--config", config, "--data", data, "--out", out)
    line = refused(capsys, *train)
    assert "trap:Slots is an extractor of your own: name it with --extractor trap:Slots" in line
    assert not trap.exists()
    assert not out.exists()
    settings = (*SETTINGS, "model.hidden=8")
    assert main([str(word) for word in (*train, "--extractor", "trap:Slots", "--set", *settings)]) == 0
    assert trap.exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"methods": ["trap:Method"]},
        {"envs": ["trap:World"]},
        {"settings": ["model.extractor.kind=trap:Slots"]},
        {"settings": ["model.extractor={kind: 'trap:Slots'}"]},
        {"variants": [{"name": "mine", "method": "trap:Method"}]},
        {"variants": [{"name": "mine", "method": "howm", "settings": ["model.extractor.kind=trap:Slots"]}]},
        {"variants": [{"name": "mine", "method": "howm", "settings": ["model={extractor: {kind: 'trap:Slots'}}"]}]},
    ],
    ids=str,
)
def test_the_file_of_a_sweep(asked, trap, tmp_path, capsys):
    grid = {"methods": ["howm"], **{name: list(v) if isinstance(v, tuple) else v for name, v in GRID.items()}, **asked}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    assert "of your own: name it with --" in refused(capsys, "sweep", tmp_path / "grid.yaml", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "grid.yaml").rename(tmp_path / "out" / "sweep.yaml")
    assert main(["sweep", "status", str(tmp_path / "out")]) == 0  # which needs none of it
    assert not trap.exists()


def test_what_is_typed_may_stand_in_the_file_of_a_sweep(trap, tmp_path):
    """The options that a refusal names let the same file be used."""
    from howm.cli.main import _parser
    from howm.cli.sweep import _config

    variant = {"name": "mine", "method": "howm", "settings": ["model.extractor.kind=trap:Slots"]}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump({"methods": [], "variants": [variant], "n": [5], "large": []}))
    words = ["sweep", str(tmp_path / "grid.yaml"), "--extractor", "trap:Slots", "--world", "trap:World"]
    config = _config(_parser().parse_args(words))
    config.check()
    assert trap.exists()
    assert isinstance(config, SweepConfig)
    assert config.typed == {"methods": (), "worlds": ("trap:World",), "extractors": ("trap:Slots",)}


def test_a_checkpoint(trap, data, tmp_path, capsys):
    from dataclasses import replace

    run = tmp_path / "run"
    train = ["train", "--method", "howm", "--data", data, "--out", run, "--set", *SETTINGS, "model.hidden=8"]
    assert main(list(map(str, train))) == 0
    checkpoint = load_checkpoint(run / "best.safetensors")
    record = checkpoint.record
    slots = {**record.model, "extractor": {**record.model["extractor"], "kind": "trap:Slots"}}
    for other in (
        replace(record, method="trap:Method"),
        replace(record, model=slots),
        replace(record, data=replace(record.data, world="trap:World")),
    ):
        save_checkpoint(Checkpoint(other, checkpoint.tensors), run / "best.safetensors")
        for command in (("eval", run, "--fresh-seed", "1"), ("show", run, "-o", tmp_path / "pictures")):
            assert "of your own: name it with --" in refused(capsys, *command)
        if other.data == record.data:
            with pytest.raises(howm.HowmError, match="of your own"):
                howm.load(run)
    assert not trap.exists()
