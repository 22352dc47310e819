"""Things by name: those of howm, those that installed packages declare, and those that a person types.

A package declares its own under an entry point group, for example in its pyproject.toml::

    [project.entry-points."howm.worlds"]
    billiards = "my_package.billiards:Billiards"

``package.module:Name``, typed on a command line or given to a Python call, needs no declaration. A *file* may name
declared things only: opening one never imports code that the file chose.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from howm.errors import HowmError, shorten

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Things by name, each imported when it is first used."""

    def __init__(self, noun: str, builtin: Mapping[str, str], check: Callable[[str, Any], T]) -> None:
        """``check`` is given a name and what was imported, and returns the thing or refuses it."""
        self.noun, self.group = noun, f"howm.{noun}s"
        self._builtin, self._check = dict(builtin), check
        self._typed: dict[str, str] = {}
        self._loaded: dict[str, T] = {}

    @cached_property
    def _declared(self) -> dict[str, str]:
        found = {point.name: point.value for point in entry_points(group=self.group)}
        return {**found, **self._builtin}  # a package cannot replace what howm means by a name

    @property
    def _places(self) -> dict[str, str]:
        return {**self._declared, **self._typed}

    def __iter__(self) -> Iterator[str]:
        return iter([*self._builtin, *sorted(self._declared.keys() - self._builtin.keys()), *self._typed])

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> T:
        """The thing of that name; an unknown one is an error that lists those that are known."""
        if name not in self._loaded:
            if name not in self._places:
                raise HowmError(self._unknown(name))
            self._loaded[name] = self._check(name, self._import(name, self._places[name]))
        return self._loaded[name]

    def allow(self, name: str) -> str:
        """Let a name that a person gave be used in this process: a known one, or ``package.module:Name``."""
        if ":" in name and name not in self._places:
            self._loaded[name] = self._check(name, self._import(name, name))
            self._typed[name] = name
        elif name not in self._places:
            raise HowmError(self._unknown(name))
        return name

    def name_of(self, thing: T) -> str:
        """The name of a class that a person has in hand: its declared one, or else its place, which is then allowed."""
        for name, loaded in self._loaded.items():
            if loaded is thing:
                return name
        place = f"{thing.__module__}:{getattr(thing, '__qualname__', thing)}"
        declared = [name for name, where in self._declared.items() if where == place]
        name = declared[0] if declared else place
        self._loaded[name] = self._check(name, thing)
        if not declared:
            self._typed[name] = place
        return name

    def _unknown(self, name: str) -> str:
        name = shorten(name, 60)
        if ":" in name:
            article = "an" if self.noun[0] in "aeiou" else "a"
            own = f"{name} is {article} {self.noun} of your own"
            table = f"{self.noun}s".upper()
            return f"{own}: name it with `howm.{table}.allow('{name}')`, which lets howm import it"
        return f"unknown {self.noun} {name!r}; choose one of {', '.join(self)}, or give package.module:Name"

    def _import(self, name: str, place: str) -> Any:
        module, _, attribute = place.partition(":")
        try:
            found: Any = import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise HowmError(f"the {self.noun} {name} cannot be imported from {place}: {shorten(error)}") from error
        return found
