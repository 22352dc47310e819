"""A training that is ended or met by another: one lock a directory, one line on SIGTERM, threads in its record."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from test_train import data, tiny  # noqa: F401

from howm.cli.main import main
from howm.data.storage import save_dataset
from howm.errors import HowmError
from howm.runs.checkpoint import load_checkpoint, save_checkpoint
from howm.runs.directory import RunDirectory
from howm.runs.locate import load
from howm.training.run import train_run


def test_a_second_training_into_one_directory_is_refused_at_once(data, tmp_path):  # noqa: F811
    with RunDirectory(tmp_path / "run").held(), pytest.raises(HowmError, match="another process is training"):
        train_run(tiny(), data, tmp_path / "run")
    assert train_run(tiny(), data, tmp_path / "run")


def test_resuming_with_other_threads_warns(data, tmp_path, capsys, monkeypatch):  # noqa: F811
    train_run(tiny(), data, tmp_path, minutes=1e-9)
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    assert train_run(tiny(), data, tmp_path, resume=True)
    assert "begun with 1 threads and resumes with 7" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "inter")]
)
def test_a_signal_says_the_last_saved_step(number, code, word, data, tmp_path):  # noqa: F811
    save_dataset(data, tmp_path / "data.h5")
    settings = ["train.steps=20000", "train.batch=4", "train.check_every=2", "train.log_every=1"]
    command = ["train", "--method", "cswm-n", "--data", tmp_path / "data.h5", "--out", tmp_path / "run", "--set"]
    arguments = [sys.executable, "-m", "howm.cli", *map(str, command), *settings]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(600):
            if (tmp_path / "run/last.safetensors").exists():
                break
            time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said
    step = load_checkpoint(tmp_path / "run/last.safetensors").step
    assert f"step {step} is saved\n" in said
    assert f"resume with: howm {shlex.join([*map(str, command), *settings])} --resume\n" in said
    assert f"howm: {word}" in said
    assert not list((tmp_path / "run").glob(".*.part"))


def test_a_full_device_is_one_line():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no device that is always full")
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "howm.cli", "methods"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "No space left" in ended.stderr


def test_every_damaged_byte_of_a_checkpoint_is_noticed(data, tmp_path):  # noqa: F811
    train_run(tiny(), data, tmp_path)
    path = tmp_path / "best.safetensors"
    whole = path.read_bytes()
    for place in [*range(0, 2_000, 7), *range(2_000, len(whole), len(whole) // 200), len(whole) - 1]:
        for change in (1, 0x20, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
            with pytest.raises(HowmError):
                load_checkpoint(path)
    path.write_bytes(whole)
    load(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_weights_that_no_training_gives_are_refused(value, data, tmp_path):  # noqa: F811
    train_run(tiny(), data, tmp_path)
    checkpoint = load_checkpoint(tmp_path / "best.safetensors")
    next(tensor for name, tensor in checkpoint.tensors.items() if name.startswith("model.")).view(-1)[0] = value
    save_checkpoint(checkpoint, tmp_path / "best.safetensors")
    with pytest.raises(HowmError, match="get or train it again"):
        load(tmp_path)
    assert main(["eval", str(tmp_path), "--fresh-seed", "1"]) == 2
