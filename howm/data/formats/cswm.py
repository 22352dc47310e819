"""The HDF5 layout of C-SWM and of the HOWM paper's code.

An episode is a group "0", "1", ... of ``obs`` and ``next_obs`` (T, 3, height, width), floats in 0-1 or integers in
0-255, ``action`` (T,) and, with HOWM, ``ids`` (T, K): the objects of the scene, said again at every step.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float32, Integer

from howm.data.dataset import Dataset
from howm.data.episodes import Episodes
from howm.data.formats.frames import _frames, _watched
from howm.data.hdf5 import members, open_hdf5, read, refuse_too_large, stored_array
from howm.data.storage import new_hdf5
from howm.errors import HowmError
from howm.files import atomic_write
from howm.worlds.registry import WORLDS
from howm.worlds.scenes import SceneSet, SceneSplit

WHOLE = 1e-3  # a float32 colour this near to a multiple of 1/255 (in units of 1/255) is that multiple
SLUG_LENGTH = 64
SLUG = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{SLUG_LENGTH - 1}}}")  # part of a file's name on every system
HELD_OUT = 10  # one episode in so many becomes an evaluation path where there is no file of them


def import_cswm(
    train: str | Path,
    eval: str | Path,
    eval_seen: str | Path | None,
    n: int,
    k: int,
    cell_pixels: int | None = 10,
    name: str = "pixels",
) -> Dataset:
    """Read pixel data; objects are known, and unseen scenes can be certified, where the files have ``ids``.

    Without ``eval_seen``, a tenth of each training scene's episodes (at least one, where it has two) leaves the
    training data, and the beginnings of those episodes, as long as evaluation episodes, take its place. ``name`` is
    what reports call the world; pictures without a grid have ``cell_pixels=None``.
    """
    if not SLUG.fullmatch(name) or name in WORLDS:
        raise HowmError(
            f"name={name!r} must be letters, digits, - and _, up to {SLUG_LENGTH}, and not a world of howm; "
            "choose another"
        )
    train, eval, eval_seen = Path(train), Path(eval), None if eval_seen is None else Path(eval_seen)
    if not 1 <= k <= n:
        raise HowmError(f"scenes of k={k} objects cannot come from a library of n={n}; give 1 <= k <= n")
    training = _read_file(train, n, k)
    height, width, _ = training.picture_shape
    if cell_pixels is not None and (cell_pixels < 1 or height % cell_pixels or width % cell_pixels):
        raise HowmError(
            f"{train}: cell_pixels must divide the {height}x{width} pixels of a picture, or be none where there is no "
            f"grid, got {cell_pixels}"
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
    return Dataset(name, n, k, training, unseen, seen, moving=None, split=split, cell_pixels=cell_pixels)


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
    with open_hdf5(path, "give the path of an HDF5 file") as file:
        return _read_episodes(file, path, n, k)


def _read_episodes(file: h5py.File, path: Path, n: int, k: int) -> Episodes:
    """Reads episode by episode, so that the file's floats are never in memory all at once."""
    # Numerically: HDF5 lists "10" before "2". Other names are no episodes (HOWM adds pictures of its library).
    names = sorted((name for name in file if name.isdecimal()), key=int)
    if not names:
        raise HowmError(f'{path} has no episodes: no group "0" of obs, action and next_obs')
    members(file)
    pictures: np.ndarray = np.empty(0, dtype=np.uint8)
    actions, scenes = [], []
    for row, name in enumerate(_watched(names, "read")):
        where = f"{path}: episode {name}"
        arrays = _read_arrays(file[name], where)
        frames = _join_frames(arrays["obs"], arrays["next_obs"], where)
        if not row:
            refuse_too_large(len(names) * frames.size)
            pictures = np.empty((len(names), *frames.shape), dtype=np.uint8)
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
    if not isinstance(group, h5py.Group):
        raise HowmError(f"{where} has no obs, action and next_obs: it is not a group")
    stored, there = {}, members(group)
    for key, kinds in (("obs", "fiu"), ("action", "iu"), ("next_obs", "fiu"), ("ids", "iu")):
        if key == "ids" and key not in there:
            continue
        try:
            stored[key] = stored_array(group, key, kinds)
        except HowmError as error:
            of = "integers" if kinds == "iu" else "numbers"
            raise HowmError(f"{where} has no {key}, an array of {of}: {error}") from None
    shape = stored["obs"].shape
    if len(shape) != 4 or shape[1] != 3 or 0 in shape:
        raise HowmError(f"{where}: obs is {shape}, not (steps, 3, height, width)")
    if stored["next_obs"].shape != shape:
        raise HowmError(f"{where}: next_obs is {stored['next_obs'].shape}, but obs is {shape}")
    if stored["action"].shape != shape[:1]:
        raise HowmError(f"{where}: action is {stored['action'].shape}, not one number for each of {shape[0]} obs")
    if "ids" in stored and (stored["ids"].shape[:-1] not in ((), shape[:1]) or 0 in (stored["ids"].shape or (0,))):
        raise HowmError(f"{where}: ids is {stored['ids'].shape}, neither one row of objects nor one for each obs")
    return {key: read(found) for key, found in stored.items()}


def _join_frames(obs: np.ndarray, next_obs: np.ndarray, where: str) -> Float32[np.ndarray, "frames height width 3"]:
    """The frames of one path."""
    breaks = np.flatnonzero((obs[1:] != next_obs[:-1]).any(axis=(1, 2, 3)))
    if len(breaks):
        raise HowmError(
            f"{where}: next_obs of step {breaks[0]} is not obs of step {breaks[0] + 1}; give episodes that are paths"
        )
    frames = np.concatenate([obs, next_obs[-1:]]).transpose(0, 2, 3, 1)
    highest = 1 if frames.dtype.kind == "f" else 255
    if not (frames.min() >= 0 and frames.max() <= highest):  # NaN fails too
        raise HowmError(
            f"{where}: obs must be floats in 0-1 or integers in 0-255, got {frames.dtype} beyond 0-{highest}"
        )
    return frames.astype(np.float32) / np.float32(highest)


def _read_scene(ids: Integer[np.ndarray, "*T K"], n: int, k: int, where: str) -> Integer[np.ndarray, " K"]:
    """Ascending ids; every step must name the same objects, in any order."""
    by_step = np.sort(np.atleast_2d(ids), axis=1).astype(np.int64)
    changes = np.flatnonzero((by_step != by_step[0]).any(axis=1))
    if len(changes):
        raise HowmError(f"{where}: ids of step {changes[0]} are other objects than before; a scene keeps its objects")
    scene = np.asarray(by_step[0])
    if len(scene) != k or scene[0] < 0 or scene[-1] >= n or (scene[1:] == scene[:-1]).any():
        raise HowmError(f"{where}: ids {scene.tolist()} are not k={k} different objects of n={n}")
    return scene


def export_cswm(dataset: Dataset, part: str, path: str | os.PathLike[str]) -> None:
    """Write a part of a dataset as C-SWM and HOWM read it."""
    episodes = dataset.part(part)
    with atomic_write(Path(path)) as temporary, new_hdf5(temporary) as file:
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
