"""Ways to damage a file: bytes of any, values of JSON and YAML, arrays and links of HDF5, headers of safetensors."""

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

MARKER = "howm_fuzz_marker"  # a module that no file may make howm import
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *(
        "",
        "x",
        "../../x",
        "a" * 5_000,
        "\u0000",
        "=1+1",
        "<script>alert(1)</script>",
        "2024-13-99",
        "é\u202e",
        f"{MARKER}:X",
    ),
    *([], {}, [[]], [1, "a", None], {"a": {"a": {}}}, [0] * 3_000),
)


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat, insert or overwrite some bytes."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found = found[:at]
            case 2:
                found[at:at] = found[at : at + rng.randrange(1, 200)]
            case 3:
                found[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 40)))
            case 4 if at < len(found):
                found[at] = rng.choice((0, 255, 10, 34, 123))
            case 5:
                del found[at : at + rng.randrange(1, 100)]
        found = found or bytearray(b"\0")
    return bytes(found)


def damage_value(value: Any, rng: random.Random) -> Any:
    """A JSON value with something in it replaced, removed, renamed, repeated or nested."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        changed, key = dict(value), rng.choice(list(value))
        match rng.randrange(8):
            case 0:
                del changed[key]
            case 1:
                changed[key + "x"] = changed.pop(key)
            case 2:
                changed["extra"] = rng.choice(ODD)
            case _:
                changed[key] = damage_value(changed[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        changed_list, at = list(value), rng.randrange(len(value))
        match rng.randrange(5):
            case 0:
                del changed_list[at]
            case 1:
                changed_list = changed_list * rng.choice((2, 50))
            case _:
                changed_list[at] = damage_value(changed_list[at], rng)
        return changed_list
    return deep(rng.choice((50, 2_000))) if rng.random() < 0.05 else rng.choice(ODD)


def _dumps(value: Any) -> bytes:
    """JSON, also of what is nested deeper than the encoder goes."""
    try:
        return json.dumps(value).encode(errors="surrogatepass")
    except (RecursionError, ValueError):
        return b'{"a":' * 3_000 + b"1" + b"}" * 3_000


def damage_json(source: Path, target: Path, rng: random.Random) -> None:
    if rng.random() < 0.4:
        target.write_bytes(damage_bytes(source.read_bytes(), rng))
    else:
        target.write_bytes(_dumps(damage_value(json.loads(source.read_text(encoding="utf-8")), rng)))


def damage_lines(source: Path, target: Path, rng: random.Random) -> None:
    """A file of one JSON value per line."""
    lines = source.read_bytes().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    if rng.random() < 0.5:
        lines[at] = damage_bytes(lines[at], rng)
    else:
        lines[at] = _dumps(damage_value(json.loads(lines[at]), rng)) + b"\n"
    target.write_bytes(b"".join(lines))


YAML_ODD = (
    "2024-13-45", "2001-12-14t21:59:43.10-05:00", "!!python/object/apply:os.system ['true']", "&a [*a]", "0o17",
    "1_000", "~", "0x" + "f" * 400, "9" * 5_000, "!!binary x", "? [a]", "{", "[" * 2_000, "- " * 500, "%YAML 9.9",
    "&a [x,x,x,x,x,x,x,x,x]", f"{MARKER}:X", f"['{MARKER}:X']",
    f"{{kind: '{MARKER}:X'}}", f"['model.extractor={{kind: {MARKER}:X}}']",
    "!!set {a}", "!!timestamp x", "\t", "'", "<<: 1", ".inf", "1:2:3:4",
)  # fmt: skip


def bomb(levels: int) -> str:
    """Aliases of aliases: a few hundred bytes of YAML that stand for billions of values."""
    lines = ["l0: &l0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"l{i}: &l{i} [{','.join([f'*l{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


def damage_yaml(source: Path, target: Path, rng: random.Random) -> None:
    text = source.read_text(encoding="utf-8")
    lines = text.splitlines()
    choice = rng.randrange(5)
    if choice == 0:
        target.write_bytes(damage_bytes(text.encode(), rng))
    elif choice == 1:
        target.write_text(bomb(rng.randrange(2, 12)) + text, encoding="utf-8")
    else:
        at = rng.randrange(len(lines))
        odd = rng.choice(YAML_ODD) if rng.random() < 0.7 else json.dumps(rng.choice(ODD[:13]))
        head, colon, _ = lines[at].partition(":")
        lines[at] = f"{head}: {odd}" if colon and choice < 4 else f"{odd}\n{lines[at]}"
        target.write_bytes("\n".join(lines).encode(errors="surrogatepass"))


def _arrays(file: h5py.File) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


def damage_hdf5(source: Path, target: Path, rng: random.Random) -> None:
    """Bytes, or arrays of other shapes, types and values, links that lead elsewhere, and archives that explode."""
    if rng.random() < 0.45:
        target.write_bytes(damage_bytes(source.read_bytes(), rng))
        return
    shutil.copyfile(source, target)
    with h5py.File(target, "r+") as file:
        name = rng.choice(_arrays(file))
        old = file[name][()]
        parent, _, leaf = name.rpartition("/")
        group = file[parent] if parent else file
        actions: list[Callable[[], Any]] = [
            lambda: group.__delitem__(leaf),
            lambda: group.move(leaf, leaf + "x"),
            lambda: _replace(group, leaf, np.zeros(rng.choice(((0,), (1,), (3, 0), (2, 2, 2, 2), ())), dtype="i8")),
            lambda: _replace(group, leaf, old.astype(rng.choice(("f4", "i1", "c8", "u8")))),
            lambda: _replace(group, leaf, old[..., :-1] if old.ndim else old),
            lambda: _replace(group, leaf, np.concatenate([old, old]) if old.ndim else old),
            lambda: _replace(group, leaf, np.full_like(old, rng.choice((0, 1, 100)))),
            lambda: _replace(group, leaf, np.array(["a", "b"], dtype="S3")),
            lambda: _external(group, leaf, target),
            lambda: _bomb(group, leaf, old),
            lambda: group.create_dataset("extra", data=np.arange(5)),
            lambda: _link(group, leaf),
            lambda: file.attrs.__setitem__("version", rng.choice((0, 2, -1, 10**6, "1", 1.5))),
            lambda: file.attrs.__setitem__("format", rng.choice(("x", 3, np.bytes_("howm-dataset")))),
            lambda: _text(file, rng),
        ]
        with suppress(TypeError, ValueError, RuntimeError, OSError, KeyError):  # HDF5 itself would not make this one
            rng.choice(actions)()


def _replace(group: h5py.Group, leaf: str, array: np.ndarray) -> None:
    del group[leaf]
    group.create_dataset(leaf, data=array)


def _external(group: h5py.Group, leaf: str, target: Path) -> None:
    """Values that another file holds."""
    del group[leaf]
    group.create_dataset(leaf, (64,), "u1", external=[(str(target.with_name("secret")), 0, 64)])


def _bomb(group: h5py.Group, leaf: str, old: np.ndarray) -> None:
    """Gigabytes of zeros in a few kilobytes."""
    del group[leaf]
    shape = (40_000, 10_000) if old.ndim < 3 else (40_000, 2_000, 5)
    group.create_dataset(leaf, shape, old.dtype, chunks=True, compression="gzip", fillvalue=0)


def _link(group: h5py.Group, leaf: str) -> None:
    del group[leaf]
    group[leaf] = h5py.ExternalLink("/etc/hostname", "/x")


def _text(file: h5py.File, rng: random.Random) -> None:
    """One of the JSON texts, changed."""
    names = [name for name in ("about", "library", "certificate") if name in file]
    if not names:  # a file of others
        return
    name = rng.choice(names)
    value = json.loads(bytes(file[name][()]).decode())
    del file[name]
    file.create_dataset(name, data=np.frombuffer(_dumps(damage_value(value, rng)), dtype=np.uint8), fletcher32=True)


def damage_safetensors(source: Path, target: Path, rng: random.Random) -> None:
    """Bytes, values of the JSON that we keep in the header, or the header's own sizes and types.

    Mostly the digest is made right again: a hostile author can do so, and the rest must be checked as well.
    """
    data = source.read_bytes()
    if rng.random() < 0.3:
        target.write_bytes(damage_bytes(data, rng))
        return
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    choice = rng.randrange(4)
    if choice < 2:
        ours = json.loads(header["__metadata__"]["howm"])
        header["__metadata__"]["howm"] = _dumps(damage_value(ours, rng)).decode(errors="replace")
    elif choice == 2:
        header = damage_value(header, rng)
    else:
        for _ in range(rng.choice((1, 4, 50))):
            body[rng.randrange(len(body))] = rng.choice((0, 255, 127, 128))
    text = _dumps(header)
    found = struct.pack("<Q", len(text)) + text + bytes(body)
    target.write_bytes(_sealed(found) if rng.random() < 0.7 else found)


def _sealed(data: bytes) -> bytes:
    """With the digest of a checkpoint (of the file with zeros in its place) made right."""
    mark = b'{\\"sha256\\": \\"'
    place = data.find(mark) + len(mark)
    if place < len(mark):
        return data
    blank = data[:place] + b"0" * 64 + data[place + 64 :]
    return data[:place] + hashlib.sha256(blank).hexdigest().encode() + data[place + 64 :]


def remove(path: Path) -> None:
    """Whatever stands there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def special(target: Path, rng: random.Random) -> None:
    """Things that are not ordinary files, or are absurdly large."""
    match rng.randrange(6):
        case 0:
            os.mkfifo(target)
        case 1:
            target.symlink_to("/dev/zero")
        case 2:
            target.mkdir()
        case 3:
            target.touch()
        case 4:
            with open(target, "wb") as file:
                file.truncate(5 * 2**30)
        case 5:
            target.symlink_to("/proc/self/mem")
