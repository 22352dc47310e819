"""The directory of a run: config.yaml, metrics.jsonl, log.txt, TensorBoard events and the two checkpoints."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from howm.config import to_yaml
from howm.errors import HowmError
from howm.storage import written_whole

METRICS = "metrics.jsonl"


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """What a run has measured so far; none where there is no run. A kill may have cut the last line short."""
    path = run / METRICS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class RunDirectory:
    """Makes the directory; an old run in it is never overwritten, only gone on with."""

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path = path
        self._writer: Any = None
        try:
            if not resume and (self.last.exists() or self.best.exists()):
                raise HowmError(f"{path} already holds a run; go on with --resume or choose another --out")
            begun = any(file.exists() for file in (self.config, self.last, self.best))
            if not begun and path.exists() and any(not file.name.startswith(".") for file in path.iterdir()):
                raise HowmError(f"{path} holds other files than those of a run; choose another --out")
            path.mkdir(parents=True, exist_ok=True)
            for left_over in path.glob(".*.part"):  # of a write that a kill cut short
                left_over.unlink(missing_ok=True)
        except OSError as error:
            raise HowmError(f"cannot make the run directory {path}: {error.strerror}; choose another --out") from error

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def last(self) -> Path:
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        return self.path / "best.safetensors"

    def begin(self, config: Mapping[str, Any], step: int, tensorboard: bool) -> None:
        """Say what is being run, and cut the metrics back to the checkpoint that the run goes on from."""
        with written_whole(self.config) as temporary:
            temporary.write_text(to_yaml(config), encoding="utf-8")
        kept = [row for row in read_metrics(self.path) if row["step"] <= step]
        with written_whole(self.path / METRICS) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        if tensorboard:
            self._writer = _tensorboard_writer(self.path / "tensorboard", step)

    def log(self, row: Mapping[str, float]) -> None:
        """One JSON object per line; no clock in it, so that equal runs give equal files."""
        self._append(METRICS, json.dumps(row))
        if self._writer is not None:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(name, value, row["step"])

    def note(self, text: str) -> None:
        """A line for people in log.txt, with the time of day."""
        self._append("log.txt", f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _append(self, name: str, line: str) -> None:
        try:
            with open(self.path / name, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise HowmError(
                f"cannot write {self.path / name}: {error.strerror}; free some space and go on with --resume"
            ) from error


def _tensorboard_writer(path: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise HowmError("TensorBoard is not installed; pip install 'howm[log]' or leave out --tensorboard") from error
    return SummaryWriter(str(path), purge_step=step + 1)
