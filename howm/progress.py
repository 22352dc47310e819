"""Progress of long work: a bar on a terminal, elsewhere a plain line now and then, both with the time left."""

import sys
import time
from collections.abc import Callable
from typing import Any

EVERY = 15.0  # seconds between lines where there is no terminal


class Lines:
    """What tqdm does on a terminal, as lines of a log; nothing for work that ends before the first is due."""

    def __init__(
        self, total: float, description: str, done: float = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total, self.n, self.description, self.clock = total, done, description, clock
        self.began = self.said = clock()
        self.first, self.postfix = done, ""

    def update(self, amount: float) -> None:
        self.n += amount
        now = self.clock()
        if now - self.said < EVERY:
            return
        self.said = now
        done, spent = self.n - self.first, now - self.began
        left = f", about {duration(spent / done * (self.total - self.n))} left" if done > 0 else ""
        print(f"{self.description}: {self.n / self.total:.0%} after {duration(spent)}{left}{self.postfix}",
              file=sys.stderr, flush=True)  # fmt: skip

    def set_description(self, text: str) -> None:
        self.description = text

    def set_postfix(self, refresh: bool = True, **values: str) -> None:
        self.postfix = "".join(f", {name} {value}" for name, value in values.items())

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def progress(total: float, description: str, *, done: float = 0, unit: str = "", show: bool = True) -> Any:
    """A bar of tqdm, or `Lines`, on standard error; ``unit`` is counted, or else only a share of the total is shown."""
    if show and not sys.stderr.isatty():
        return Lines(total, description, done)
    from tqdm import tqdm

    shares = None if unit else "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    return tqdm(
        total=total, initial=done, disable=not show, unit=unit, desc=description, mininterval=0.5, dynamic_ncols=True,
        bar_format=shares,
    )  # fmt: skip


def duration(seconds: float) -> str:
    """For people: 8 s, 3 min, 2 h 5 min."""
    seconds = max(0.0, seconds)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
