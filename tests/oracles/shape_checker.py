"""The checker of jaxtyping's import hook, under which all tests run: beartype on annotations that speak of arrays.

Plain annotations (``n: int``) are mypy's. At run time people give anything, which is refused by an error of one line:
the tests of those errors must reach it.
"""

from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray

CHECKED: set[tuple[str, str]] = set()  # module and qualified name of the functions with arrays


def check_arrays(function: Any) -> Any:
    """The function, with the types, dtypes and shapes of its arrays checked."""
    hints = {name: hint for name, hint in function.__annotations__.items() if _mentions_array(hint)}
    function.__annotations__ = hints
    if not hints:
        return function
    CHECKED.add((function.__module__, function.__qualname__))
    return beartype(function)


def _mentions_array(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    parts = hint if isinstance(hint, list) else get_args(hint)  # a Callable has a list of its arguments
    return any(_mentions_array(part) for part in parts)
