"""What people see while howm works, and in which words it refuses."""

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import howm
from howm.cli.base import in_options
from howm.cli.main import _parser, main
from howm.cli.sweep import _Terminal
from howm.data.storage import save_dataset
from howm.errors import HowmError
from howm.experiments.folder import Sweep
from howm.experiments.plan import SweepConfig
from howm.models.extractors.quality import slot_quality_report
from howm.models.registry import build_model
from howm.progress import EVERY, Lines, duration
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import shipped

PACKAGE = Path(howm.__file__).parent
AMOUNTS = howm.Amounts(train_episodes=60, train_steps=10, eval_episodes=60, eval_steps=3)
TINY = {"steps": 8, "batch": 16, "check_every": 4, "log_every": 2, "warmup": 0}


@pytest.fixture(scope="module")
def data():
    return howm.make_dataset("shapes", 5, 3, amounts=AMOUNTS)


def config(**train):
    return howm.configure("cswm-n", "cpu", {"model": {"hidden": 8}, "train": TINY | train})


# Progress.


def test_lines_say_how_far_and_how_long(capsys):
    clock = iter([0.0, 1.0, 40.0, 41.0, 90.0])
    with Lines(200, "evaluate", clock=lambda: next(clock)) as lines:
        for _ in range(4):
            lines.update(50)
    assert EVERY < 39
    assert capsys.readouterr().err.splitlines() == [
        "evaluate: 50% after 40 s, about 40 s left",
        "evaluate: 100% after 90 s, about 0 s left",
    ]
    assert [duration(s) for s in (3, 99, 100, 600, 7500)] == ["3 s", "99 s", "2 min", "10 min", "2 h 5 min"]


def test_an_evaluation_counts_all_of_its_work(data, monkeypatch):
    made = []

    class Counted(Lines):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr("howm.progress.Lines", Counted)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    model = build_model("cswm-n", data.spec, config().model, 0)
    howm.evaluate_run(model, data, steps=(1, 3), progress=True)
    howm.evaluate(model, howm.Rollouts(data.eval), steps=(1,), progress=True)
    assert [(one.description, one.n / one.total) for one in made] == [("evaluate", 1.0), ("evaluate", 1.0)]


def test_a_sweep_without_a_terminal_says_every_minute_how_far_it_is(tmp_path, capsys):
    sweep = Sweep(tmp_path, SweepConfig(methods=("cswm-n",), envs=("shapes",), n=(5,), large=(), k=3, seeds=(0,)))
    sweep.begin()
    clock = iter([0.0, 30.0, 61.0, 61.0, 90.0, 125.0, 125.0])
    terminal = _Terminal(sweep, clock=lambda: next(clock))
    for _ in range(4):
        terminal.tick()
    assert capsys.readouterr().err.splitlines() == ["1 waiting []"] * 2


# Runs.


def test_a_finished_run_is_trained_further_as_if_it_had_been_longer(data, tmp_path):
    constant = {"schedule": "constant"}
    howm.train_run(config(**constant), data, tmp_path / "short")
    howm.train_run(config(**constant, steps=16), data, tmp_path / "short", resume=True)
    howm.train_run(config(**constant, steps=16), data, tmp_path / "long")
    short, long = (load_checkpoint(tmp_path / name / "last.safetensors") for name in ("short", "long"))
    assert short.step == long.step == 16
    assert short.record.train == long.record.train
    assert all(torch.equal(short.weights()[name], tensor) for name, tensor in long.weights().items())
    assert (tmp_path / "short/metrics.jsonl").read_text() == (tmp_path / "long/metrics.jsonl").read_text()


def test_a_refusal_to_train_further_says_why(data, tmp_path):
    howm.train_run(config(), data, tmp_path / "run")
    before = (tmp_path / "run/last.safetensors").read_bytes()
    with pytest.raises(HowmError, match=r"train\.steps=8, over which its schedule .* train\.schedule=constant can be"):
        howm.train_run(config(steps=16), data, tmp_path / "run", resume=True)
    with pytest.raises(HowmError, match="was begun with"):
        howm.train_run(config(steps=4), data, tmp_path / "run", resume=True)
    assert (tmp_path / "run/last.safetensors").read_bytes() == before


def test_time_that_is_up_gives_the_command_to_resume(data, tmp_path, capsys):
    save_dataset(data, tmp_path / "data.h5")
    command = ["train", "--method", "cswm-n", "--data", str(tmp_path / "data.h5"), "--out", str(tmp_path / "run")]
    command += ["--minutes", "0.000001", "--set", "train.batch=8", "train.log_every=1"]
    assert main(command) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "time is up" in line]
    assert line == f"time is up; resume with: howm {' '.join(command)} --resume"


