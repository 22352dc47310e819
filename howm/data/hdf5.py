"""HDF5 files of other people: opened only if ordinary, and read only what is known, of the size that it claims."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import h5py
import numpy as np

from howm.errors import HowmError, short, shorten
from howm.files import PARSE_ERRORS, require_file

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}
_EXPANSION = 1_100  # of gzip at most; what claims to be larger has no bytes in the file
_SLACK = 2**20


@contextmanager
def open_hdf5(path: str | os.PathLike[str], remedy: str) -> Iterator[h5py.File]:
    """Open a file to read; whatever is wrong with it, also while it is being read, is one clear error."""
    require_file(path, remedy)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except HowmError:
        raise
    except (OSError, RuntimeError, *PARSE_ERRORS) as error:
        reason = f"it is damaged or not an HDF5 file ({shorten(error, 120)})"
        raise HowmError(f"{shorten(path)} cannot be read: {reason}; {remedy}") from error


def members(group: h5py.Group, known: set[str] | None = None) -> list[str]:
    """The names in a group, none of which may be unknown or lead elsewhere."""
    names = list(group)
    for name in names:
        if known is not None and name not in known:
            raise HowmError(f"{short(name)} in {group.name} is not known; known are {', '.join(sorted(known))}")
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise HowmError(f"{short(name)} in {group.name} is a link to elsewhere, which is not followed")
    return names


def child(group: h5py.Group, name: str) -> h5py.Group:
    if name not in members(group) or group.get(name, getclass=True) is not h5py.Group:
        raise HowmError(f"the group {name} is missing")
    return group[name]


def stored_array(group: h5py.Group, name: str, kinds: str = "iu") -> h5py.Dataset:
    """An array of plain numbers that lies in this file and is no larger than its bytes can hold; nothing is read."""
    where = f"{group.name.rstrip('/')}/{shorten(name, 60)}"
    if group.get(name, getclass=True) is not h5py.Dataset:
        raise HowmError(f"the array {where} is missing")
    found = group[name]
    plain = found.dtype.kind in kinds and found.dtype.itemsize <= 8 and found.dtype.names is None
    if not plain or found.shape is None or found.maxshape != found.shape:
        raise HowmError(f"the array {where} of {short(found.shape)} {shorten(found.dtype, 60)} has the wrong type")
    made = found.id.get_create_plist()
    filters = {made.get_filter(i)[0] for i in range(made.get_nfilters())}
    if found.external or found.is_virtual or not filters <= _FILTERS:
        raise HowmError(f"the array {where} is stored in another file or in an unknown way")
    held = found.id.get_storage_size()
    if found.nbytes > _EXPANSION * held + (0 if held else _SLACK) or _chunk_bytes(found) > found.nbytes + _SLACK:
        raise HowmError(f"the array {where} claims {found.nbytes:,} bytes and holds {held:,}")
    return found


def _chunk_bytes(found: h5py.Dataset) -> int:
    return prod(found.chunks) * found.dtype.itemsize if found.chunks else 0


def number(group: h5py.Group, name: str) -> Any:
    """An attribute that is one number or a short text of fixed length; None where there is none, or another."""
    kept = group.attrs.get_id(name) if name in group.attrs else None
    if kept is None or kept.shape != () or kept.dtype.kind not in "iubS" or kept.dtype.itemsize > 64:
        return None
    return group.attrs[name]


def refuse_too_large(size: int) -> None:
    """Refuse to read more than the memory that is free."""
    try:
        import psutil
    except ImportError:  # where it needs what the system lacks
        return
    free = psutil.virtual_memory().available
    if size > free:
        raise HowmError(f"its arrays take {size / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free")


def read(found: h5py.Dataset, dtype: Any = None) -> np.ndarray:
    """All values, as another type if one is given."""
    refuse_too_large(found.size * np.dtype(dtype or found.dtype).itemsize)
    values: np.ndarray = found[()]
    return values if dtype is None else values.astype(dtype)
