"""The dataset file: the same bytes for the same data, small, written whole or not at all, and safe to read."""

import contextlib
import json
import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds, worlds

import howm.data.storage
from howm.data.dataset import Amounts, Dataset, make_dataset
from howm.data.episodes import PARTS, Episodes
from howm.data.storage import load_certified, load_dataset, new_hdf5, read_certificate, save_dataset
from howm.errors import HowmError
from howm.files import atomic_write, file_hash
from howm.worlds.grid import Grid

SMALL = Amounts(train_episodes=12, train_steps=4, eval_episodes=12, eval_steps=2)
ARRAYS = ("actions", "scene_ids", "states", "pictures")


def small_dataset(world: str = "rush_hour", seed: int = 3, **options: Any) -> Dataset:
    return make_dataset(world, 5, 2, seed, **{"amounts": SMALL, "library_seed": 2, "cell_pixels": 7} | options)


def pixel_dataset(dtype: type = np.uint8) -> Dataset:
    """As imported from files that name no objects."""
    dataset = small_dataset()
    parts = {}
    for name, episodes in dataset.parts():
        rows, times = np.divmod(np.arange(len(episodes) * (episodes.steps + 1)), episodes.steps + 1)
        pictures = episodes.observe(rows, times).reshape(len(episodes), episodes.steps + 1, *episodes.picture_shape)
        scaled = pictures if dtype is np.uint8 else pictures.astype(dtype) / dtype(300)
        parts[name] = Episodes(episodes.actions, pictures=scaled)
    return Dataset("pixels", 5, 2, **parts, moving=None, cell_pixels=7)


def saved(dataset: Dataset, folder: Path, name: str = "data.h5") -> Path:
    save_dataset(dataset, folder / name)
    return folder / name


def same(one: Dataset, other: Dataset) -> bool:
    fields = ("world_name", "n", "k", "seed", "moving", "split", "world", "spec")
    if any(getattr(one, name) != getattr(other, name) for name in fields):
        return False
    arrays = [[getattr(data.part(part), name) for part in PARTS for name in ARRAYS] for data in (one, other)]
    return all((a is None) == (b is None) and np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


@given(world=worlds, seed=seeds, moving=st.sampled_from([None, 0.9]), height=st.integers(2, 20))
@settings(max_examples=15)
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, world: str, seed: int, moving: float | None, height: int
) -> None:
    dataset = small_dataset(world, seed, grid=Grid(height, 17), amounts=replace(SMALL, moving=moving))
    path = saved(dataset, tmp_path_factory.mktemp("data"))
    again = load_dataset(path)
    assert same(again, dataset)
    assert again.certificate() == dataset.certificate() == read_certificate(path)
    rows = np.arange(12)
    assert np.array_equal(again.train.observe(rows, 4), dataset.train.observe(rows, 4))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_imported_pictures_are_kept_exactly(tmp_path: Path, dtype: type) -> None:
    dataset = pixel_dataset(dtype)
    again = load_dataset(saved(dataset, tmp_path))
    assert same(again, dataset)
    assert again.train.pictures.dtype == dtype
    assert again.split is again.world is again.train.scene_ids is None


def test_what_is_read_is_ready_for_torch(tmp_path: Path) -> None:
    episodes = load_dataset(saved(small_dataset(), tmp_path)).train
    assert episodes.actions.dtype == episodes.scene_ids.dtype == np.int64


def test_the_same_seed_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    script = """
import sys
from howm.data.dataset import Amounts, make_dataset
from howm.data.storage import save_dataset
dataset = make_dataset("rush_hour", 5, 2, 3, amounts=Amounts(12, 4, 12, 2), library_seed=2, cell_pixels=7)
save_dataset(dataset, sys.argv[1])
"""
    path = saved(small_dataset(), tmp_path)
    for hash_seed in ("0", "1"):
        other = tmp_path / f"{hash_seed}.h5"
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-c", script, str(other)], check=True, env=environment)
        assert other.read_bytes() == path.read_bytes()
        assert file_hash(other) == file_hash(path)
    different = saved(small_dataset(seed=4), tmp_path, "different.h5")
    assert file_hash(different) != file_hash(path)


def test_a_file_saved_again_is_the_same(tmp_path: Path) -> None:
    path = saved(small_dataset(), tmp_path)
    again = saved(load_dataset(path), tmp_path, "again.h5")
    assert again.read_bytes() == path.read_bytes()


