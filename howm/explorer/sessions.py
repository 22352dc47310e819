"""The sessions of open pages, the least recently used of which is forgotten when there are too many."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Num

from howm.errors import HowmError
from howm.explorer.rollout import Rollout
from howm.explorer.trouble import Trouble

MAX_SESSIONS = 64


class ForgottenError(HowmError):
    """A session that there is not, or not any more."""


@dataclass
class Session:
    """What one page plays with."""

    key: str
    rng: np.random.Generator
    rollout: Rollout | None = None
    goal: Num[np.ndarray, "K F"] | None = None
    troubles: dict[str, Trouble] = field(default_factory=dict)

    def playing(self) -> Rollout:
        if self.rollout is None:
            raise HowmError("no scene has been chosen yet; ask for a new scene first")
        return self.rollout


class Sessions:
    """At most ``limit`` of them, whatever pages ask for."""

    def __init__(self, limit: int = MAX_SESSIONS, seed: Callable[[], int] = lambda: secrets.randbits(64)) -> None:
        self.limit, self._seed = limit, seed
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def new(self) -> Session:
        session = Session(secrets.token_urlsafe(16), np.random.default_rng(self._seed()))
        with self._lock:
            self._open[session.key] = session
            while len(self._open) > self.limit:
                self._open.popitem(last=False)
        return session

    def get(self, key: Any) -> Session:
        with self._lock:
            if not isinstance(key, str) or key not in self._open:
                raise ForgottenError("this session is closed: too many newer ones were opened; reload the page")
            self._open.move_to_end(key)
            return self._open[key]
