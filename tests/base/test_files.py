"""Files are read within bounds, held by one process, and what a kill leaves is removed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from howm.config import parse_settings, read_yaml
from howm.errors import HowmError
from howm.files import atomic_folder, atomic_write, hold, parse_json, read_json, remove_leftovers


def refused(path, read=read_json):
    """The one line that says why."""
    began = time.monotonic()
    with pytest.raises(HowmError) as error:
        read(path)
    assert time.monotonic() - began < 5
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1_000
    return str(error.value)


@pytest.mark.parametrize("read", [read_json, lambda path: read_yaml(str(path))])
def test_what_is_not_an_ordinary_file_is_refused_without_waiting(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2**40)
    assert "pipe or a device" in refused(tmp_path / "pipe", read)
    assert "pipe or a device" in refused(tmp_path / "zero", read)
    assert "folder" in refused(tmp_path, read)
    assert "bytes" in refused(tmp_path / "large", read)
    assert "does not exist" in refused(tmp_path / "none", read)


@pytest.mark.parametrize(
    "text", ["NaN", "[" * 100_000, "1" * 5_000, "{", '{"a": Infinity}', "[" * 50 + "]" * 50, "\ud800"]
)
def test_json_that_nobody_writes_is_one_line(text, tmp_path):
    (tmp_path / "x.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    refused(tmp_path / "x.json")


def bomb(levels):
    lines = [f"l{i}: &l{i} [{','.join([f'*l{i - 1}' if i else 'x'] * 9)}]" for i in range(levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [bomb(9), "a: &a [*a]", "a: 2024-13-45", "a: " + "9" * 5_000, "[" * 10_000, "- " * 500,
     "a: !!python/name:os.system", "1: 2", "x", "a: *b", "a: !!timestamp x"],
)  # fmt: skip
def test_yaml_that_nobody_writes_is_one_line(text, tmp_path):
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    refused(str(tmp_path / "x.yaml"), read_yaml)


def test_aliases_of_a_size_that_people_write_are_read(tmp_path):
    (tmp_path / "x.yaml").write_text("base: &base {lr: 1}\nrun: {<<: *base, steps: 2}", encoding="utf-8")
    assert read_yaml(str(tmp_path / "x.yaml"))["run"] == {"lr": 1, "steps": 2}
    with pytest.raises(HowmError, match="is not YAML"):
        parse_settings(["train.lr=&a [*a]"])


def test_deep_values_are_refused_and_shallow_ones_read():
    assert parse_json("[" * 30 + "]" * 30, "x")
    with pytest.raises(HowmError, match="deeper"):
        parse_json("[" * 45 + "]" * 45, "x")


HOLD = "import sys, time, pathlib; from howm.files import hold\n"
HOLD += "with hold(pathlib.Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"


def test_a_lock_is_of_one_process_and_ends_with_it(tmp_path):
    path = tmp_path / "locks" / "x.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"mine\n"
        with hold(path, patience=0) as mine:
            assert not mine
        other.kill()
    with hold(path, patience=5) as mine:
        assert mine


def test_a_lock_follows_no_link_and_empties_no_file(tmp_path):
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "thesis")
    with pytest.raises(HowmError, match="not an ordinary file"), hold(tmp_path / "link", patience=0):
        pass
    with hold(tmp_path / "thesis", patience=0):
        pass
    assert (tmp_path / "thesis").read_text() == "mine"


WRITE = """
import os, pathlib, signal, sys
from howm.files import atomic_folder, atomic_write
with atomic_write(pathlib.Path(sys.argv[1])) as file, atomic_folder(pathlib.Path(sys.argv[2])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_writer_removes_what_a_kill_left_and_nothing_else(tmp_path):
    ended = subprocess.run([sys.executable, "-c", WRITE, str(tmp_path / "x.json"), str(tmp_path / "folder")])
    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".*.part"))) == 2
    (tmp_path / ".of-somebody.part").write_text("theirs")
    with atomic_write(tmp_path / "y.json") as first, atomic_folder(tmp_path / "other"):
        remove_leftovers(tmp_path)
        assert first.exists()  # of a process that is alive
        first.write_text(json.dumps(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".of-somebody.part", "other", "y.json"]


@pytest.mark.parametrize("moment", ["close", "open"])
def test_an_interruption_while_a_temporary_file_is_made_leaves_nothing(moment, tmp_path, monkeypatch):
    real = getattr(os, moment)

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, moment, interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "file"):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
