"""Every command as a user runs it: its output, its exit code; some in a process of their own."""

import io
import json
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from howm.cli.main import main

SMALL = ["--train-episodes", "120", "--train-steps", "12", "--eval-episodes", "200", "--eval-steps", "6"]


def howm(*arguments: object, cwd: Path = Path()) -> subprocess.CompletedProcess[str]:
    """What a command prints and how it ends, in this process."""
    command, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as end:  # of the parser
            code = end.code
    return subprocess.CompletedProcess(command, code or 0, out.getvalue(), err.getvalue())


def howm_process(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", "howm.cli", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error::DeprecationWarning:howm"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "shapes.h5"
    result = howm_process("data", "make", "--env", "shapes", "-n", 6, "-k", 3, *SMALL, "-o", path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(path)
    return path


def test_version_and_help():
    assert howm_process("--version").stdout.startswith("howm ")
    listed = howm_process("--help").stdout
    for command in ("library", "data", "train", "eval", "methods"):
        assert command in listed


@pytest.mark.parametrize("world", ["shapes", "rush_hour"])
def test_library_show_writes_a_picture(world, tmp_path):
    from PIL import Image

    path = tmp_path / "new" / "sheet.png"
    result = howm("library", "show", "--env", world, "-n", 12, "-o", path)
    assert result.stdout.strip() == str(path)
    with Image.open(path) as picture:
        assert picture.size == (6 + 10 * 46, 6 + 2 * 62)  # ten tiles of 40 pixels to a row, and captions


def test_library_show_prints_json_that_reads_back():
    from howm import ObjectLibrary

    text = howm_process("library", "show", "--env", "rush_hour", "-n", 7, "--library-seed", 3, "--json").stdout
    assert ObjectLibrary.from_json(text) == ObjectLibrary.make("rush_hour", 7, 3)


def test_library_show_lists_objects():
    assert len(howm("library", "show", "--env", "shapes", "-n", 4).stdout.splitlines()) == 4


def test_check_prints_a_certificate_that_holds(data):
    result = howm_process("data", "check", data)
    assert result.returncode == 0
    assert "certificate  holds" in result.stdout
    assert "\nsplit hash   " in result.stdout  # it names the scenes, not the episodes
    assert "(balanced): [5, 5, 5, 5, 5, 5]" in result.stdout
    assert json.loads(howm("data", "check", data, "--json").stdout)["violations"] == []


def test_check_does_not_list_the_counts_of_many_objects(tmp_path):
    howm("data", "make", "--env", "shapes", "-n", 31, "-k", 3, *SMALL, "-o", tmp_path / "many.h5")
    counts = [line for line in howm("data", "check", tmp_path / "many.h5").stdout.splitlines() if "counts" in line]
    assert [line.endswith("(balanced)") for line in counts] == [True, True]


def test_check_names_the_violated_rule_and_exits_1(data, tmp_path):
    import shutil

    import h5py

    broken = tmp_path / "broken.h5"
    shutil.copy(data, broken)
    with h5py.File(broken, "r+") as file:
        file["split/eval"][0] = file["split/train"][0]
    result = howm_process("data", "check", broken)
    assert result.returncode == 1
    assert "VIOLATED     disjointness" in result.stdout
    assert "VIOLATED     certificate" in result.stdout
    assert "unseen       1 eval scenes are seen in training" in result.stdout


def test_check_names_a_part_without_episodes(data, tmp_path):
    import numpy as np

    from howm.data.storage import load_dataset, save_dataset

    dataset = load_dataset(data)
    save_dataset(replace(dataset, eval=dataset.eval.select(np.arange(0))), tmp_path / "empty.h5")
    result = howm("data", "check", tmp_path / "empty.h5")
    assert result.returncode == 1, result.stderr
    assert "VIOLATED     emptiness: the part eval" in result.stdout


def test_train_refuses_data_whose_certificate_is_violated(data, tmp_path):
    from howm.data.storage import load_dataset, save_dataset

    dataset, broken = load_dataset(data), tmp_path / "broken.h5"
    save_dataset(replace(dataset, eval=dataset.eval_seen), broken)
    result = howm("train", "--method", "cswm-n", "--data", broken, "--out", tmp_path / "run")
    refused(result, "scenes of the part eval are not in its set", f"howm data check {broken}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("hidden", "why"), [(10**13, "memory"), (10**18, "memory"), (10**25, "64 bits")])
def test_a_model_that_does_not_fit_into_memory(hidden, why, data, tmp_path):
    settings = ["--method", "cswm-n", "--data", data, "--set", f"model.hidden={hidden}"]
    refused(howm("train", *settings, "--out", tmp_path / "run"), why, "smaller")
    assert list(tmp_path.iterdir()) == []


def test_no_unseen_scene_is_labelled(tmp_path):
    path = tmp_path / "one.h5"
    result = howm("data", "make", "--env", "shapes", "-n", 3, "-k", 3, *SMALL, "-o", path)
    assert "no unseen scene exists" in result.stderr
    assert "no unseen scene exists" in howm("data", "check", path).stdout


def test_show_draws_an_episode(data, tmp_path):
    from PIL import Image

    path = tmp_path / "episode.png"
    result = howm_process("data", "show", data, "--part", "eval", "--episode", 5, "-o", path)
    assert result.returncode == 0
    assert result.stdout.strip() == str(path)
    assert result.stderr.splitlines()[:5] == [
        "world        shapes, 6 objects, 3 in a scene",
        "grid         5x5 cells of 10x10 pixels",
        "train        120 episodes of 12 steps",
        "eval         200 episodes of 6 steps",
        "eval_seen    200 episodes of 6 steps",
    ]
    with Image.open(path) as picture:
        assert picture.size == (6 + 6 * 156, 6 + 2 * 172)  # six frames to a row, captions below


def test_export_and_import_again(data, tmp_path):
    for part in ("train", "eval", "eval_seen"):
        run = howm_process if part == "train" else howm
        result = run("data", "export", data, "--format", "cswm", "--part", part, "-o", tmp_path / f"{part}.h5")
        assert result.returncode == 0, result.stderr
    files = [f"--{part.replace('_', '-')}={tmp_path / part}.h5" for part in ("train", "eval", "eval_seen")]
    again = tmp_path / "again.h5"
    result = howm_process("data", "import", *files, "-n", 6, "-k", 3, "-o", again)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert howm("data", "check", again).returncode == 0


def test_what_exists_is_replaced_only_by_force(data, tmp_path):
    make = ["data", "make", "--env", "shapes", "-n", 6, "-k", 3, *SMALL]
    export = ["data", "export", data, "--format", "cswm", "--part", "eval"]
    source = tmp_path / "source.h5"
    assert howm(*export, "-o", source).returncode == 0
    importer = ["data", "import", "--train", source, "--eval", source, "-n", 6, "-k", 3]
    there = tmp_path / "there.h5"
    for command in (make, export, importer):
        there.write_text("mine")
        refused(howm(*command, "-o", there), str(there), "--force")
        assert there.read_text() == "mine"
        result = howm(*command, "-o", there, "--force")
        assert (result.returncode, result.stdout.strip()) == (0, str(there)), result.stderr
        assert there.read_bytes() != b"mine"
    (tmp_path / "folder-v0").mkdir()
    for command in (make, export, [*export, "--format", "minari"]):
        refused(howm(*command, "-o", tmp_path / "folder-v0", "--force"), "folder-v0", "not a file")


def test_what_is_read_is_never_replaced(data, tmp_path):
    file, link = tmp_path / "data.h5", tmp_path / "link.h5"
    file.write_bytes(data.read_bytes())
    link.symlink_to(file)
    for out in (file, link):
        refused(howm("data", "export", file, "--format", "cswm", "-o", out, "--force"), str(out), "is read")
        importer = ["data", "import", "--train", data, "--eval", file, "-n", 6, "-k", 3]
        refused(howm(*importer, "-o", out, "--force"), str(out), "is read")
    assert file.read_bytes() == data.read_bytes()


def test_import_says_what_is_violated(data, tmp_path):
    train, path = tmp_path / "train.h5", tmp_path / "again.h5"
    assert howm("data", "export", data, "--format", "cswm", "--part", "train", "-o", train).returncode == 0
    result = howm("data", "import", "--train", train, "--eval", train, "-n", 6, "-k", 3, "-o", path)
    assert result.stdout.strip() == str(path), result.stderr
    assert "VIOLATED     disjointness: 10 scenes" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "make", "--env", "shapes", "-n", "3", "-k", "5", "-o", "x.h5"], ["k must be in 1-3", "got 5"]),
        (["data", "make", "--env", "cubes", "-n", "9", "-o", "x.h5"], ["cubes", "shapes", "rush_hour"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--grid", "2x2"], ["k=5", "2x2"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--grid", "big"], ["big", "5x5"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--seed", "-1"], ["-1"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--moving", "2"], ["2.0"]),
        (["data", "make", "--env", "shapes", "-n", "6", "-o", "x.h5", "--consecutive"], ["consecutive"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--train-scenes", "1"], ["cover"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--cell-pixels", "2"], ["cell_pixels=2"]),
        (["data", "make", "--env", "shapes", "-n", "-5", "-o", "x.h5"], ["n=-5", "1 or more"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-k", "1", "-o", "x.h5"], ["k=1", "k >= 2"]),
        (["data", "make", "--env", "shapes", "-n", "1000000", "-o", "x.h5"], ["n=1000000", "13030"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--train-episodes", "9"], ["give 63 or more"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--cell-pixels", f"{10**15}"], ["memory"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--grid", f"{10**8}x{10**8}"], ["memory"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--eval-episodes", f"{10**15}"], ["memory"]),
        (["data", "make", "--env", "shapes", "-n", "9", "-o", "x.h5", "--eval-episodes", f"{10**23}"], ["memory"]),
        (["data", "make", "--env", "shapes"], ["-n"]),
        (["data", "check", "missing.h5"], ["missing.h5", "howm data make"]),
        (["data", "check", "."], ["."]),
        (["library", "show", "--env", "shapes", "-n", "0"], ["n=0"]),
        (["library", "show", "--env", "shapes", "-n", "3", "-o", "sheet.gif"], ["sheet.gif", ".png"]),
        (["frobnicate"], ["frobnicate"]),
        ([], ["COMMAND"]),
        (["train", "--method", "magic", "--data", "x.h5", "--out", "r"], ["magic", "cswm-n"]),
        (["train", "--method", "cswm-n", "--data", "x.h5", "--out", "r"], ["x.h5"]),
        (["train", "--method", "cswm-n", "--data", ".", "--out", "r"], [".", "is a folder"]),
        (["train", "--method", "cswm-n", "--data", "x.h5", "--out", "r", "--minutes", "-1"], ["'-1'", "minutes"]),
        (["train", "--method", "cswm-n", "--data", "x.h5", "--out", "r", "--minutes", "0"], ["'0'", "minutes"]),
        (["train", "--method", "cswm-n", "--data", "x.h5", "--out", "r", "--minutes", "nan"], ["'nan'", "minutes"]),
        (["eval", "nowhere"], ["nowhere does not exist", "howm-shapes-n10, howm-shapes-n30"]),
        (["eval", "howm-shapes-n10"], ["does not say where its data is", "--data FILE or --fresh-seed"]),
        (["compare", "howm-shapes-n10"], ["two models or more"]),
        (["compare", "a", "b", "-o", "page.txt"], ["page.txt", ".html"]),
        (["sweep", "status"], ["dir"]),
        (["sweep", "status", "nowhere"], ["nowhere is not the folder of a sweep"]),
    ],
)
def test_bad_usage_is_one_line_and_leaves_nothing(arguments, words, tmp_path):
    refused(howm(*arguments, cwd=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--method", "cswm-n", "--data", "x.h5", "--out", "r"], ["x.h5"]),
        (["eval", "nowhere"], ["nowhere does not exist"]),
        (["compare", "howm-shapes-n10"], ["two models or more"]),
        (["sweep", "status", "nowhere"], ["nowhere is not the folder of a sweep"]),
        ([], ["COMMAND"]),
    ],
)
def test_bad_usage_ends_a_process_with_code_2(arguments, words, tmp_path):
    refused(howm_process(*arguments, cwd=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []
