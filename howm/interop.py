"""Data from and for others: the HDF5 layout of C-SWM and of the HOWM paper's code, and Minari.

In that layout an episode is a group "0", "1", ... of ``obs`` and ``next_obs`` (T, 3, height, width) in 0-1, ``action``
(T,) and, with HOWM, ``ids`` (T, K): the objects of the scene, said again at every step.
"""

import copy
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import h5py
import numpy as np
from jaxtyping import Float32, Int
from tqdm import tqdm

from howm.dataset import Dataset, Episodes
from howm.errors import HowmError
from howm.library import ObjectLibrary
from howm.scenes import SceneSet, SceneSplit, seeded_split
from howm.storage import folder_written_whole, new_hdf5, written_whole
from howm.version import __version__

T = TypeVar("T")
WHOLE = 1e-3  # a float32 colour this near to a multiple of 1/255 (in units of 1/255) is that multiple
HELD_OUT = 10  # one episode in so many becomes an evaluation path where there is no file of them
ENVIRONMENTS = {"shapes": "howm/Shapes-v0", "rush_hour": "howm/RushHour-v0"}


def import_cswm(
    train: str | Path, eval: str | Path, eval_seen: str | Path | None, n: int, k: int, cell_pixels: int = 10
) -> Dataset:
    """Read pixel data; objects are known, and unseen scenes can be certified, where the files have ``ids``.

    Without ``eval_seen``, a tenth of each training scene's episodes (at least one, where it has two) leaves the
    training data, and the beginnings of those episodes, as long as evaluation episodes, take its place.
    """
    train, eval, eval_seen = Path(train), Path(eval), None if eval_seen is None else Path(eval_seen)
    if not 1 <= k <= n:
        raise HowmError(f"scenes of k={k} objects cannot come from a library of n={n}; give 1 <= k <= n")
    training = _read_file(train, n, k)
    height, width, _ = training.picture_shape
    if cell_pixels < 1 or height % cell_pixels or width % cell_pixels:
        raise HowmError(
            f"{train}: pictures of {height}x{width} pixels are no whole number of cells of {cell_pixels}; "
            "give cell_pixels that divides both"
        )
    unseen = _read_file(eval, n, k)
    seen = _read_file(eval_seen, n, k) if eval_seen else None
    for path, episodes in ((eval, unseen), (eval_seen, seen)):
        if episodes is not None and episodes.picture_shape != training.picture_shape:
            raise HowmError(f"{path}: obs of {episodes.picture_shape}, but {train} has {training.picture_shape}")
        if episodes is not None and (episodes.scene_ids is None) != (training.scene_ids is None):
            raise HowmError(f"{path}: ids are in this file or in {train}, but not in both; give both ids or neither")
    if seen is None:
        training, seen = _hold_out_paths(training, unseen.steps, train)
    split = None
    if training.scene_ids is not None and unseen.scene_ids is not None:
        train_scenes, eval_scenes = (np.unique(ids, axis=0) for ids in (training.scene_ids, unseen.scene_ids))
        split = SceneSplit(SceneSet.from_array(n, train_scenes), SceneSet.from_array(n, eval_scenes))
    return Dataset("pixels", n, k, training, unseen, seen, moving=None, split=split, cell_pixels=cell_pixels)