def test_no_clock_is_in_the_file(tmp_path: Path) -> None:
    # Else files made a second apart would differ. HDF5 writes times as whole seconds in four bytes.
    data, now = saved(small_dataset(), tmp_path).read_bytes(), int(time.time())
    numbers = np.concatenate([np.frombuffer(data[i : i + (len(data) - i) // 4 * 4], dtype="<u4") for i in range(4)])
    assert not ((numbers > now - 100) & (numbers < now + 100)).any()


@pytest.mark.parametrize(("world", "n"), [("shapes", 10), ("rush_hour", 50)])
def test_the_papers_amounts_take_less_than_3_megabytes(tmp_path: Path, world: str, n: int) -> None:
    assert saved(make_dataset(world, n, 5), tmp_path).stat().st_size < 3_000_000


# --- reading what is not well ---------------------------------------------------------------------------------------


def assert_refused(path: Path, *words: str) -> None:
    for read in (load_dataset, read_certificate):
        with pytest.raises(HowmError) as error:
            read(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
        assert all(word in str(error.value) for word in words)


@pytest.fixture(scope="module")
def file_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return saved(small_dataset(), tmp_path_factory.mktemp("data")).read_bytes()


def test_truncated_files_are_refused(tmp_path: Path, file_bytes: bytes) -> None:
    path = tmp_path / "short.h5"
    for length in [*range(0, len(file_bytes), 97), len(file_bytes) - 1]:
        path.write_bytes(file_bytes[:length])
        assert_refused(path, "make it again")


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4))
@settings(max_examples=300)
def test_damage_is_refused_or_does_no_harm(
    tmp_path_factory: pytest.TempPathFactory, file_bytes: bytes, damages: list[tuple[float, int]]
) -> None:
    damaged = bytearray(file_bytes)
    for where, change in damages:
        damaged[int(where * len(damaged))] ^= change
    path = tmp_path_factory.getbasetemp() / "damaged.h5"
    path.write_bytes(damaged)
    with contextlib.suppress(HowmError):
        assert same(load_dataset(path), small_dataset())


def test_altered_text_is_refused(tmp_path: Path, file_bytes: bytes) -> None:
    path = tmp_path / "altered.h5"
    for word, other in (
        (b'"seed": 3', b'"seed": 4'),
        (b'"large"', b'"small"'),
        (b'"violations": []', b'"violations": {}'),
    ):
        assert word in file_bytes
        path.write_bytes(file_bytes.replace(word, other, 1))
        with pytest.raises(HowmError, match="damaged"):
            load_dataset(path) and read_certificate(path)


def test_nothing_in_the_file_has_a_variable_length(file_bytes: bytes) -> None:
    # HDF5 keeps such things in a global heap, and loops for ever when it reads a damaged one.
    assert b"GCOL" not in file_bytes


def test_a_file_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(howm.data.storage, "VERSION", 99)
        path = saved(small_dataset(), tmp_path)
    assert_refused(path, "version 99", "version 1")


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "missing.h5", "does not exist", "howm data make")
    assert_refused(tmp_path, "is a folder")
    for name, content in (("empty.h5", b""), ("text.h5", b"obs,action\n1,2\n"), ("zeros.h5", bytes(5000))):
        (tmp_path / name).write_bytes(content)
        assert_refused(tmp_path / name, "not an HDF5 file")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["obs"] = np.zeros(3)
    assert_refused(tmp_path / "other.h5", "not a howm dataset")
    with h5py.File(tmp_path / "other.h5", "r+") as file:
        file.attrs["format"] = "robot episodes"
    assert_refused(tmp_path / "other.h5", "not a howm dataset")


def change_about(file: h5py.File, **values: Any) -> None:
    text = json.dumps(json.loads(bytes(file["about"][()])) | values)
    del file["about"]
    file["about"] = np.frombuffer(text.encode(), dtype=np.uint8)


def remake(file: h5py.File, name: str, array: Any) -> None:
    del file[name]
    file[name] = array


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.pop("train"),
        lambda file: file.pop("library"),
        lambda file: file.pop("about"),
        lambda file: file.pop("eval/actions"),
        lambda file: file.pop("eval/cells"),
        lambda file: file.pop("eval/scene_ids"),
        lambda file: remake(file, "train", np.zeros(3)),
        lambda file: remake(file, "about", np.frombuffer(b"{", dtype=np.uint8)),
        lambda file: remake(file, "about", np.frombuffer(b"[1]", dtype=np.uint8)),
        lambda file: remake(file, "about", np.frombuffer(b"\xff\xfe", dtype=np.uint8)),
        lambda file: remake(file, "train/actions", np.full((12, 4), 20)),
        lambda file: remake(file, "train/actions", np.zeros(12, dtype=int)),
        lambda file: remake(file, "train/scene_ids", np.full((12, 2), 5)),
        lambda file: remake(file, "train/cells", np.full((12, 4, 2), 0)),
        lambda file: remake(file, "split/train", np.full((2, 2), 1)),
        lambda file: change_about(file, n="many"),
        lambda file: change_about(file, k=3),
        lambda file: change_about(file, n=7),
        lambda file: change_about(file, grid=[2]),
        lambda file: change_about(file, grid=[0, 2]),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, change: Any) -> None:
    path = saved(small_dataset(), tmp_path)
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(HowmError) as error:
        load_dataset(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: remake(file, "train/cells", np.full((12, 5, 2), 25)),
        lambda file: change_about(file, grid=[2, 2]),
    ],
)
def test_states_that_cannot_be_are_named_by_the_certificate(tmp_path: Path, change: Any) -> None:
    path = saved(small_dataset(), tmp_path)
    with h5py.File(path, "r+") as file:
        change(file)
    assert any("outside the grid" in violation for violation in load_dataset(path).certificate()["violations"])
    with pytest.raises(HowmError, match="outside the grid"):
        load_certified(path)


# --- writing whole or not at all ------------------------------------------------------------------------------------


def assert_untouched(path: Path) -> None:
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "data.h5"
    path.write_bytes(b"old")
    return path


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, HowmError])
def test_a_failure_while_writing_leaves_the_old_file(old: Path, failure: type[BaseException]) -> None:
    def fail_half_way(in_hdf5: bool) -> None:
        with atomic_write(old) as temporary:
            temporary.write_bytes(b"new")
            if in_hdf5:
                with new_hdf5(temporary) as file:
                    file["half"] = np.zeros(3)
                    raise failure
            raise failure

    for in_hdf5 in (False, True):
        with pytest.raises(failure):
            fail_half_way(in_hdf5)
        assert_untouched(old)


def test_the_old_file_is_there_until_the_new_one_is_whole(old: Path) -> None:
    with atomic_write(old) as temporary:
        temporary.write_bytes(b"new")
        assert old.read_bytes() == b"old"
        assert temporary.parent == old.parent  # or it could not be renamed in one step
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "ours") as temporary:
        temporary.write_bytes(b"new")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_missing_folders_are_made(tmp_path: Path) -> None:
    assert same(load_dataset(saved(small_dataset(), tmp_path, "a/b/data.h5")), small_dataset())


def test_what_is_no_ordinary_file_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(HowmError, match="pipe: it is there and is not an ordinary file"):
        save_dataset(small_dataset(), pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path, old: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "link.h5").symlink_to(old)
    (folder / "second.h5").symlink_to(folder / "link.h5")
    assert same(load_dataset(saved(small_dataset(), folder, "second.h5")), small_dataset())
    assert same(load_dataset(old), small_dataset())
    assert not old.is_symlink()
    assert sorted(path.name for path in folder.iterdir() if path.is_symlink()) == ["link.h5", "second.h5"]
    assert len(list(folder.iterdir())) == 2


def test_a_dataset_that_cannot_be_written_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(HowmError, match=r"cannot write .*data\.h5: Permission denied"):
        save_dataset(small_dataset(), old)
    assert_untouched(old)


def test_places_where_nothing_can_be_written(tmp_path: Path, old: Path) -> None:
    with pytest.raises(HowmError, match="cannot write"):
        save_dataset(small_dataset(), old / "below-a-file.h5")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(HowmError, match="cannot write"):
        save_dataset(small_dataset(), folder)
    assert sorted(tmp_path.iterdir()) == [old, folder]
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(HowmError, match="cannot write"):
        save_dataset(small_dataset(), tmp_path / "data.h5")


def test_a_full_disk_is_an_error_and_no_crash(old: Path) -> None:
    # In a process of its own: the limit on the size of files holds for all of a process, and HDF5 itself would crash.
    pytest.importorskip("resource")
    script = """
import resource, sys
from howm.data.dataset import Amounts, make_dataset
from howm.errors import HowmError
from howm.data.storage import save_dataset
dataset = make_dataset("shapes", 6, 3, amounts=Amounts(200, 50, 300, 10))
for limit in [int(word) for word in sys.argv[2:]]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save_dataset(dataset, sys.argv[1])
    except HowmError as error:
        assert "File too large; nothing was changed" in str(error), error
    else:
        raise SystemExit("saved")
"""
    limits = ["0", "100", "2048", "5000", "15000", "30000"]
    command = [sys.executable, "-c", script, str(old), *limits]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert_untouched(old)
