"""A dataset in HDF5, written whole or not at all, read without executing anything."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from howm.config import from_plain, require_name
from howm.data.dataset import Dataset
from howm.data.episodes import PARTS, Episodes
from howm.data.hdf5 import child, members, number, open_hdf5, read, refuse_too_large, stored_array
from howm.errors import HowmError
from howm.files import MAX_JSON, atomic_write, parse_json
from howm.worlds.registry import WORLDS, describe_world, read_world
from howm.worlds.scene_set import SceneSet, as_scene
from howm.worlds.scenes import SceneSplit
from howm.worlds.world import World

FORMAT = "howm-dataset"
VERSION = 1
MAX_OBJECTS, MAX_PIXELS = 10**6, 4_096  # of a library, and along a picture: more is damage
KNOWN = {"about", "certificate", "split", *PARTS}
LONG = {"library", "record"}  # what is said of a world at length has a place of its own


class _PatientFile(io.FileIO):
    """Keeps the first failure for later: HDF5 crashes the whole process when a write fails while it closes a file."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and not self.failure:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return size or 0 if self.failure else super().truncate(size)
        except OSError as error:
            self.failure = error
            return size or 0


@contextmanager
def new_hdf5(path: Path, **options: Any) -> Iterator[h5py.File]:
    """Create an HDF5 file; a full disk is an OSError."""
    with _PatientFile(path, "w+") as target:
        try:
            with h5py.File(target, "w", **options) as file:
                yield file
        except Exception:
            if target.failure:  # HDF5 stumbled over what could not be written
                raise target.failure from None
            raise
        if target.failure:
            raise target.failure