def test_an_unknown_run_lists_the_models_of_the_package(capsys):
    assert main(["eval", "howm-shapes-n11", "--fresh-seed", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(name in line for name in shipped())
    for name in shipped():
        assert main(["eval", name]) == 2
        assert "None" not in capsys.readouterr().err


def test_the_status_of_a_sweep_is_a_command_with_help(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "status", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: howm sweep status [-h] dir")
    Sweep(tmp_path, SweepConfig(methods=("cswm-n",), envs=("shapes",), n=(5,), large=(), k=3, seeds=(0,))).begin()
    assert main(["sweep", "status", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 waiting\n"
    with pytest.raises(SystemExit):
        main(["sweep", "--help"])
    assert "howm sweep status DIR" in capsys.readouterr().out


# Pictures.


def read(path: Path) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def test_pictures_carry_object_ids_and_actions(data, tmp_path, monkeypatch):
    from PIL import ImageDraw

    written: list[str] = []
    real = ImageDraw.ImageDraw.text
    monkeypatch.setattr(
        ImageDraw.ImageDraw,
        "text",
        lambda self, place, text, **more: (written.append(text), real(self, place, text, **more))[1],
    )
    save_dataset(data, tmp_path / "data.h5")
    assert main(["data", "show", str(tmp_path / "data.h5"), "--part", "eval", "-o", str(tmp_path / "x.png")]) == 0
    names = [
        f"{t}: object {a // 4} {['up', 'right', 'down', 'left'][a % 4]}" for t, a in enumerate(data.eval.actions[0], 1)
    ]
    assert [text for text in written if not text.isdigit()] == ["start", *names]
    assert [text for text in written if text.isdigit()] == 4 * [str(i) for i in data.eval.scene_ids[0]]
    written.clear()
    assert main(["library", "show", "--world", "shapes", "-n", "7", "-o", str(tmp_path / "y.png")]) == 0
    assert written == [str(i) for i in range(7)]
    assert (read(tmp_path / "y.png")[6:46, 6:46] != 255).any()


# Words.


def test_a_poor_extraction_says_that_a_grid_is_assumed_where_none_is_known(data):
    def advice(dataset):
        spec = dataset.spec
        model = build_model(
            "howm",
            spec,
            howm.configure("howm", "cpu", {"model": {"extractor": {"kind": "proposals"}}}, spec=spec).model,
            0,
        )
        return slot_quality_report(model.extractor, howm.Transitions(dataset.train, 0.5), frames=20)[-1]

    free = howm.make_dataset("free", 5, 3, amounts=AMOUNTS)
    assert re.search(r"assumes that every object lies in one cell of a grid, \d+ pixels wide", advice(free))
    assert "more represent.steps" in advice(data)
    assert "grid" not in advice(data)


def test_errors_speak_of_arguments_in_python_and_of_options_on_the_command_line(data, tmp_path, capsys):
    with pytest.raises(HowmError, match="give `data=FILE` or `fresh_seed=SEED`") as caught:
        howm.evaluate_run("howm-shapes-n10")
    assert "--" not in str(caught.value)
    assert main(["eval", "howm-shapes-n10"]) == 2
    assert "give --data FILE or --fresh-seed SEED" in capsys.readouterr().err
    parser = SimpleNamespace(_option_string_actions={"--resume": 0, "--out": 0, "--world": 0})
    for said, typed in (
        ("use `resume=True` or another `out`", "use --resume or another --out"),
        ("name it with `howm.WORLDS.allow('a.b:C')`", "name it with --world a.b:C"),
        ("`episodes=500` and `howm eval`", "`episodes=500` and `howm eval`"),
    ):
        assert in_options(said, parser) == typed
    assert in_options("`out`", None) == "`out`"


def test_no_error_of_the_library_names_an_option():
    """Options are of the command line; what a library says may name a whole command."""
    for path in PACKAGE.rglob("*.py"):
        if "cli" not in path.relative_to(PACKAGE).parts:
            for line in path.read_text().splitlines():
                if re.search(r'".*[ `]--[a-z]', line) and "howm " not in line:
                    assert "--porcelain" in line, f"{path.name}: {line.strip()}"


def test_every_option_in_the_words_of_an_error_is_known():
    options = {
        option
        for group in _parser()._subparsers._group_actions
        for child in group.choices.values()
        for option in child._option_string_actions
    }
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            if "HowmError" in line or re.match(r'\s+f?"', line):
                for name in re.findall(r"(?:leave out|another|give) `([a-z_]+)[`=]", line):
                    assert f"--{name.replace('_', '-')}" in options, f"{path.name}: {line.strip()}"
