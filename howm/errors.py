"""The one kind of error a user can mend: the command line prints it as one line and exits with code 2."""

import operator
from typing import Any

NO_MEMORY = "not enough memory"  # how the command line begins to say so


class HowmError(ValueError):
    """What was wrong, with the value, and what to do about it."""


def whole(name: str, value: Any, least: int) -> int:
    """A whole number that is not too small."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise HowmError(f"{name}={value!r} is not possible; give a whole number of {least} or more")
    return number
