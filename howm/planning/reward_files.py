"""Reward heads in safetensors, written whole or not at all, read without executing anything."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from howm.config import from_plain, to_plain
from howm.data.storage import MAX_OBJECTS
from howm.errors import HowmError, shorten
from howm.files import PARSE_ERRORS, atomic_write, parse_json, require_file
from howm.planning.reward import RewardConfig, RewardHead
from howm.worlds.tasks import TASKS, Task, describe_task, make_task

VERSION = 1
REMEDY = "fit the head again with howm.fit_reward"
MAX_SIZE = 65_536  # numbers of an object, and of a hidden layer
MAX_BYTES = 2**28  # of a file, which is mapped into memory


@dataclass(frozen=True)
class _About:
    """What a file says of its head."""

    version: int
    n: int
    size: int
    config: RewardConfig
    task: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise HowmError(f"version {self.version} is not the version {VERSION} that this howm reads")
        largest = max(self.size, self.config.hidden, self.config.identity)
        if not 0 < self.n <= MAX_OBJECTS or self.size < 1 or largest > MAX_SIZE:
            raise HowmError(f"n={self.n}, size={self.size} and layers of {largest} must be in 1-{MAX_SIZE}")


def save_reward(head: RewardHead, path: str | os.PathLike[str]) -> None:
    """Write a head with its task."""
    task = {} if head.task is None else describe_task(head.task)
    about = _About(VERSION, head.n, head.size, head.config, task)
    with atomic_write(Path(path)) as temporary:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}
        save_file(weights, temporary, metadata={"howm": json.dumps(to_plain(about))})


def load_reward(path: str | os.PathLike[str]) -> RewardHead:
    """Read a head; a file that is damaged, of another version or not a head is one clear error."""
    size = require_file(path, REMEDY)
    try:
        if size > MAX_BYTES:
            raise HowmError(f"it has {size:,} bytes, more than a head can have")
        with safe_open(path, framework="pt") as file:
            said = (file.metadata() or {}).get("howm")
            if said is None:
                raise HowmError("it is not a reward head")
            about = from_plain(_About, parse_json(said, path, REMEDY))
            task = _read_task(about.task)
            with torch.device("meta"):
                claimed = RewardHead(about.n, about.size, about.config).state_dict()
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            if {name: list(one.shape) for name, one in claimed.items()} != {
                name: one.get_shape() for name, one in found.items()
            }:
                raise HowmError("its weights do not match its description")
            weights = {name: file.get_tensor(name) for name in found}
    except (SafetensorError, OSError, HowmError, *PARSE_ERRORS) as error:
        raise HowmError(f"{shorten(path)} cannot be read: {shorten(error, 200)}; {REMEDY}") from error
    if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
        raise HowmError(f"{shorten(path)} cannot be read: its weights are not finite numbers; {REMEDY}")
    head = RewardHead(about.n, about.size, about.config, task)
    head.load_state_dict(weights)
    return head.eval()


def _read_task(said: dict[str, Any]) -> Task | None:
    """A file may name declared tasks only: opening one never imports code that the file chose."""
    if said and said.get("name") not in TASKS:
        raise HowmError(f"its task {shorten(said.get('name'), 60)} is not one of {', '.join(TASKS)}")
    return make_task(said) if said else None