def _hold_out_paths(episodes: Episodes, steps: int, path: Path) -> tuple[Episodes, Episodes]:
    """Episodes to train on, and the beginnings of others in the same scenes."""
    if steps > episodes.steps:
        raise HowmError(f"{path}: {episodes.steps} steps are too few for paths of {steps}; give eval_seen a file")
    scenes = [np.flatnonzero(episodes.scene_index == scene) for scene in np.unique(episodes.scene_index)]
    out = [rows[-max(1, len(rows) // HELD_OUT) :] for rows in scenes if len(rows) > 1]
    if not out:
        raise HowmError(f"{path}: no scene has two episodes, so none can be held out; give eval_seen a file")
    held = np.isin(np.arange(len(episodes)), np.concatenate(out))
    paths = episodes.select(np.flatnonzero(held))
    assert paths.pictures is not None
    paths = replace(paths, actions=paths.actions[:, :steps], pictures=paths.pictures[:, : steps + 1])
    return episodes.select(np.flatnonzero(~held)), paths


def _read_file(path: Path, n: int, k: int) -> Episodes:
    if path.is_dir():
        raise HowmError(f"{path} cannot be read: it is a folder; give the path of an HDF5 file")
    try:
        with h5py.File(path, "r") as file:
            return _read_episodes(file, path, n, k)
    except FileNotFoundError:
        raise HowmError(f"{path} does not exist; give the path of an HDF5 file") from None
    except (OSError, RuntimeError, KeyError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise HowmError(f"{path} cannot be read: it is damaged or no HDF5 file ({first_line})") from error


def _read_episodes(file: h5py.File, path: Path, n: int, k: int) -> Episodes:
    """Reads episode by episode, so that the file's floats are never in memory all at once."""
    # Numerically: HDF5 lists "10" before "2". Other names are no episodes (HOWM adds pictures of its library).
    names = sorted((name for name in file if name.isdecimal()), key=int)
    if not names:
        raise HowmError(f'{path} has no episodes: no group "0" of obs, action and next_obs')
    pictures: np.ndarray = np.empty(0, dtype=np.uint8)
    actions, scenes = [], []
    for row, name in enumerate(_watched(names, "read")):
        where = f"{path}: episode {name}"
        arrays = _read_arrays(file[name], where)
        frames = _join_frames(arrays["obs"], arrays["next_obs"], where)
        pictures = pictures if row else np.empty((len(names), *frames.shape), dtype=np.uint8)
        if frames.shape != pictures.shape[1:]:
            raise HowmError(f"{where}: obs is {arrays['obs'].shape}, which differs from episode {names[0]}")
        whole = (frames * 255).round()
        if pictures.dtype == np.uint8 and (abs(frames * 255 - whole) > WHOLE).any():
            pictures = pictures.astype(np.float32) / np.float32(255)
        pictures[row] = whole if pictures.dtype == np.uint8 else frames
        actions.append(arrays["action"].astype(np.int64))
        if actions[-1].min() < 0 or actions[-1].max() >= 4 * n:
            raise HowmError(f"{where}: action is not in 0 ... {4 * n - 1}, the actions of n={n} objects")
        if "ids" in arrays:
            scenes.append(_read_scene(arrays["ids"], n, k, where))
        if scenes and len(scenes) <= row:
            raise HowmError(f"{where}: ids are in this episode or in {names[0]}, but not in both")
    return Episodes(np.stack(actions), np.stack(scenes) if scenes else None, pictures=pictures)


def _read_arrays(group: h5py.Group, where: str) -> dict[str, np.ndarray]:
    """The arrays of one episode, of the right types and shapes."""
    arrays = {}
    for key, kinds in (("obs", "fiu"), ("action", "iu"), ("next_obs", "fiu"), ("ids", "iu")):
        array = group.get(key) if isinstance(group, h5py.Group) else None
        if array is None and key == "ids":
            continue
        if not isinstance(array, h5py.Dataset) or array.dtype.kind not in kinds:
            raise HowmError(f"{where} has no {key}, an array of {'whole ' if kinds == 'iu' else ''}numbers")
        arrays[key] = array[()]
    shape = arrays["obs"].shape
    if len(shape) != 4 or shape[1] != 3 or 0 in shape:
        raise HowmError(f"{where}: obs is {shape}, not (steps, 3, height, width)")
    if arrays["next_obs"].shape != shape:
        raise HowmError(f"{where}: next_obs is {arrays['next_obs'].shape}, but obs is {shape}")
    if arrays["action"].shape != shape[:1]:
        raise HowmError(f"{where}: action is {arrays['action'].shape}, not one number for each of {shape[0]} obs")
    if "ids" in arrays and arrays["ids"].shape[:-1] not in ((), shape[:1]):
        raise HowmError(f"{where}: ids is {arrays['ids'].shape}, neither one row of objects nor one for each obs")
    return arrays


def _join_frames(obs: np.ndarray, next_obs: np.ndarray, where: str) -> Float32[np.ndarray, "T+1 height width 3"]:
    """The frames of one path."""
    breaks = np.flatnonzero((obs[1:] != next_obs[:-1]).any(axis=(1, 2, 3)))
    if len(breaks):
        raise HowmError(f"{where}: next_obs of step {breaks[0]} is not obs of step {breaks[0] + 1}; this is no path")
    frames = np.concatenate([obs, next_obs[-1:]]).transpose(0, 2, 3, 1).astype(np.float32)
    if not (frames.min() >= 0 and frames.max() <= 1):  # NaN fails too
        raise HowmError(f"{where}: obs is not in 0-1; divide colours by 255")
    return frames


def _read_scene(ids: Int[np.ndarray, "*T K"], n: int, k: int, where: str) -> Int[np.ndarray, "K"]:
    """Ascending ids; every step must name the same objects, in any order."""
    by_step = np.sort(np.atleast_2d(ids), axis=1).astype(np.int64)
    changes = np.flatnonzero((by_step != by_step[0]).any(axis=1))
    if len(changes):
        raise HowmError(f"{where}: ids of step {changes[0]} are other objects than before; a scene keeps its objects")
    scene = np.asarray(by_step[0])
    if len(scene) != k or scene[0] < 0 or scene[-1] >= n or (scene[1:] == scene[:-1]).any():
        raise HowmError(f"{where}: ids {scene.tolist()} are not k={k} different objects of n={n}")
    return scene


def _frames(episodes: Episodes, row: int) -> np.ndarray:
    """All pictures of one episode."""
    times = np.arange(episodes.steps + 1)
    return episodes.observe(np.full_like(times, row), times)


def _watched(items: Sequence[T], doing: str) -> "tqdm[T]":
    """A progress bar, on a terminal, where it takes longer than a second."""
    return tqdm(items, desc=doing, unit="episode", delay=1.0, disable=None)


def export_cswm(dataset: Dataset, part: str, path: str | os.PathLike[str]) -> None:
    """Write a part of a dataset as C-SWM and HOWM read it."""
    episodes = dataset.part(part)
    with written_whole(Path(path)) as temporary, new_hdf5(temporary) as file:
        for row in _watched(range(len(episodes)), "write"):
            frames = _frames(episodes, row)
            frames = (frames / np.float32(255) if frames.dtype == np.uint8 else frames).transpose(0, 3, 1, 2)
            packed = {"compression": "gzip", "compression_opts": 1, "chunks": (1, *frames.shape[1:])}  # h5py unpacks it
            group = file.create_group(str(row))
            group.create_dataset("obs", data=frames[:-1], **packed)
            group.create_dataset("action", data=episodes.actions[row])
            group.create_dataset("next_obs", data=frames[1:], **packed)
            if episodes.scene_ids is not None:
                group.create_dataset("ids", data=np.tile(episodes.scene_ids[row], (episodes.steps, 1)))


def export_minari(dataset: Dataset, part: str, path: str | os.PathLike[str]) -> None:
    """Write a part of a dataset as a Minari dataset: the new folder ``path``, whose name is the dataset's id.

    ``minari.load_dataset`` looks for it in MINARI_DATASETS_PATH. Pictures stay exact, which takes Minari much space.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise HowmError(f"Minari cannot be loaded ({error}); pip install howm[minari]") from error
    folder, episodes = Path(path).absolute(), dataset.part(part)
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or "~/.minari/datasets").expanduser().absolute()
    dataset_id = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):  # the latter where there is no version
        raise HowmError(f"{dataset_id!r} is no id of Minari; give a folder with a name like shapes-v0") from None
    dtype = _frames(episodes, 0).dtype
    pixels = gymnasium.spaces.Box(0, 255 if dtype == np.uint8 else 1, episodes.picture_shape, dtype.type)
    about = {name: getattr(dataset, name) for name in ("world", "n", "k", "seed", "moving")}
    about |= {"part": part, "library": dataset.library and dataset.library.to_json()}
    about |= {"split_hash": dataset.split and dataset.split.hash, "version": __version__}
    with folder_written_whole(folder) as whole:
        size = len(episodes) * (episodes.steps + 1) * prod(pixels.shape) * dtype.itemsize
        if size > shutil.disk_usage(whole).free:  # HDF5, in Minari's hands, would find out by a crash
            raise HowmError(f"{folder} would take {size / 1e9:.1f} GB, more than is free; choose another place")
        storage = MinariStorage.new(
            whole / "data", pixels, gymnasium.spaces.Discrete(4 * dataset.n), _environment(dataset, part),
            jpeg_encoding=False,
        )  # fmt: skip
        storage.update_metadata({"dataset_id": dataset_id, "minari_version": minari.__version__, "howm": about})
        rows = _watched(range(len(episodes)), "write")
        storage.update_episodes(EpisodeBuffer(**_minari_fields(episodes, row)) for row in rows)


def _minari_fields(episodes: Episodes, row: int) -> dict[str, Any]:
    """One episode; its ``options`` make ``reset`` of a howm environment start it again."""
    steps = episodes.steps
    fields = {"observations": _frames(episodes, row), "actions": episodes.actions[row], "rewards": np.zeros(steps)}
    fields |= {"terminations": np.zeros(steps, dtype=bool), "truncations": np.arange(steps) == steps - 1}
    infos = {}
    if episodes.scene_ids is not None:
        infos["object_ids"] = np.tile(episodes.scene_ids[row], (steps + 1, 1))
    if episodes.cells is None:
        return fields | {"infos": infos or None}
    infos["positions"] = episodes.state()[0].grid.positions(episodes.cells[row].astype(np.int64))
    return fields | {"infos": infos, "options": {"scene": infos["object_ids"][0], "positions": infos["positions"][0]}}


def _environment(dataset: Dataset, part: str) -> gymnasium.envs.registration.EnvSpec | None:
    """The environment of these episodes, where one has this library; its split is "all" where the split is special."""
    library, renderer = dataset.library, dataset.renderer
    if library is None or renderer is None or library != ObjectLibrary.make(library.world, library.n, library.seed):
        return None
    spec = copy.deepcopy(gymnasium.spec(ENVIRONMENTS[library.world]))
    spec.max_episode_steps = dataset.part(part).steps
    usual = dataset.split == seeded_split(dataset.n, dataset.k, dataset.seed)
    spec.kwargs |= {"n": dataset.n, "k": dataset.k, "grid": [renderer.grid.height, renderer.grid.width]}
    spec.kwargs |= {"cell_pixels": renderer.cell_pixels, "library_seed": library.seed, "split_seed": dataset.seed}
    spec.kwargs |= {"split": ("eval" if part == "eval" else "train") if usual else "all"}
    return spec