def save_dataset(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset; the same dataset gives the same bytes."""
    with atomic_write(Path(path)) as temporary, new_hdf5(temporary, libver="v110") as file:
        _write(file, dataset)


def _write(file: h5py.File, dataset: Dataset) -> None:
    """Every byte that says something is under a checksum: of HDF5's headers (in this version), of gzip or of ours."""
    file.attrs["format"] = np.bytes_(FORMAT)  # a str would be of variable length, whose damage makes HDF5 loop forever
    file.attrs["version"] = VERSION
    fields = ("n", "k", "seed", "moving", "cell_pixels")
    about: dict[str, Any] = {"world": dataset.world_name} | {name: getattr(dataset, name) for name in fields}
    world = {} if dataset.world is None else describe_world(dataset.world)
    about |= {name: value for name, value in world.items() if name not in LONG}
    _write_text(file, "about", json.dumps(about))
    for name in LONG & world.keys():
        _write_text(file, name, json.dumps(world[name], separators=(",", ":")))
    if dataset.split is not None:
        split = file.create_group("split")
        split.attrs["consecutive"] = dataset.split.consecutive
        for name, scenes in (("train", dataset.split.train), ("eval", dataset.split.eval)):
            _write_array(split, name, scenes.to_array())
        if dataset.split.kind != "scenes":
            split.attrs["kind"] = np.bytes_(dataset.split.kind)
        if dataset.split.pairs_apart:
            _write_array(split, "pairs_apart", np.array(dataset.split.pairs_apart))
    _write_text(file, "certificate", json.dumps(dataset.certificate()))
    for name, episodes in dataset.parts():
        group = file.create_group(name)
        for field, array in _arrays(episodes, "library" in world).items():
            _write_array(group, field, array)


def _arrays(episodes: Episodes, on_grid: bool) -> dict[str, np.ndarray]:
    fields = {"actions": episodes.actions, "scene_ids": episodes.scene_ids, "frame_ids": episodes.frame_ids}
    if on_grid and episodes.states is not None:  # as ever
        fields["cells"] = episodes.states[..., 0]
    elif episodes.states is not None and episodes.states.dtype == np.float64:
        # Bit by bit, what differs from the frame before: of most objects nothing, which takes hardly any space.
        bits = np.ascontiguousarray(episodes.states).view(np.uint64)
        fields["state_changes"] = np.concatenate([bits[:, :1], bits[:, 1:] ^ bits[:, :-1]], axis=1)
    else:
        fields["states"] = episodes.states
    fields["pictures"] = episodes.pictures
    return {name: array for name, array in fields.items() if array is not None}


def _write_text(file: h5py.File, name: str, text: str) -> None:
    file.create_dataset(name, data=np.frombuffer(text.encode(), dtype=np.uint8), fletcher32=True)


def _write_array(group: h5py.Group, name: str, array: np.ndarray) -> None:
    if array.dtype.kind in "iu" and name not in ("states", "state_changes"):  # the smallest type that holds the values
        least = int(array.min(initial=0))  # -1 fills up small scenes
        array = array.astype(np.result_type(np.min_scalar_type(int(array.max(initial=0))), np.min_scalar_type(least)))
    group.create_dataset(name, data=array, compression="gzip", compression_opts=4, shuffle=True)


@dataclass(frozen=True)
class _About:
    """What a file says of its data in short. Of grid worlds ``grid`` and ``cell_pixels`` belong to the world."""

    world: str
    n: int
    k: int
    seed: int
    moving: float | None
    cell_pixels: int | None
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_name("world", self.world)
        if not 0 < self.k <= self.n <= MAX_OBJECTS or self.seed < 0:
            raise HowmError(f"n={self.n}, k={self.k}, seed={self.seed} must have n ≥ k ≥ 1 and seed ≥ 0")
        if self.moving is not None and not 0 <= self.moving <= 1:
            raise HowmError(f"moving must be in [0, 1], got {self.moving}")
        if max(self.grid or (1,)) * (self.cell_pixels or 1) > MAX_PIXELS or min(self.grid or (1,)) < 1:
            raise HowmError(f"grid={self.grid} of {self.cell_pixels} pixels a cell must have 1 to {MAX_PIXELS} pixels")


def load_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset; a file that is damaged, of another version or not ours is one clear error."""
    with _opened(path) as file:
        try:
            members(file, KNOWN | LONG)
            plain = parse_json(_read_text(file, "about"), "about")
            about = from_plain(_About, plain)
            world = {name: parse_json(_read_text(file, name), name) for name in LONG.intersection(file)}
        except HowmError as error:
            raise HowmError(f"{path} contradicts itself: {error}; make it again") from error
        if world:
            try:
                WORLDS[about.world]
            except HowmError as error:
                raise HowmError(f"{path} needs its world to draw pictures: {error}") from error
        try:
            return _read(file, about, _read_world(about, plain | world))
        except HowmError as error:
            raise HowmError(f"{path} contradicts itself: {error}; make it again") from error


def _read_world(about: _About, said: dict[str, Any]) -> World | None:
    world = read_world(about.world, said)
    if world is not None and not 0 < max(world.height, world.width) <= MAX_PIXELS:
        raise HowmError(f"pictures of {world.height}x{world.width} must have 1 to {MAX_PIXELS} pixels a side")
    return world


def load_certified(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset to train or to measure with: its certificate must hold, or the results would mean nothing."""
    dataset = load_dataset(path)
    for violation in dataset.certificate()["violations"]:
        if not violation.startswith("pools"):  # an evaluation makes its pools equal itself
            raise HowmError(f"the certificate of {path} is violated ({violation}); see `howm data check {path}`")
    return dataset


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[h5py.File]:
    with open_hdf5(path, "make it again with `howm data make`") as file:
        if number(file, "format") != np.bytes_(FORMAT):
            raise HowmError(f"{path} is not a howm dataset; make one with `howm data make` or `howm data import`")
        version = number(file, "version")
        if version != VERSION:
            raise HowmError(
                f"{path} has format version {version}, this howm reads version {VERSION}; "
                "make it again with `howm data make`"
            )
        yield file


def _read(file: h5py.File, about: _About, world: World | None) -> Dataset:
    n, k = about.n, about.k
    split, per_object = None, world.actions_per_object if world else 4
    if "split" in file:
        group = child(file, "split")
        there = members(group, {"train", "eval", "pairs_apart"})
        sets = {name: SceneSet.from_array(n, _scenes(group, name, k)) for name in ("train", "eval")}
        kind = bytes(number(group, "kind") or b"scenes").decode()
        pairs = _scenes(group, "pairs_apart", 2).tolist() if "pairs_apart" in there else []
        consecutive = bool(number(group, "consecutive"))
        split = SceneSplit(sets["train"], sets["eval"], consecutive, kind, tuple(map(as_scene, pairs)))
    parts = {name: _read_episodes(child(file, name), n, k, n * per_object, world) for name in PARTS}
    parts = {name: replace(episodes, moving=about.moving) for name, episodes in parts.items()}
    return Dataset(about.world, n, k, **parts, seed=about.seed, moving=about.moving,
                   split=split, world=world, cell_pixels=about.cell_pixels)  # fmt: skip


def _scenes(group: h5py.Group, name: str, k: int) -> np.ndarray:
    found = stored_array(group, name)
    if found.ndim != 2 or not 1 <= found.shape[1] <= k:
        raise HowmError(f"{name} of the split are {found.shape}, not rows of {k} objects")
    return read(found, np.int64)


# The axes of the arrays of a part: episodes, steps, frames (one more), objects, numbers, height, width, colours.
_AXES = {
    **{"actions": "ET", "scene_ids": "EK", "frame_ids": "EFK", "cells": "EFK", "states": "EFKN"},
    **{"state_changes": "EFKN", "pictures": "EFHWC"},
}
_KINDS = {"states": "iuf", "pictures": "uf"}
_SHOWN = ("cells", "states", "state_changes", "pictures")  # of which a part has one


def _find_arrays(group: h5py.Group, k: int) -> dict[str, h5py.Dataset]:
    """The arrays of a part, whose shapes fit to each other; nothing is read."""
    found = {name: stored_array(group, name, _KINDS.get(name, "iu")) for name in members(group, set(_AXES))}
    if "actions" not in found or found["actions"].ndim != 2:
        raise HowmError(f"the part {group.name} has no actions of episodes and steps")
    episodes, steps = found["actions"].shape
    sizes = {"E": episodes, "T": steps, "F": steps + 1, "K": k, "C": 3}
    for name, stored in found.items():
        axes = _AXES[name]
        fits = [sizes.get(axis, size) == size for axis, size in zip(axes, stored.shape, strict=False)]
        if stored.ndim != len(axes) or not all(fits) or max(stored.shape[2:], default=1) > MAX_PIXELS:
            raise HowmError(f"{name} of the part {group.name} are {stored.shape}, which does not match its actions")
    if sum(name in found for name in _SHOWN) != 1:
        raise HowmError(f"the part {group.name} needs either states or pictures")
    wide = ("actions", "scene_ids", "frame_ids")
    refuse_too_large(sum(a.size * (8 if name in wide else a.dtype.itemsize) for name, a in found.items()))
    return found


def _read_episodes(group: h5py.Group, n: int, k: int, actions_end: int, world: World | None) -> Episodes:
    found = _find_arrays(group, k)
    actions, scene_ids, frame_ids = (
        read(found[name], np.int64) if name in found else None for name in ("actions", "scene_ids", "frame_ids")
    )
    assert actions is not None
    if actions.size and not 0 <= actions.min() <= actions.max() < actions_end:
        raise HowmError(f"actions of the part {group.name} are not library actions 0 ... {actions_end - 1}")
    if scene_ids is not None and not _are_scenes(scene_ids, n):
        raise HowmError(f"scene_ids of the part {group.name} are not {k} of {n} objects for each episode")
    if frame_ids is not None and (
        scene_ids is None or not _are_scenes(frame_ids, n) or not np.array_equal(frame_ids[:, 0], scene_ids)
    ):
        raise HowmError(f"frame_ids of the part {group.name} are not {k} of {n} objects for each frame")
    if "pictures" in found:
        pictures = read(found["pictures"])
        if pictures.dtype.kind == "f" and not ((pictures >= 0) & (pictures <= 1)).all():  # NaN is neither
            raise HowmError(f"pictures of the part {group.name} are not floats in 0-1")
        return Episodes(actions, scene_ids, pictures=pictures, frame_ids=frame_ids)
    if world is None or scene_ids is None:
        raise HowmError(f"states of the part {group.name} belong to no world or to no objects")
    if "cells" in found:
        states = read(found["cells"])[..., None]
    elif "state_changes" in found:
        states = np.bitwise_xor.accumulate(read(found["state_changes"], np.uint64), axis=1).view(np.float64)
    else:
        states = read(found["states"])
    size = world.reset(scene_ids[:1], np.random.default_rng(0)).shape[-1] if len(scene_ids) else states.shape[-1]
    if states.shape[-1] != size or (states.dtype.kind == "f" and not np.isfinite(states).all()):
        raise HowmError(f"states of the part {group.name} are not {size} finite numbers for each object")
    return Episodes(actions, scene_ids, states, world, frame_ids=frame_ids)


def _are_scenes(ids: np.ndarray, n: int) -> bool:
    """Ids of 0 to n-1, followed by -1 where a scene is smaller."""
    there = ids >= 0
    return bool(
        ids.max(initial=0) < n and ids.min(initial=0) >= -1 and there[..., 0].all()
        and (there[..., 1:] <= there[..., :-1]).all()
    )  # fmt: skip


def _read_text(file: h5py.File, name: str) -> str:
    found = stored_array(file, name)
    if found.ndim != 1 or found.dtype != np.uint8 or found.size > MAX_JSON:
        raise HowmError(f"{name} is not text")
    return bytes(read(found)).decode()


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The certificate as it was written, unchecked."""
    with _opened(path) as file:
        found = parse_json(_read_text(file, "certificate"), f"the certificate of {path}")
        if not isinstance(found, dict):
            raise HowmError(f"the certificate of {path} is not a group of keys; make it again")
        return found
