"""The scripts that look into a run say what they should of a small one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from howm import Amounts, make_dataset
from howm.runs.config import configure
from howm.training.run import train_run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = {"steps": 4, "batch": 8, "check_every": 4, "log_every": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    data = make_dataset("rush_hour", 5, 3, amounts=Amounts(train_episodes=40, train_steps=5, eval_episodes=40))
    folder = tmp_path_factory.mktemp("runs")
    train_run(configure("cswm-n", "cpu", {"train": TINY}), data, folder / "cswm-n")
    train_run(configure("monet-bm", "cpu", {"represent": TINY, "train": TINY}), data, folder / "monet-bm")
    return folder


def script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_positions_has_a_line_for_every_object(runs):
    said = script("positions.py", runs / "cswm-n")
    assert said.returncode == 0, said.stderr
    _, first, *others = (line.split() for line in said.stdout.splitlines())
    assert (first[0], first[-2:], len(others)) == ("0", ["1.00", "0.00"], 4)
    wrong = script("positions.py", runs / "monet-bm")
    assert (wrong.returncode, wrong.stderr.splitlines()[-1].endswith("this is no run of cswm-n")) == (2, True)


def test_matching_the_truth_alone_never_scores_less(runs):
    said = script("inflated.py", runs / "monet-bm", "--steps", 2, "--episodes", 30)
    assert said.returncode == 0, said.stderr
    for line in said.stdout.splitlines()[1:]:
        fair, flattered = (float(word) for word in line.split() if word.replace(".", "").isdigit())
        assert flattered >= fair, line


@pytest.mark.parametrize("name", ["time_to_exact.py", "data_efficiency.py"])
def test_curves_are_drawn_from_what_was_measured(name, tmp_path):
    row = {
        "recipe": "howm",
        "world": "shapes",
        "seed": 0,
        "train_cpu_seconds": 9.0,
        "data_cpu_seconds": 1.0,
        "hard": 98.0,
    }
    rows = [row | {"varied": varied, "transitions": 100, "scenes": 2} for varied in ("transitions", "scenes")]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    said = script(name, "--json", tmp_path / "rows.json", "--plot", tmp_path / "plot.png", "--only-plot")
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "plot.png").stat().st_size > 5_000


def test_data_efficiency_can_hold_out_an_episode_of_every_amount(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from data_efficiency import amounts

    for amount in amounts():
        assert amount["episodes"] >= 2 * amount["scenes"] >= 4, amount
