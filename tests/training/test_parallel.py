"""Data-parallel training gives the curve of one process with the batch of all, in every phase."""

from pathlib import Path

import pytest
from test_train import AMOUNTS, ended, metrics, spawn

from howm.data.dataset import make_dataset
from howm.data.storage import save_dataset


@pytest.mark.slow
@pytest.mark.parametrize("listed", [500, 0])  # with keys that are learned, and with a gallery
def test_both_phases_of_howm_are_the_same_in_two_processes(tmp_path: Path, listed: int):
    save_dataset(make_dataset("shapes", 5, 3, amounts=AMOUNTS), tmp_path / "data.h5")

    def train(out: str, batch: int, *launcher: str) -> None:
        rows = {"steps": 8, "batch": batch, "check_every": 4, "log_every": 2}
        settings = [f"{phase}.{key}={value}" for phase in ("represent", "train") for key, value in rows.items()]
        run = ["--method", "howm", "--data", str(tmp_path / "data.h5"), "--out", str(tmp_path / out)]
        ended(spawn([*launcher, "-m", "howm.cli", "train", *run, "--set", "model.hidden=8",
                     f"model.listed_objects={listed}", *settings]))  # fmt: skip

    train("one", 16)
    train("two", 8, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2")
    curves = [[row["loss"] for row in metrics(tmp_path / name) if "loss" in row] for name in ("one", "two")]
    assert len(curves[0]) == 8  # of both phases
    assert curves[0] == pytest.approx(curves[1], rel=1e-4)
    # Without the hinge, which is that of a batch: held-out batches are as large as a process's share. After so few
    # steps, looks in a gallery hardly differ, and their scores magnify rounding.
    for name in ("held_out_reconstruction", "held_out_positive"):
        one, two = ([row[name] for row in metrics(tmp_path / run) if name in row] for run in ("one", "two"))
        assert one == pytest.approx(two, rel=1e-4 if listed else 5e-3)
        assert len(one) == 2
