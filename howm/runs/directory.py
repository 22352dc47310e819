"""The directory of a run: config.yaml, metrics.jsonl, log.txt, TensorBoard events and the two checkpoints."""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from howm.config import convert, to_yaml
from howm.errors import HowmError
from howm.files import atomic_write, hold, parse_json, read_text, refuse_links, remove_leftovers

METRICS, LOG = "metrics.jsonl", "log.txt"


MAX_METRICS = 2**28  # bytes


def read_metrics(run: Path) -> list[dict[str, float]]:
    """What a run has measured so far; none where there is no run. A kill may have cut the last line short."""
    path = run / METRICS
    remedy = "remove it, or choose another run"
    text = read_text(path, MAX_METRICS, remedy) if os.path.lexists(path) else ""
    rows = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].split("\n")[:-1], 1):
        row = parse_json(line, f"line {number} of {path}", remedy)
        try:
            rows.append(convert(row, dict[str, int | float], "it"))
        except HowmError as error:
            raise HowmError(f"line {number} of {path} is not a row of metrics: {error}; {remedy}") from None
        if not isinstance(row.get("step"), int):
            raise HowmError(f"line {number} of {path} has no step; {remedy}")
    return rows


class RunDirectory:
    """Makes the directory; an old run in it is never overwritten, only resumed."""

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path = path
        self._writer: Any = None
        try:
            if not resume and (self.last.exists() or self.best.exists()):
                raise HowmError(f"{path} already holds a run; resume it with `resume=True` or choose another `out`")
            begun = any(file.exists() for file in (self.config, self.last, self.best))
            if not begun and path.exists() and any(not file.name.startswith(".") for file in path.iterdir()):
                raise HowmError(f"{path} holds files that are not of a run; choose another `out`")
            refuse_links(self.config, self.last, self.best, path / METRICS, path / LOG)
            path.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path)
        except OSError as error:
            raise HowmError(f"cannot make the run directory {path}: {error.strerror}; choose another `out`") from error

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def last(self) -> Path:
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        return self.path / "best.safetensors"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the directory to this training; of the processes of one training the first does so."""
        if os.environ.get("RANK", "0") != "0":
            yield
            return
        with hold(self.path / ".lock", patience=0) as mine:
            if not mine:
                raise HowmError(f"another process is training in {self.path}; wait for it or choose another `out`")
            yield

    def begin(self, config: Mapping[str, Any], step: int, tensorboard: bool) -> None:
        """Say what is being run, and cut the metrics back to the checkpoint that the run resumes from."""
        with atomic_write(self.config) as temporary:
            temporary.write_text(to_yaml(config), encoding="utf-8")
        kept = [row for row in read_metrics(self.path) if row["step"] <= step]
        with atomic_write(self.path / METRICS) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        if tensorboard:
            self._writer = _tensorboard_writer(self.path / "tensorboard", step)

    def log(self, row: Mapping[str, float]) -> None:
        """One JSON object per line; no clock in it, so that equal runs give equal files."""
        row = {name: value for name, value in row.items() if math.isfinite(value)}  # JSON has no others
        self._append(METRICS, json.dumps(row))
        if self._writer is not None:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(name, value, row["step"])

    def note(self, text: str) -> None:
        """A line for people in log.txt, with the time of day."""
        self._append(LOG, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _append(self, name: str, line: str) -> None:
        try:
            with open(self.path / name, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise HowmError(
                f"cannot write {self.path / name}: {error.strerror}; free some space and resume with `resume=True`"
            ) from error


def _tensorboard_writer(path: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise HowmError("TensorBoard is not installed; pip install 'howm[log]' or leave out `tensorboard`") from error
    return SummaryWriter(str(path), purge_step=step + 1)
