"""The checkpoints of a run in progress: written whole, and restored bit for bit."""

import json
import sys
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from howm.config import difference
from howm.errors import HowmError
from howm.models.world_model import WorldModel
from howm.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from howm.runs.directory import RunDirectory
from howm.runs.record import Progress, RunRecord


class Checkpoints:
    """The best and the last checkpoint of a run. The last one also has the optimizer's state."""

    def __init__(self, directory: RunDirectory, record: RunRecord) -> None:
        self.directory, self.record = directory, record

    def save_best(self, model: WorldModel, progress: Progress) -> None:
        self._save(_weights(model), progress, best=True)

    def save_last(self, model: WorldModel, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        tensors = _weights(model)
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in state.items()}
        self._save(tensors, progress, best=False)

    def _save(self, tensors: dict[str, Tensor], progress: Progress, best: bool) -> None:
        path = self.directory.best if best else self.directory.last
        save_checkpoint(Checkpoint(replace(self.record, progress=progress), tensors), path)

    def load_best(self, model: WorldModel) -> None:
        model.load_state_dict(load_checkpoint(self.directory.best).weights())

    def load_last(self) -> Checkpoint | None:
        """The checkpoint to resume from, if there is one; one of another run is refused."""
        if not self.directory.last.exists():
            return None
        checkpoint = load_checkpoint(self.directory.last)
        begun, mine = (json.loads(record.to_json()) for record in (checkpoint.record, self.record))
        _allow_longer(begun, mine, self.directory)
        for name in ("method", "model", "extractor", "represent", "train", "seed", "data", "processes"):
            other = difference(name, begun[name], mine[name])
            if other:
                raise HowmError(
                    f"{self.directory.path} was begun with {other}; resume with the same or choose another `out`"
                )
        if begun["threads"] not in (None, mine["threads"]):
            print(f"warning: {self.directory.path} was begun with {begun['threads']} threads and resumes with "
                  f"{mine['threads']}: the last bits of its weights may differ", file=sys.stderr)  # fmt: skip
        return checkpoint


def _allow_longer(begun: dict[str, Any], mine: dict[str, Any], directory: RunDirectory) -> None:
    """Let a run be trained for more steps than it was begun with, where its first steps would have been the same."""
    before, now = begun["train"]["steps"], mine["train"]["steps"]
    if now <= before or begun["train"] | {"steps": now} != mine["train"] or mine["train"]["starts"] > 1:
        return
    if mine["train"]["schedule"] != "constant":
        raise HowmError(
            f"{directory.path} was begun with train.steps={before}, over which its schedule "
            "lowers the learning rate; only a run with train.schedule=constant can be trained further; choose another "
            "`out`"
        )
    begun["train"]["steps"] = now


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Any]] = {}
    try:
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, i, key = name.split(".")
                state.setdefault(int(i), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    except (ValueError, KeyError, RuntimeError):
        raise HowmError("the state of the optimizer in the last checkpoint does not fit; train again") from None


def _weights(model: WorldModel) -> dict[str, Tensor]:
    return {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
