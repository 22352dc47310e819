"""Files: a dataset in HDF5, written whole or not at all, read without executing anything."""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from howm.dataset import PARTS, Dataset, Episodes
from howm.errors import HowmError
from howm.grid import Grid
from howm.library import ObjectLibrary
from howm.render import Renderer
from howm.scenes import SceneSet, SceneSplit

FORMAT = "howm-dataset"
VERSION = 1


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well and vanishes when it does not."""
    path = Path(os.path.realpath(path))  # through a link to what it names
    if path.exists() and not path.is_file():
        raise HowmError(f"cannot write {path}: it is there and is no ordinary file; choose another place")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise HowmError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # else a power cut could leave the new name with old bytes
        temporary.replace(path)
    except OSError as error:
        raise HowmError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """A temporary folder beside ``path``, which must not exist, that becomes it when the block ends well."""
    path = path.absolute()
    if os.path.lexists(path):
        raise HowmError(f"{path} exists already; remove it or choose another place")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as scratch:
            whole = Path(scratch, path.name)
            whole.mkdir()
            yield whole
            whole.rename(path)
    except OSError as error:
        raise HowmError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
    with written_whole(Path(path)) as temporary, new_hdf5(temporary, libver="v110") as file:
        _write(file, dataset)


def _write(file: h5py.File, dataset: Dataset) -> None:
    """Every byte that says something is under a checksum: of HDF5's headers (in this version), of gzip or of ours."""
    file.attrs["format"] = np.bytes_(FORMAT)  # a str would be of variable length, whose damage makes HDF5 loop forever
    file.attrs["version"] = VERSION
    fields = ("world", "n", "k", "seed", "moving", "cell_pixels")
    about: dict[str, Any] = {name: getattr(dataset, name) for name in fields}
    if dataset.renderer is not None:
        about["grid"] = [dataset.renderer.grid.height, dataset.renderer.grid.width]
    _write_text(file, "about", json.dumps(about))
    if dataset.library is not None:
        _write_text(file, "library", dataset.library.to_json())
    if dataset.split is not None:
        split = file.create_group("split")
        split.attrs["consecutive"] = dataset.split.consecutive
        for name, scenes in (("train", dataset.split.train), ("eval", dataset.split.eval)):
            _write_array(split, name, scenes.to_array())
    _write_text(file, "certificate", json.dumps(dataset.certificate()))
    for name, episodes in dataset.parts():
        group = file.create_group(name)
        for field, array in _arrays(episodes).items():
            _write_array(group, field, array)


def _arrays(episodes: Episodes) -> dict[str, np.ndarray]:
    fields = {"actions": episodes.actions, "scene_ids": episodes.scene_ids}
    fields |= {"cells": episodes.cells, "pictures": episodes.pictures}
    return {name: array for name, array in fields.items() if array is not None}


def _write_text(file: h5py.File, name: str, text: str) -> None:
    file.create_dataset(name, data=np.frombuffer(text.encode(), dtype=np.uint8), fletcher32=True)


def _write_array(group: h5py.Group, name: str, array: np.ndarray) -> None:
    if array.dtype.kind in "iu":  # the smallest type that holds the values
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    group.create_dataset(name, data=array, compression="gzip", compression_opts=4, shuffle=True)


def load_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset; a file that is damaged, of another version or not ours is one clear error."""
    with _opened(path) as file:
        try:
            return _read(file)
        except HowmError as error:
            raise HowmError(f"{path} contradicts itself: {error}; make it again") from error


def load_certified(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset to train or to measure with: its certificate must hold, or the results would mean nothing."""
    dataset = load_dataset(path)
    for violation in dataset.certificate()["violations"]:
        if not violation.startswith("pools"):  # an evaluation makes its pools equal itself
            raise HowmError(f"the certificate of {path} is violated ({violation}); see `howm data check {path}`")
    return dataset


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[h5py.File]:
    if os.path.isdir(path):
        raise HowmError(f"{path} cannot be read: it is a folder; give a dataset file")
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != np.bytes_(FORMAT):
                raise HowmError(f"{path} is not a howm dataset; make one with `howm data make` or `howm data import`")
            if file.attrs.get("version") != VERSION:
                raise HowmError(
                    f"{path} has format version {file.attrs.get('version')}, this howm reads version {VERSION}; "
                    "make it again with `howm data make`"
                )
            yield file
    except FileNotFoundError:
        raise HowmError(f"{path} does not exist; make it with `howm data make`") from None
    except HowmError:
        raise
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise HowmError(
            f"{path} cannot be read: it is damaged or no HDF5 file ({first_line}); make it again"
        ) from error


def _read(file: h5py.File) -> Dataset:
    about = json.loads(_read_text(file, "about"))
    n, k = int(about["n"]), int(about["k"])
    split = renderer = None
    if "library" in file:
        library = ObjectLibrary.from_json(_read_text(file, "library"))
        renderer = Renderer(library, Grid(*about["grid"]), about["cell_pixels"])
        if library.n != n:
            raise HowmError(f"a library of {library.n} objects is not one of n={n}")
    if "split" in file:
        sets = {name: SceneSet.from_array(n, file["split"][name][()].astype(np.int64)) for name in ("train", "eval")}
        split = SceneSplit(sets["train"], sets["eval"], bool(file["split"].attrs["consecutive"]))
    parts = {name: replace(_read_episodes(file[name], n, k, renderer), moving=about["moving"]) for name in PARTS}
    return Dataset(about["world"], n, k, **parts, seed=about["seed"], moving=about["moving"],
                   split=split, renderer=renderer, cell_pixels=about["cell_pixels"])  # fmt: skip


def _read_episodes(group: h5py.Group, n: int, k: int, renderer: Renderer | None) -> Episodes:
    arrays = {name: group[name][()] for name in group}
    actions = arrays["actions"].astype(np.int64)
    scene_ids = arrays["scene_ids"].astype(np.int64) if "scene_ids" in arrays else None
    cells, pictures = arrays.get("cells"), arrays.get("pictures")
    if actions.ndim != 2 or actions.max(initial=0) >= 4 * n or actions.min(initial=0) < 0:
        raise HowmError(f"actions of the part {group.name} are not library actions 0 ... {4 * n - 1}")
    if scene_ids is not None and (scene_ids.shape != (len(actions), k) or scene_ids.max(initial=0) >= n):
        raise HowmError(f"scene_ids of the part {group.name} are not {k} of {n} objects for each episode")
    frames = cells if cells is not None else pictures
    if frames is None or frames.shape[:2] != (len(actions), actions.shape[1] + 1):
        raise HowmError(f"the part {group.name} has no frame before and after every action")
    if cells is not None:
        if renderer is None or scene_ids is None:
            raise HowmError(f"cells of the part {group.name} belong to no library or to no objects")
        if cells.shape[2:] != (k,) or cells.max(initial=0) >= renderer.grid.cell_count:
            raise HowmError(f"cells of the part {group.name} are not {k} cells of the grid for each frame")
    return Episodes(actions, scene_ids, cells, renderer if cells is not None else None, pictures)


def _read_text(file: h5py.File, name: str) -> str:
    return bytes(file[name][()]).decode()


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The certificate as it was written, unchecked."""
    with _opened(path) as file:
        return dict(json.loads(_read_text(file, "certificate")))


def file_hash(path: str | os.PathLike[str]) -> str:
    """Names the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
