"""Files: read within bounds, written whole or not at all, held by one process, and named by their bytes."""

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from howm.errors import HowmError, shorten

MAX_JSON = 16 * 2**20  # bytes; a thousand times what is written
MAX_DEPTH = 40  # of values within values
PARSE_ERRORS = (ValueError, RecursionError, OverflowError, TypeError, LookupError, AttributeError)  # of any parser


def require_file(path: str | os.PathLike[str], remedy: str = "give an ordinary file") -> int:
    """Refuse what is not an ordinary file, such as a pipe, which would be waited for; the size in bytes."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise HowmError(f"{shorten(path)} does not exist; {remedy}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HowmError(f"{shorten(path)} cannot be read: {reason}; {remedy}") from error
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
        raise HowmError(f"{shorten(path)} cannot be read: it is {kind}; {remedy}")
    return found.st_size


def read_text(path: str | os.PathLike[str], limit: int, remedy: str = "give an ordinary file") -> str:
    """The text of an ordinary file of at most ``limit`` bytes."""
    size = require_file(path, remedy)
    if size > limit:
        raise HowmError(f"{shorten(path)} has {size:,} bytes, more than the {limit:,} that are read; {remedy}")
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode()
    except OSError as error:
        raise HowmError(f"{shorten(path)} cannot be read: {error.strerror or error}; {remedy}") from error
    except UnicodeDecodeError:
        raise HowmError(f"{shorten(path)} cannot be read: it is not text in UTF-8; {remedy}") from None


def parse_json(text: str, where: object, remedy: str = "make it again") -> Any:
    """The value of a JSON text without NaN and infinities, not nested too deeply."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
    except PARSE_ERRORS as error:
        raise HowmError(f"{shorten(where)} is not JSON ({shorten(error, 120)}); {remedy}") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        nested = [one for one in level if isinstance(one, dict | list)]
        level = [item for one in nested for item in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return value
    raise HowmError(f"{shorten(where)} is nested deeper than {MAX_DEPTH} levels; {remedy}")


def read_json(path: str | os.PathLike[str], remedy: str = "make it again") -> Any:
    return parse_json(read_text(path, MAX_JSON, remedy), path, remedy)


def refuse_links(*paths: Path) -> None:
    """Refuse to write through links in a folder that may be another person's: they lead anywhere."""
    for path in paths:
        if path.is_symlink():
            raise HowmError(f"cannot write {path}: it is a link; remove it or choose another place")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well and vanishes when it does not."""
    path = Path(os.path.realpath(path))  # through a link to what it names
    if path.exists() and not path.is_file():
        raise HowmError(f"cannot write {path}: it is there and is not an ordinary file; choose another place")
    temporary = path.parent / f"{_unfinished(path.name)}{secrets.token_hex(4)}.part"
    try:  # named before it is made: an interruption at any moment from here on removes it
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path.parent)
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise HowmError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # else a power cut could leave the new name with old bytes
        temporary.replace(path)
    except OSError as error:
        raise HowmError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error
    finally:
        with suppress(OSError):  # where nothing could be made, nothing is left
            temporary.unlink()


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside ``path``, which must not exist, that becomes it when the block ends well."""
    path = path.absolute()
    if os.path.lexists(path):
        raise HowmError(f"{path} exists already; remove it or choose another place")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=_unfinished(path.name), suffix=".part") as scratch:
            whole = Path(scratch, path.name)
            whole.mkdir()
            yield whole
            whole.rename(path)
    except OSError as error:
        raise HowmError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error


def _unfinished(name: str = "") -> str:
    """How the names of unfinished files begin: with the name they are to get, this machine and this process."""
    return f".{name}.{re.sub(r'[^A-Za-z0-9]', '', platform.node())}-{os.getpid()}."


_LEFT = re.compile(r"\..+\.([A-Za-z0-9]*)-(\d+)\.\w+\.part")


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of processes of this machine that were killed."""
    with suppress(OSError):
        for path in folder.glob(".*.part"):
            found = _LEFT.fullmatch(path.name)
            if found and _unfinished().startswith(f"..{found[1]}-") and not _is_alive(int(found[2])):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # Windows would end it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def hold(path: Path, patience: float = -1) -> Iterator[bool]:
    """Hold a lock that ends with its process; False where another has held it for ``patience`` seconds (-1: wait)."""
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise HowmError(f"{path} should be a lock and is not an ordinary file; remove it")
    lock = FileLock(path)  # opened without following links, and never truncated
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise HowmError(f"cannot hold {path}: {error.strerror or error}; choose another folder") from error
    try:
        yield True
    finally:
        lock.release()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def file_hash(path: str | os.PathLike[str]) -> str:
    """Names the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
