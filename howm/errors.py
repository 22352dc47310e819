"""The one kind of error that a user can fix: the command line prints it as one line and exits with code 2."""

import errno
import operator
import reprlib
from typing import Any

LONGEST = 1_500  # letters of a message
NO_MEMORY = "not enough memory"  # how one_line begins to say so
# How numpy and torch say, beside MemoryError, that something does not fit into memory.
_TOO_LARGE = (
    *("can't allocate memory", "out of memory", "size calculation overflow", "Overflow when unpacking"),
    *("Maximum allowed", "array is too big"),
)


class HowmError(ValueError):
    """What was wrong, with the value, and what to do about it."""


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 60, 60, 30


def short(value: Any) -> str:
    """How a message shows a value of a file: as Python writes it, and never long."""
    try:
        return _SHORT.repr(value)
    except Exception:  # an integer of 5,000 digits has no decimal text
        return f"a value of type {type(value).__name__}"


def shorten(text: object, length: int = 300) -> str:
    """Text of a file or of a library for a message: its first line, printable and not long."""
    first = (str(text).splitlines() or [type(text).__name__])[0]
    printable = "".join(letter if letter.isprintable() else "?" for letter in first[: length + 1])
    return printable if len(printable) <= length else f"{printable[:length]}…"


def one_line(error: BaseException) -> str | None:
    """What to tell a user of an error that is not a bug; None for one that may be."""
    if isinstance(error, HowmError):
        return f"howm: {shorten(error, LONGEST)}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return f"howm: cannot write: {error.strerror}; free some space and try again"
    if isinstance(error, PermissionError):
        return f"howm: {shorten(error.filename)} cannot be used: {error.strerror}; choose another place"
    kinds = (RuntimeError, TypeError, ValueError)
    large = isinstance(error, kinds) and any(words in str(error) for words in _TOO_LARGE)
    if not (large or isinstance(error, MemoryError)):
        return None
    reason = (str(error).splitlines() or ["too little is free"])[0].rpartition("Allocator: ")[2].rstrip(".")
    return f"howm: {NO_MEMORY}: {reason}; give smaller sizes"


def require_int(name: str, value: Any, least: int) -> int:
    """An integer that is not too small."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise HowmError(f"{name}={short(value)} must be an integer of {least} or more")
    return number
