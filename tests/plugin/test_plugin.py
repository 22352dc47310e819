"""A package of its own, with a world, a method and an extractor, through the whole command line of howm."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from howm.cli.main import main
from howm.report.results_folder import read_results

PACKAGE = Path(__file__).parent
DECLARED = ("tides", "single-vector", "painters")
TYPED = ("tidepool.world:Tides", "tidepool.method:SingleVector", "tidepool.extractor:Painters")
AMOUNTS = ("--train-episodes", "60", "--train-steps", "8", "--eval-episodes", "40", "--eval-steps", "3")
SHORT = tuple(
    f"{phase}.{setting}"
    for phase in ("train", "represent")
    for setting in ("steps=2", "batch=256", "check_every=2", "log_every=2", "warmup=0")
)
# Each command in a process that knows of none before; what all of them import is imported once.
SHELL = """
import json, os, sys, accelerate, matplotlib.pyplot, scipy.optimize, torch._dynamo, howm.cli.main
sys.path = [place for place in sys.path if place]  # as the script `howm` has it: without the current folder
for words in json.load(sys.stdin):
    print("$ howm", *words, flush=True)
    child = os.fork()
    if child == 0:
        code = howm.cli.main.main(words)
        sys.stdout.flush()
        os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"failed: howm {' '.join(words)}")
"""


def shell(folder: Path, commands: list[list[str]], installed: Path | None = None) -> str:
    """Run commands one after the other; gives what they print."""
    places = [*([str(installed)] if installed else []), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(places)}
    ran = subprocess.run(
        [sys.executable, "-c", SHELL], input=json.dumps(commands), capture_output=True, text=True, cwd=folder,
        env=environment, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where pip has put the package: into a folder of its own, which only the processes of these tests look into."""
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "site"))
    shutil.copytree(PACKAGE, source / "plugin", ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(source / "plugin")], check=True, timeout=120)
    return target


def everything(world: str, method: str, extractor: str, typed: bool) -> list[list[str]]:
    """All that a user does with the three; ``typed`` names are repeated where a file would have to bring them."""

    def by(**names: str) -> list[str]:
        return [word for noun, name in names.items() for word in (f"--{noun}", name)] if typed else []

    train = ["train", "--data", "data.h5", *by(world=world)]
    short = ["--set", *(setting for setting in SHORT if setting.startswith("train"))]
    of_both = {"own": by(method=method, world=world), "slots": by(extractor=extractor, world=world)}
    small = [*SHORT, "train.hold_out=0.01", "model.hidden=16", f"model.extractor.kind={extractor}"]
    sweep = ["sweep", "--methods", method, "howm", "--worlds", world, "-n", "5", "-k", "2", "--seeds", "0",
             "--steps", "1", "--budget", "quick", "--episodes", "40", "--workers", "2", "--out", "sweep",
             "--world-set", "size=12", "--set", *small]  # fmt: skip
    return [
        ["check", "world", world],
        ["check", "model", method, "--world", world],
        ["check", "extractor", extractor, "--world", world],
        ["library", "show", "--world", world, "-n", "5", "-o", "library.png"],
        ["data", "make", "--world", world, "-n", "5", "-k", "2", "--world-set", "size=16", *AMOUNTS, "-o", "data.h5"],
        ["data", "check", "data.h5", *by(world=world)],
        ["data", "show", "data.h5", "-o", "episode.png", *by(world=world)],
        [*train, "--method", method, "--out", "own", *short, "model.size=8"],
        [*train, "--method", "howm", "--extractor", extractor, "--out", "slots", "--set", *SHORT, "model.hidden=16"],
        *(["eval", run, "--steps", "1", "3", "--results", "results", *names] for run, names in of_both.items()),
        ["eval", "own", "--fresh-seed", "1", "--steps", "1", *of_both["own"]],
        *(["show", run, "-o", f"{run}-pictures", "--steps", "2", *names] for run, names in of_both.items()),
        sweep,
        sweep,  # and resumed
        ["sweep", "status", "sweep"],
        ["report", "sweep"],
        ["report", "results"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names", [pytest.param(DECLARED, id="declared"), pytest.param(TYPED, id="typed", marks=pytest.mark.slow)]
)
def test_a_world_a_method_and_an_extractor_of_ones_own_go_everywhere(names, tmp_path, request, capsys):
    typed = names == TYPED
    if typed:  # not installed: the module lies in the current folder
        shutil.copytree(PACKAGE / "tidepool", tmp_path / "tidepool")
    site = None if typed else request.getfixturevalue("installed")
    world, method, extractor = names
    said = shell(tmp_path, everything(*names, typed=typed), site)
    assert [line.endswith("keeps the contract") for line in said.splitlines()[1:6:2]] == [True] * 3
    assert "16x16 pixels, no grid" in said
    assert "$ howm sweep status sweep\n2 ok\n" in said
    for picture in ("own-pictures/rollout", "slots-pictures/rollout", "slots-pictures/binding", "episode", "library"):
        assert (tmp_path / f"{picture}.png").is_file()
    # The package is not known here: what was measured can be read, and nothing else.
    for folder in ("results", "sweep"):
        found = {run.method: run for run in read_results(tmp_path / folder).grid}
        assert found.keys() == {method, "howm"}
        for run in found.values():
            assert (run.world, run.world_title, run.hard_pool) == (world, "Tides", "near misses")
            assert run.controls["oracle"]["hard"]["1"].mrr == 100
        assert found[method].method_title == "Single vector"
        assert found["howm"].config["model"]["extractor"]["kind"] == extractor
        assert found["howm"].segmentation is not None  # the world has masks
        before = (tmp_path / folder / "report.html").read_text(encoding="utf-8")
        assert "Single vector" in before
        assert "Tides" in before
        assert main(["report", str(tmp_path / folder)]) == 0
        assert "Single vector" in (tmp_path / folder / "report.html").read_text(encoding="utf-8")
    capsys.readouterr()
    for command in (["eval", str(tmp_path / "own")], ["data", "check", str(tmp_path / "data.h5")]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert world in said or method in said


def test_a_package_is_listed_and_imported_on_use_alone(installed):
    code = """
import sys, howm
assert "tides" in howm.WORLDS and "single-vector" in howm.METHODS and "painters" in howm.EXTRACTORS
assert not any(name.startswith("tidepool") for name in sys.modules)
assert howm.METHODS["single-vector"].title == "Single vector"
assert "tidepool.method" in sys.modules and "tidepool.world" not in sys.modules
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_class_that_keeps_no_contract_is_named(tmp_path, capsys):
    (tmp_path / "broken.py").write_text(
        "from tidepool.extractor import Painters\n"
        "class Broken(Painters):\n"
        "    def draw(self, slots):\n"
        "        return 2 * super().draw(slots) + 1\n"
    )
    shutil.copytree(PACKAGE / "tidepool", tmp_path / "tidepool")
    code = "import sys; from howm.cli.main import main; sys.exit(main(['check', 'extractor', 'broken:Broken']))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout[:16]) == (1, "VIOLATED  draw: ")
    assert main(["check", "model", "no-such-method"]) == 2
    assert "unknown method 'no-such-method'" in capsys.readouterr().err
