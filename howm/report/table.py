"""A table as data."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean, stdev

MISSING = "–"


@dataclass(frozen=True)
class Spread:
    """A number measured with some seeds: the mean and, of two or more, the standard deviation."""

    mean: float
    sd: float | None = None
    seeds: int = 1
    digits: int = 1
    sign: bool = False

    @classmethod
    def of(cls, values: Sequence[float], digits: int = 1, sign: bool = False) -> "Spread":
        return cls(mean(values), stdev(values) if len(values) > 1 else None, len(values), digits, sign)

    @property
    def number(self) -> str:
        return f"{self.mean:{'+' if self.sign else ''}z,.{self.digits}f}".replace("-", "−")

    @property
    def deviation(self) -> str:
        return "" if self.sd is None else f"± {self.sd:,.{self.digits}f}"

    def __str__(self) -> str:
        return f"{self.number} {self.deviation}".rstrip()


Cell = Spread | str | int | None  # None is what has not been measured


@dataclass(frozen=True)
class Column:
    """``group`` spans neighbours; ``code`` is for names to type; ``bar`` draws a number as a share of 100."""

    name: str
    group: str = ""
    code: bool = False
    bar: bool = False


@dataclass(frozen=True)
class Table:
    """The first ``labels`` columns name a row, the others hold what is known of it."""

    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.title

    def groups(self) -> list[tuple[str, list[int]]]:
        """Neighbouring columns of one group, by their positions; a column without a group stands alone."""

        def key(place: int) -> tuple[str, int]:
            group = self.columns[place].group
            return group, -1 if group else place

        return [(name, list(places)) for (name, _), places in groupby(range(len(self.columns)), key)]


def as_text(cell: Cell) -> str:
    return MISSING if cell is None else str(cell)


def _status(cell: Cell) -> str:
    if cell is None:
        return "missing"
    return str(cell) if cell in ("OM", "failed") else "ok"
