"""Sweeps: the grid, shared data, what is finished is skipped, what failed is retried, a kill loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from howm.errors import HowmError
from howm.sweep import Cell, Sweep, SweepConfig, run_local

SETTINGS = (
    *("train.steps=4", "train.batch=8", "train.check_every=2", "train.log_every=2", "train.warmup=0"),
    *("represent.steps=4", "represent.batch=8", "represent.check_every=2", "represent.log_every=2"),
)
GRID = {"envs": ("shapes",), "n": (5,), "large": (), "seeds": (0,), "budget": "quick", "steps": (1,), "episodes": 60}


def small(**changes) -> SweepConfig:
    return SweepConfig(**{**GRID, "methods": ("cswm-n", "howm"), "settings": SETTINGS, **changes})


def silent(*_) -> None:
    pass


def howm(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "howm.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_the_grid_of_the_paper():
    cells = SweepConfig().cells()
    assert len(cells) == 7 * 3 * (4 + 3)
    assert {cell.n for cell in cells if cell.env == "rush_hour"} == {5, 10, 20}
    assert {cell.n for cell in cells if cell.env == "shapes"} == {5, 10, 20, 30}
    assert cells[0].seed == 0
    assert len(set(cells)) == len(cells)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"methods": ("magic",)}, "magic"),
        ({"envs": ("mars",)}, "mars"),
        ({"n": (4,)}, "n=4"),
        ({"seeds": (-1,)}, "seed=-1"),
        ({"steps": ()}, "steps"),
        ({"steps": (0,)}, "steps"),
    ],
)
def test_grids_that_cannot_be_run_are_named(changes, named):
    with pytest.raises(HowmError, match=named):
        small(**changes)


def test_finished_cells_are_skipped_and_failed_ones_retried(tmp_path):
    sweep = Sweep(tmp_path, small())
    first, second = sweep.config.cells()
    assert run_local(sweep, sweep.open_cells(), 2, silent) == {first: "ok", second: "ok"}
    assert sweep.open_cells() == []
    assert len(list((tmp_path / "data").iterdir())) == 1
    result = json.loads(sweep.result_path(first).read_text())
    assert (result["status"], result["method"], result["pool"]) == ("ok", "cswm-n", 60)

    broken = Sweep(tmp_path, small(methods=("cwm-n",), settings=("model.hidden=0",)))
    (cell,) = broken.config.cells()
    assert broken.run_cell(cell) == "failed"
    failure = json.loads(broken.result_path(cell).read_text())
    assert "hidden=0" in failure["reason"]
    assert "eval" not in failure
    assert broken.open_cells() == [cell]
    mended = Sweep(tmp_path, small(methods=("cwm-n",)))
    assert mended.run_cell(cell) == "ok"


def test_a_cell_over_its_memory_limit_is_recorded_and_tried_again_with_more(tmp_path):
    sweep = Sweep(tmp_path, small(methods=("cswm-n",)), memory_mb=20)
    (cell,) = sweep.config.cells()
    assert sweep.run_cell(cell) == "OM"
    result = json.loads(sweep.result_path(cell).read_text())
    assert result["status"] == "OM"
    assert "eval" not in result
    assert sweep.open_cells() == []
    assert Sweep(tmp_path, sweep.config, memory_mb=4000).open_cells() == [cell]


def test_a_cell_that_runs_elsewhere_is_left_alone(tmp_path):
    import fcntl

    sweep = Sweep(tmp_path, small(methods=("cswm-n",)))
    (cell,) = sweep.config.cells()
    assert sweep.status(cell) == "waiting"
    with open(sweep._lock_path(cell), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert sweep.status(cell) == "running"
        assert sweep.run_cell(cell) == "running"


@pytest.mark.slow
def test_killed_and_called_again_a_sweep_ends_as_if_undisturbed(tmp_path):
    options = ("--methods", "cswm-n", "howm", "--envs", "shapes", "-n", 5, "--seeds", 0, "--budget", "quick",
               "--steps", 1, "--episodes", 60, "--workers", 2, "--set", *SETTINGS)  # fmt: skip
    whole = howm("sweep", *options, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-m", "howm.cli", "sweep", *map(str, options), "--out", str(tmp_path / "killed")]
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        begun = [
            tmp_path / "killed" / "runs" / "shapes-n5-k5" / f"{m}-seed0" / "config.yaml" for m in ("cswm-n", "howm")
        ]
        while process.poll() is None and not any(path.exists() for path in begun):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    again = howm("sweep", *options, "--out", tmp_path / "killed")
    assert again.returncode == 0, again.stderr
    for name in ("cswm-n-seed0.json", "howm-seed0.json"):
        one, other = (
            json.loads((Path(tmp_path / run) / "results" / "shapes-n5-k5" / name).read_text())
            for run in ("whole", "killed")
        )
        assert {key: one[key] for key in ("eval", "eval_hard", "train")} == {
            key: other[key] for key in ("eval", "eval_hard", "train")
        }
    status = howm("sweep", "status", tmp_path / "killed")
    assert status.stdout.strip() == "2 ok"


def test_bad_usage_is_one_line(tmp_path):
    for arguments in (("sweep", "--out", tmp_path), ("sweep", "--paper"), ("sweep", "status", tmp_path)):
        result = howm(*arguments)
        assert result.returncode == 2
        assert len(result.stderr.strip().splitlines()) == 1


def test_names_of_cells():
    assert Cell("shapes", 10, 5, "howm", 2).name == "shapes-n10-k5/howm-seed2"
