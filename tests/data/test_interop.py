"""Data from and for others: read as C-SWM, HOWM and Minari read it, and back again without loss."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from howm.cli.main import main
from howm.data.dataset import Amounts, Dataset, make_dataset
from howm.data.episodes import PARTS, Episodes
from howm.data.formats.cswm import export_cswm, import_cswm
from howm.data.formats.minari import export_minari
from howm.data.storage import load_dataset, save_dataset
from howm.errors import HowmError
from howm.worlds.grid import Grid

N, K, STEPS, EVAL_STEPS = 6, 3, 5, 3


@pytest.fixture(scope="module", params=["shapes", "rush_hour"])
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return make_dataset(
        request.param, N, K, 1, grid=Grid(3, 4), cell_pixels=5, amounts=Amounts(24, STEPS, 30, EVAL_STEPS)
    )


def pictures_of(episodes: Episodes) -> np.ndarray:
    rows, times = np.divmod(np.arange(len(episodes) * (episodes.steps + 1)), episodes.steps + 1)
    return episodes.observe(rows, times).reshape(len(episodes), episodes.steps + 1, *episodes.picture_shape)


def exported(dataset: Dataset, folder: Path) -> dict[str, Path]:
    paths = {part: folder / f"{part}.h5" for part in PARTS}
    for part, path in paths.items():
        export_cswm(dataset, part, path)
    return paths


def imported(paths: dict[str, Path], **options: Any) -> Dataset:
    arguments = {"eval_seen": paths.get("eval_seen"), "n": N, "k": K, "cell_pixels": 1} | options
    return import_cswm(str(paths["train"]), paths["eval"], **arguments)


def episode_files(folder: Path, change: Callable[[h5py.File], object] = lambda file: None) -> dict[str, Path]:
    """Small random files in the layout, the training file changed."""
    rng, paths = np.random.default_rng(0), {}
    for part, steps in (("train", 4), ("eval", 2), ("eval_seen", 2)):
        paths[part] = folder / f"{part}.h5"
        with h5py.File(paths[part], "w") as file:
            for episode in range(12):
                frames = rng.integers(256, size=(steps + 1, 3, 6, 8)).astype(np.float32) / 255
                group = file.create_group(str(episode))
                group["obs"], group["next_obs"] = frames[:-1], frames[1:]
                group["action"] = rng.integers(4 * N, size=steps)
            if part == "train":
                change(file)
    return paths


def read_as_cswm_does(path: Path) -> list[dict[str, np.ndarray]]:
    """All groups in the order in which h5py lists them, every array whole."""
    with h5py.File(path, "r") as file:
        return [{key: group[key][:] for key in group} for group in file.values()]


# --- the layout of C-SWM and HOWM -----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_others_read_what_we_export(dataset: Dataset, tmp_path: Path, part: str) -> None:
    episodes = dataset.part(part)
    export_cswm(dataset, part, tmp_path / "new" / "data.h5")
    read = read_as_cswm_does(tmp_path / "new" / "data.h5")
    assert len(read) == len(episodes)
    names = sorted(str(row) for row in range(len(episodes)))
    for name, arrays in zip(names, read, strict=True):
        row = int(name)
        assert set(arrays) == {"obs", "action", "next_obs", "ids"}
        shown = pictures_of(episodes)[row].transpose(0, 3, 1, 2) / 255
        assert arrays["obs"].dtype == arrays["next_obs"].dtype == np.float32
        assert arrays["obs"].shape == arrays["next_obs"].shape == (episodes.steps, 3, 15, 20)
        assert np.array_equal(arrays["obs"], shown[:-1].astype(np.float32))
        assert np.array_equal(arrays["next_obs"], shown[1:].astype(np.float32))
        assert arrays["action"].tolist() == episodes.actions[row].tolist()
        assert all(sorted(ids) == episodes.scene_ids[row].tolist() for ids in arrays["ids"])  # HOWM: at every step
        assert len(arrays["ids"]) == episodes.steps


def test_import_of_export_is_the_same(dataset: Dataset, tmp_path: Path) -> None:
    again = imported(exported(dataset, tmp_path))
    assert (again.world_name, again.n, again.k, again.world) == ("pixels", N, K, None)
    for part in PARTS:
        assert again.part(part).pictures.dtype == np.uint8
        assert np.array_equal(again.part(part).pictures, pictures_of(dataset.part(part)))
        assert np.array_equal(again.part(part).actions, dataset.part(part).actions)
        assert np.array_equal(again.part(part).scene_ids, dataset.part(part).scene_ids)
    assert set(again.split.train.scenes) == set(dataset.split.train.scenes)
    assert set(again.split.eval.scenes) == set(dataset.split.eval.scenes)
    assert again.split.hash == dataset.split.hash
    assert again.certificate()["violations"] == []


def test_imported_data_can_be_saved_and_exported_again(dataset: Dataset, tmp_path: Path) -> None:
    paths = exported(dataset, tmp_path)
    save_dataset(imported(paths), tmp_path / "pixels.h5")
    pixels = load_dataset(tmp_path / "pixels.h5")
    export_cswm(pixels, "eval", tmp_path / "again.h5")
    for one, other in zip(read_as_cswm_does(paths["eval"]), read_as_cswm_does(tmp_path / "again.h5"), strict=True):
        assert all(np.array_equal(one[key], other[key]) for key in ("obs", "action", "next_obs", "ids"))


def test_episodes_are_in_numerical_order(tmp_path: Path) -> None:
    paths = episode_files(tmp_path)
    train = imported(paths).train
    with h5py.File(paths["train"]) as file:
        for row in range(12):
            assert train.actions[row].tolist() == file[f"{row}/action"][:].tolist()


def test_without_ids_nothing_is_said_of_scenes(tmp_path: Path) -> None:
    dataset = imported(episode_files(tmp_path))
    assert dataset.split is dataset.train.scene_ids is dataset.eval.scene_ids is None
    assert dataset.certificate()["unseen"].startswith("unknown")
    assert dataset.certificate()["violations"] == []
    export_cswm(dataset, "train", tmp_path / "again.h5")
    assert set(read_as_cswm_does(tmp_path / "again.h5")[0]) == {"obs", "action", "next_obs"}


def name_objects(paths: dict[str, Path], per_step: bool) -> None:
    for part, path in paths.items():
        with h5py.File(path, "r+") as file:
            for row in range(12):
                scene = [5, 0, 1 + row % 3] if part == "eval" else [4, 2 + row % 2, 1]
                steps = len(file[f"{row}/action"])
                # HOWM lists objects in the order of its scene, which is not ascending.
                file[f"{row}/ids"] = [scene[i % 3 :] + scene[: i % 3] for i in range(steps)] if per_step else scene


@pytest.mark.parametrize("per_step", [True, False])
def test_ids_are_read_per_step_or_per_episode_in_any_order(tmp_path: Path, per_step: bool) -> None:
    paths = episode_files(tmp_path)
    name_objects(paths, per_step)
    dataset = imported(paths)
    assert dataset.train.scene_ids[:2].tolist() == [[1, 2, 4], [1, 3, 4]]
    assert dataset.eval.scene_ids[:3].tolist() == [[0, 1, 5], [0, 2, 5], [0, 3, 5]]
    assert set(dataset.split.train.scenes) == {(1, 2, 4), (1, 3, 4)}
    found = dataset.certificate()["violations"]
    assert [text for text in found if text.startswith("coverage") and "[0, 5]" in text]


def test_other_groups_than_episodes_are_left_alone(tmp_path: Path) -> None:
    paths = episode_files(tmp_path, lambda file: file.create_dataset("obj_vis/column", data=np.zeros((3, 4))))
    assert len(imported(paths).train) == 12


@pytest.mark.parametrize("row", [0, 7])
def test_colours_between_the_256_levels_are_kept_as_floats(tmp_path: Path, row: int) -> None:
    def blur(file: h5py.File) -> None:
        frames = np.random.default_rng(1).random((5, 3, 6, 8)).astype(np.float32)
        file[f"{row}/obs"][...], file[f"{row}/next_obs"][...] = frames[:-1], frames[1:]

    paths = episode_files(tmp_path, blur)
    dataset = imported(paths)
    assert dataset.train.pictures.dtype == np.float32
    assert dataset.eval.pictures.dtype == np.uint8
    for episode, arrays in zip(sorted(range(12), key=str), read_as_cswm_does(paths["train"]), strict=True):
        frames = dataset.train.pictures[episode].transpose(0, 3, 1, 2)
        assert np.array_equal(frames[:-1], arrays["obs"])
        assert np.array_equal(frames[1:], arrays["next_obs"])
    export_cswm(dataset, "train", tmp_path / "again.h5")
    again = imported(paths | {"train": tmp_path / "again.h5"})
    assert np.array_equal(again.train.pictures, dataset.train.pictures)


def test_double_precision_and_small_errors_are_no_loss(tmp_path: Path) -> None:
    levels = np.tile(np.arange(256), 3).reshape(1, 3, 16, 16)

    def all_levels(file: h5py.File) -> None:
        file.clear()
        file["0/obs"], file["0/next_obs"] = levels / 255, np.clip(levels / 255 - 1e-6, 0, 1)
        file["0/action"] = [3]

    paths = episode_files(tmp_path, all_levels) | {"eval": tmp_path / "train.h5", "eval_seen": tmp_path / "train.h5"}
    train = imported(paths).train
    assert train.pictures.dtype == np.uint8
    assert np.array_equal(train.pictures[0].transpose(0, 3, 1, 2), np.concatenate([levels, levels]))


# --- evaluation in training scenes where no file has it -------------------------------------------------------------


def test_held_out_episodes_leave_the_training_data(dataset: Dataset, tmp_path: Path) -> None:
    paths = exported(dataset, tmp_path)
    again = imported(paths, eval_seen=None)
    scenes = len(dataset.split.train)
    assert (len(again.eval_seen), again.eval_seen.steps) == (scenes, EVAL_STEPS)
    assert len(again.train) == 24 - scenes
    assert set(map(tuple, again.eval_seen.scene_ids)) == set(map(tuple, again.train.scene_ids))
    rows = {actions.tobytes(): row for row, actions in enumerate(dataset.train.actions)}
    kept = {rows[actions.tobytes()] for actions in again.train.actions}
    pictures = pictures_of(dataset.train)
    for path, ids in zip(again.eval_seen.pictures, again.eval_seen.scene_ids, strict=True):
        (source,) = (row for row in range(24) if np.array_equal(pictures[row, : EVAL_STEPS + 1], path))
        assert source not in kept
        assert dataset.train.scene_ids[source].tolist() == ids.tolist()
    assert [text for text in again.certificate()["violations"] if text.startswith("pools")]  # 10 paths against 30


def test_a_tenth_is_held_out(tmp_path: Path) -> None:
    def add_episodes(file: h5py.File) -> None:
        for row in range(12, 40):
            file.copy(file["0"], str(row))

    dataset = imported(episode_files(tmp_path, add_episodes), eval_seen=None)
    assert (len(dataset.train), len(dataset.eval_seen)) == (36, 4)
    assert dataset.eval_seen.pictures.shape == (4, 3, 6, 8, 3)


def test_nothing_can_be_held_out_of_single_or_short_episodes(tmp_path: Path) -> None:
    paths = episode_files(tmp_path, lambda file: [file.pop(str(row)) for row in range(1, 12)])
    with pytest.raises(HowmError, match=r"train\.h5.*give eval_seen"):
        imported(paths, eval_seen=None)
    with pytest.raises(HowmError, match=r"eval\.h5: 2 steps.*paths of 4.*give eval_seen"):
        imported({"train": paths["eval"], "eval": paths["train"]}, eval_seen=None)


# --- files that are not as they should be ---------------------------------------------------------------------------


def remake(file: h5py.File, name: str, array: Any) -> None:
    if name in file:
        del file[name]
    file[name] = array


def frames(*shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.clear(), ["no episodes"]),
        (lambda file: file.pop("3/obs"), ["episode 3", "no obs"]),
        (lambda file: file.pop("3/action"), ["episode 3", "no action"]),
        (lambda file: file.pop("11/next_obs"), ["episode 11", "no next_obs"]),
        (lambda file: remake(file, "3", np.zeros(3)), ["episode 3", "no obs"]),
        (lambda file: (file.pop("3/obs"), file.create_group("3/obs")), ["episode 3", "no obs"]),
        (lambda file: remake(file, "3/obs", frames(4, 6, 6, 8)), ["episode 3", "obs", "(4, 6, 6, 8)"]),
        (lambda file: remake(file, "3/obs", frames(4, 6, 8)), ["episode 3", "obs", "(4, 6, 8)"]),
        (lambda file: remake(file, "0/obs", frames(0, 3, 6, 8)), ["episode 0", "obs", "(0, 3, 6, 8)"]),
        (lambda file: remake(file, "3/next_obs", frames(3, 3, 6, 8)), ["episode 3", "next_obs", "(3, 3, 6, 8)"]),
        (lambda file: remake(file, "3/action", [1, 2, 3]), ["episode 3", "action", "(3,)"]),
        (lambda file: remake(file, "3/action", np.eye(4, dtype=int)), ["episode 3", "action", "(4, 4)"]),
        (lambda file: remake(file, "3/action", [1.0, 2.0, 3.0, 4.0]), ["episode 3", "action", "integers"]),
        (lambda file: remake(file, "3/action", [1, 2, 24, 0]), ["episode 3", "action", "0 ... 23"]),
        (lambda file: remake(file, "3/action", [1, 2, -1, 0]), ["episode 3", "action", "0 ... 23"]),
        (lambda file: file["3/next_obs"].write_direct(frames(4, 3, 6, 8)), ["episode 3", "next_obs of step 0"]),
        (lambda file: file["3/obs"].write_direct(frames(4, 3, 6, 8) + 2), ["episode 3", "next_obs of step 0"]),
        (lambda file: file["3/next_obs"].write_direct(frames(1, 3, 6, 8) + 2, dest_sel=np.s_[3:]), ["obs", "0-1"]),
        (lambda file: file["3/next_obs"].write_direct(frames(1, 3, 6, 8) - 1, dest_sel=np.s_[3:]), ["obs", "0-1"]),
        (lambda file: file["3/next_obs"].write_direct(frames(1, 3, 6, 8) * np.nan, dest_sel=np.s_[3:]), ["obs", "0-1"]),
        (lambda file: remake(file, "3/ids", [0, 1, 2]), ["episode 3", "ids", "not in both"]),
        (lambda file: remake(file, "0/ids", [0, 1, 2]), ["episode 1", "ids", "not in both"]),
        (lambda file: remake(file, "0/ids", [0, 1, 6]), ["episode 0", "ids [0, 1, 6]", "n=6"]),
        (lambda file: remake(file, "0/ids", [0, 1, 1]), ["episode 0", "ids [0, 1, 1]", "different"]),
        (lambda file: remake(file, "0/ids", [-1, 0, 1]), ["episode 0", "ids [-1, 0, 1]"]),
        (lambda file: remake(file, "0/ids", [0, 1]), ["episode 0", "ids [0, 1]", "k=3"]),
        (lambda file: remake(file, "0/ids", np.zeros((2, 3), dtype=int)), ["episode 0", "ids", "(2, 3)"]),
        (lambda file: remake(file, "0/ids", [[0, 1, 2]] * 3 + [[0, 1, 3]]), ["episode 0", "ids of step 3"]),
        (lambda file: remake(file, "0/ids", np.zeros(3)), ["episode 0", "ids", "integers"]),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path: Path, change: Any, words: list[str]) -> None:
    paths = episode_files(tmp_path, change)
    with pytest.raises(HowmError) as error:
        imported(paths)
    assert all(word in str(error.value) for word in [str(paths["train"]), *words]), str(error.value)
    assert "\n" not in str(error.value)


def test_episodes_of_unequal_length_or_size_are_refused(tmp_path: Path) -> None:
    def shorten(file: h5py.File) -> None:
        for key in ("obs", "next_obs", "action"):
            remake(file, f"5/{key}", file[f"5/{key}"][:3])

    with pytest.raises(HowmError, match=r"train\.h5: episode 5: obs is \(3, 3, 6, 8\).* episode 0"):
        imported(episode_files(tmp_path, shorten))
    paths = episode_files(tmp_path)
    with h5py.File(paths["eval"], "r+") as file:
        for row in range(12):
            for key in ("obs", "next_obs"):
                remake(file, f"{row}/{key}", frames(2, 3, 6, 9))
    with pytest.raises(HowmError, match=r"eval\.h5: obs of \(6, 9, 3\)"):
        imported(paths)


def test_integers_of_0_to_255_are_pictures_too(tmp_path: Path) -> None:
    (tmp_path / "integers").mkdir()
    floats, integers = episode_files(tmp_path), episode_files(tmp_path / "integers")
    for path in integers.values():
        with h5py.File(path, "r+") as file:
            for group in list(file):
                for key in ("obs", "next_obs"):
                    remake(file, f"{group}/{key}", (file[f"{group}/{key}"][()] * 255).round().astype(np.uint8))
    one, other = imported(floats), imported(integers)
    for part in PARTS:
        assert other.part(part).pictures.dtype == np.uint8
        assert np.array_equal(one.part(part).pictures, other.part(part).pictures)
    with h5py.File(integers["train"], "r+") as file:
        remake(
            file, "3/next_obs", file["3/next_obs"][()].astype(np.int64) + np.array([0, 0, 0, 1])[:, None, None, None]
        )
    with pytest.raises(HowmError, match=r"episode 3: obs must be floats in 0-1 or integers in 0-255"):
        imported(integers)


def test_pictures_may_have_a_name_and_no_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, out = episode_files(tmp_path), tmp_path / "out.h5"
    files = ["--train", str(paths["train"]), "--eval", str(paths["eval"]), "--eval-seen", str(paths["eval_seen"])]
    command = ["data", "import", *files, "-n", str(N), "-k", str(K), "--cell-pixels", "none", "-o", str(out)]
    for name in ("my world", "../up", "", "shapes", "con:", "x" * 65, "-x"):
        assert main([*command, f"--name={name}"]) == 2
        assert f"name={name!r}" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, "--name", "my-world_2"]) == 0
    again = load_dataset(out)
    assert (again.world_name, again.world, again.cell_pixels, again.spec.cell_pixels) == (
        "my-world_2",
        None,
        None,
        None,
    )
    assert main(["data", "check", str(out)]) == 0
    assert "my-world_2" in capsys.readouterr().out


@pytest.mark.parametrize("cell_pixels", [0, 3, 4])
def test_pictures_must_be_made_of_cells(tmp_path: Path, cell_pixels: int) -> None:
    with pytest.raises(HowmError, match=rf"train\.h5: cell_pixels must divide the 6x8 .* got {cell_pixels}"):
        imported(episode_files(tmp_path), cell_pixels=cell_pixels)
    assert imported(episode_files(tmp_path), cell_pixels=2).cell_pixels == 2


def test_ids_in_some_files_only_are_refused(tmp_path: Path) -> None:
    paths = episode_files(tmp_path)
    name_objects({"eval_seen": paths["eval_seen"]}, per_step=True)
    with pytest.raises(HowmError, match=r"eval_seen\.h5: ids"):
        imported(paths)


def test_what_is_no_file_of_episodes_is_refused(tmp_path: Path) -> None:
    paths = episode_files(tmp_path)
    text, cut = tmp_path / "text.h5", tmp_path / "cut.h5"
    text.write_text("obs,action")
    cut.write_bytes(paths["train"].read_bytes()[:3000])
    for path, words in (
        (text, "not an HDF5"),
        (cut, "not an HDF5"),
        (tmp_path / "no.h5", "does not exist"),
        (tmp_path, "folder"),
    ):
        with pytest.raises(HowmError) as error:
            imported(paths | {"eval": path})
        assert str(path) in str(error.value)
        assert words in str(error.value)
        assert "\n" not in str(error.value)
    for n, k in ((2, 3), (6, 0)):
        with pytest.raises(HowmError, match=f"k={k}.*n={n}"):
            imported(paths, n=n, k=k)


def test_an_export_that_fails_leaves_the_old_file(dataset: Dataset, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "data.h5"
    path.write_bytes(b"old")
    asked: list[int] = []
    observe = Episodes.observe

    def fail_later(episodes: Episodes, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        if len(asked) == 5:
            raise OSError(28, "No space left on device")
        return observe(episodes, rows, times)

    with monkeypatch.context() as patch:
        patch.setattr(Episodes, "observe", fail_later)
        with pytest.raises(HowmError, match=r"cannot write .*No space left"):
            export_cswm(dataset, "train", path)
        assert set(asked) == {STEPS + 1}  # one episode at a time, so that memory is bounded
        asked.clear()
        with pytest.raises(HowmError, match=r"cannot write .*No space left"):
            export_minari(dataset, "train", tmp_path / "shapes-v0")
    with pytest.raises(HowmError, match="unknown part 'test'"):
        export_cswm(dataset, "test", path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_and_no_crash(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    script = """
import resource, sys
from howm.data.dataset import Amounts, make_dataset
from howm.errors import HowmError
from howm.data.formats.cswm import export_cswm
dataset = make_dataset("shapes", 6, 3, amounts=Amounts(50, 10, 50, 10))
for limit in (100, 3_000, 30_000, 100_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        export_cswm(dataset, "eval", sys.argv[1])
    except HowmError as error:
        assert "File too large; nothing was changed" in str(error), error
    else:
        raise SystemExit("saved")
"""
    command = [sys.executable, "-c", script, str(tmp_path / "data.h5")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


# --- Minari ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return pytest.importorskip("minari")


@pytest.mark.parametrize("part", PARTS)
def test_minari_reads_what_we_export(dataset: Dataset, tmp_path: Path, minari: Any, part: str) -> None:
    export_minari(dataset, part, tmp_path / "some-name-v3")
    read, episodes = minari.load_dataset("some-name-v3"), dataset.part(part)
    assert list(minari.list_local_datasets()) == ["some-name-v3"]
    assert (read.total_episodes, read.total_steps) == (len(episodes), episodes.actions.size)
    assert (read.observation_space.shape, read.observation_space.dtype) == ((15, 20, 3), np.uint8)
    assert (read.observation_space.low.min(), read.observation_space.high.max()) == (0, 255)
    assert read.action_space.n == 4 * N
    shown = pictures_of(episodes)
    for row, episode in enumerate(read.iterate_episodes()):
        assert np.array_equal(episode.observations, shown[row])
        assert episode.actions.tolist() == episodes.actions[row].tolist()
        assert not episode.rewards.any()
        assert not episode.terminations.any()
        assert episode.truncations.tolist() == [False] * (episodes.steps - 1) + [True]
        assert (episode.infos["object_ids"] == episodes.scene_ids[row]).all()
        assert np.array_equal(episode.infos["positions"] @ [4, 1], episodes.states[row, :, :, 0])
    about = read.storage.metadata["howm"]
    assert json.loads(about["library"]) == json.loads(dataset.world.library.to_json())
    assert (about["split_hash"], about["seed"], about["part"]) == (dataset.split.hash, 1, part)


def test_minari_images_are_not_jpegs(tmp_path: Path, minari: Any) -> None:
    # Minari takes pictures of 32 pixels and more for images.
    dataset = make_dataset("shapes", 4, 2, amounts=Amounts(6, 2, 3, 2))
    export_minari(dataset, "eval", tmp_path / "shapes-v0")
    for row, episode in enumerate(minari.load_dataset("shapes-v0").iterate_episodes()):
        assert np.array_equal(episode.observations, pictures_of(dataset.eval)[row])


@pytest.mark.parametrize("part", PARTS)
def test_the_environment_replays_what_minari_read(dataset: Dataset, tmp_path: Path, minari: Any, part: str) -> None:
    export_minari(dataset, part, tmp_path / "data-v0")
    read = minari.load_dataset("data-v0")
    env = read.recover_environment()
    assert env.spec.id == {"shapes": "howm/Shapes-v0", "rush_hour": "howm/RushHour-v0"}[dataset.world_name]
    assert (env.observation_space, env.action_space) == (read.observation_space, read.action_space)
    for row in range(0, len(dataset.part(part)), 7):
        (about,) = read.storage.get_episode_metadata([row])
        obs, info = env.reset(options=about["options"])
        assert np.array_equal(obs, read[row].observations[0])
        for time, action in enumerate(read[row].actions):
            obs, _, _, truncated, info = env.step(action)
            assert np.array_equal(obs, read[row].observations[time + 1])
            assert truncated == read[row].truncations[time]
            assert np.array_equal(info["positions"], read[row].infos["positions"][time + 1])
    scenes = dataset.split.eval if part == "eval" else dataset.split.train
    assert all(scenes.contains(env.reset(seed=seed)[1]["object_ids"]) for seed in range(20))


def test_an_environment_is_named_only_where_one_has_the_data(dataset: Dataset, tmp_path: Path, minari: Any) -> None:
    options = {"grid": Grid(3, 4), "cell_pixels": 5, "amounts": Amounts(12, 2, 12, 2)}
    special = make_dataset(dataset.world_name, N, K, 1, train_scenes=4, **options)
    export_minari(special, "train", tmp_path / "special-v0")
    assert minari.load_dataset("special-v0").env_spec.kwargs["split"] == "all"
    library = dataset.world.library.permuted(np.arange(N)[::-1])
    other = replace(dataset, world=type(dataset.world).from_library(library, (3, 4), 5))
    export_minari(other, "train", tmp_path / "other-v0")
    assert minari.load_dataset("other-v0").env_spec is None


def test_pictures_without_states_go_to_minari_too(dataset: Dataset, tmp_path: Path, minari: Any) -> None:
    with_ids = imported(exported(dataset, tmp_path))
    export_minari(with_ids, "eval", tmp_path / "ids-v0")
    read = minari.load_dataset("ids-v0")
    assert np.array_equal(read[3].observations, with_ids.eval.pictures[3])
    assert list(read[3].infos) == ["object_ids"]
    assert read.env_spec is None
    floats = replace(with_ids.eval, pictures=with_ids.eval.pictures / np.float32(300), scene_ids=None)
    export_minari(replace(with_ids, eval=floats, split=None), "eval", tmp_path / "floats-v0")
    read = minari.load_dataset("floats-v0")
    assert np.array_equal(read[3].observations, floats.pictures[3])
    assert (read.observation_space.dtype, read.observation_space.high.max()) == (np.float32, 1)
    assert "library" not in read.storage.metadata["howm"]


def test_a_folder_of_folders_is_a_namespace(dataset: Dataset, tmp_path: Path, minari: Any) -> None:
    export_minari(dataset, "eval", tmp_path / "howm" / "shapes" / "eval-v0")
    assert minari.load_dataset("howm/shapes/eval-v0").id == "howm/shapes/eval-v0"
    assert list(minari.list_local_datasets()) == ["howm/shapes/eval-v0"]


def test_a_folder_elsewhere_is_named_by_itself(
    dataset: Dataset, tmp_path: Path, minari: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_minari(dataset, "eval", tmp_path / "first-v0")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "elsewhere"))
    export_minari(dataset, "eval", tmp_path / "deep" / "second-v0")
    assert not (tmp_path / "elsewhere").exists()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "deep"))
    assert minari.load_dataset("second-v0").id == "second-v0"


@pytest.mark.usefixtures("minari")
def test_what_minari_cannot_take_is_refused(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no-version", "with space-v0", "dots.in.name-v0"):
        with pytest.raises(HowmError, match=f"'{name}'.*shapes-v0"):
            export_minari(dataset, "eval", tmp_path / name)
    with pytest.raises(HowmError, match="unknown part 'test'"):
        export_minari(dataset, "test", tmp_path / "data-v0")
    (tmp_path / "there-v0").mkdir()
    with pytest.raises(HowmError, match="exists already"):
        export_minari(dataset, "eval", tmp_path / "there-v0")
    (tmp_path / "file").touch()
    with pytest.raises(HowmError, match="cannot write"):
        export_minari(dataset, "eval", tmp_path / "file" / "data-v0")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
        with pytest.raises(HowmError, match="more than is free"):
            export_minari(dataset, "eval", tmp_path / "data-v0")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "minari", None)
        with pytest.raises(HowmError, match=r"pip install howm\[minari\]"):
            export_minari(dataset, "eval", tmp_path / "data-v0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there-v0"]
