"""fit(): any world model, by its own loss, on any dataset; a killed run goes on where it stopped.

A model that has a representation is fitted in two phases: first that part, which is then frozen, and on what it makes
of the pictures, computed once, the rest.

All randomness is a function of seed and step, so a run that was resumed equals one that was not, bit for bit.
"""

import ctypes
import json
import math
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from howm.batches import FrameIndex, RepresentedFrames, Transitions, hold_out
from howm.checkpoint import (
    CONFIGURED,
    Checkpoint,
    describe_data,
    find_checkpoint,
    load_checkpoint,
    refuse_seen,
    save_checkpoint,
    spec_of,
    take_representation,
    versions,
)
from howm.config import TrainConfig, difference, refuse_contradiction, to_plain
from howm.dataset import Dataset
from howm.diagnosis import judged
from howm.errors import HowmError
from howm.models.methods import RunConfig, build_model
from howm.models.slots import Extractor
from howm.models.worldmodel import WorldModel
from howm.rundir import RunDirectory

_HOLD_OUT, _TRAIN, _CHECK = range(100, 103)  # random streams of a run, apart from those of the data


def train_run(
    config: RunConfig, dataset: Dataset, out: Path, seed: int = 0, *, data_path: str | None = None,
    data_hash: str | None = None, extractor: str | None = None, represent_only: bool = False, resume: bool = False,
    minutes: float | None = None, tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Train a method of the table in a run directory; True when it is finished, False when time ran out.

    ``extractor`` names a run whose representation is taken over instead of training one; ``represent_only`` trains one
    for others to take over, and a call without it goes on from there.
    """
    if not 0 <= seed < 2**63:  # what torch takes
        raise HowmError(f"seed={seed} is no seed of weights; give a whole number from 0 to 2**63 - 1")
    spec = spec_of(dataset)
    about: dict[str, Any] = {
        "method": config.method,
        "preset": config.preset,
        "model": to_plain(config.model),
        "spec": to_plain(spec),
    }
    model = build_model(config.method, spec, config.model, seed)
    represent = config.represent
    if extractor is not None:
        about["extractor"] = take_representation(model, about["model"], find_checkpoint(extractor))
        refuse_seen(about["extractor"], dataset)
        represent = None
    if represent_only and (represent is None or model.representation is None):
        raise HowmError("there are no slots to train first in this run; leave out --represent-only")
    return fit(
        model, dataset, config.train, out, seed, represent=represent, represent_only=represent_only, about=about,
        data_path=data_path, data_hash=data_hash, resume=resume, minutes=minutes, tensorboard=tensorboard,
    )  # fmt: skip


def fit(
    model: WorldModel, dataset: Dataset, config: TrainConfig, out: Path, seed: int = 0, *,
    represent: TrainConfig | None = None, represent_only: bool = False, about: dict[str, Any] | None = None,
    data_path: str | None = None, data_hash: str | None = None, resume: bool = False, minutes: float | None = None,
    tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Fit ``model``, leave checkpoints and metrics in ``out``, and, when finished, the best weights in ``model``.

    Any module that follows the contract of WorldModel can be given. ``represent`` says how to fit its representation
    first; without it, the representation is taken as it is. Under ``torchrun`` each process takes its share of a batch
    of (processes x config.batch). The best checkpoint is chosen by held-out *training* episodes.
    """
    run = RunDirectory(Path(out), resume)
    return _Fit(model, dataset, config, represent, run, seed, about or {"method": None}, data_path, data_hash).run(
        resume, minutes, tensorboard, represent_only
    )


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks: tensors of a training step are then not zeroed page by page by the system anew."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # another C library has its own habits
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    mallopt(mmap_threshold, 2**30)
    mallopt(trim_threshold, 2**31 - 1)


def learning_rate(config: TrainConfig, step: int) -> float:
    """The rate of step 0, 1, ...: never zero, and a function of the step alone."""
    rate = config.lr
    if config.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / config.steps))
    return rate * min(1.0, (step + 1) / config.warmup) if config.warmup else rate


@dataclass(frozen=True)
class _Phase:
    """A part of training: what is fitted, how, and the steps of the run before it."""

    name: str
    module: nn.Module
    config: TrainConfig
    begin: int

    @property
    def end(self) -> int:
        return self.begin + self.config.steps


class _Fit:
    def __init__(
        self, model: WorldModel, dataset: Dataset, config: TrainConfig, represent: TrainConfig | None,
        directory: RunDirectory, seed: int, about: dict[str, Any], data_path: str | None, data_hash: str | None,
    ) -> None:  # fmt: skip
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        if config.precision == "fp16" and not torch.cuda.is_available():
            raise HowmError("train.precision=fp16 needs a GPU; use bf16 or fp32")
        AcceleratorState._reset_state()  # else a second fit in one process could not choose its own precision
        precision = "no" if config.precision == "fp32" else config.precision
        self.accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=precision)
        self.raw_model, self.directory, self.seed, self.data_path = model, directory, seed, data_path
        learn, check = hold_out(dataset.train, config.hold_out, np.random.default_rng([seed, _HOLD_OUT]))
        self.transitions = Transitions(learn, config.same_scene)
        self.held_out = Transitions(check, config.same_scene)
        if represent is not None:
            refuse_contradiction(represent, config)
        self.phases = [_Phase("train", model, config, 0)]
        if represent is not None and model.representation is not None:
            first = _Phase("represent", model.representation, represent, 0)
            self.phases = [first, _Phase("train", model, config, first.end)]
        self.about = {**about, "train": to_plain(config), "seed": seed, "versions": versions()}
        self.about["represent"] = None if represent is None else to_plain(represent)
        self.about |= {"data": describe_data(dataset, data_hash), "processes": self.accelerator.num_processes}
        self.step, self.seconds, self.cpu_seconds, self.peak_memory_mb, self.best = 0, 0.0, 0.0, 0.0, math.inf
        self.slots_took: dict[str, float] = {}  # what others who take over the slots need not spend

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return bool(self.accelerator.is_main_process)

    @property
    def steps(self) -> int:
        """Of all phases together that are to be run."""
        return self.phases[0 if self.represent_only else -1].end

    def run(self, resume: bool, minutes: float | None, tensorboard: bool, represent_only: bool) -> bool:
        self.represent_only = represent_only
        self._enter(self.phases[0])
        try:
            finished = self._go(resume, minutes, tensorboard)
        finally:
            self._leave()
        if finished:
            self.raw_model.load_state_dict(load_checkpoint(self.directory.best).weights())
        if finished and represent_only and self.phase.name == "represent":
            self._judge_representation()
        return finished

    def _go(self, resume: bool, minutes: float | None, tensorboard: bool) -> bool:
        if resume and self.directory.last.exists():
            self._restore(load_checkpoint(self.directory.last))
        elif resume and self.leads:
            print(f"{self.directory.path} holds no checkpoint to go on from: a new run begins", file=sys.stderr)
        if self.step >= self.steps:
            return True
        if self.leads:
            plain = {name: self.about[name] for name in CONFIGURED if self.about.get(name) is not None}
            data = {"data": self.data_path, "data_hash": self.about["data"]["hash"]}
            self.directory.begin(data | plain, self.step, tensorboard)
        self._note(f"begins at step {self.step} of {self.steps}, {versions()}")
        try:
            with torch.random.fork_rng():
                finished = self._loop(minutes)
        finally:
            self.directory.close()
        self._note(f"{'finished' if finished else 'time is up'} at step {self.step} after {self.seconds:.0f} s")
        return finished

    def _enter(self, phase: _Phase) -> None:
        """Make ready to fit a phase from its beginning."""
        self.phase, self.config, self.best = phase, phase.config, math.inf
        self.frames: dict[Transitions, RepresentedFrames] = {}
        representation = self.raw_model.representation
        if representation is not None:
            representation.requires_grad_(phase.name == "represent")
            representation.eval()  # before anything is computed with it: no noise, no statistics of batches
        weights = [parameter for parameter in phase.module.parameters() if parameter.requires_grad]
        optimizer: torch.optim.Optimizer
        if phase.config.optimizer == "rmsprop":
            optimizer = torch.optim.RMSprop(weights, lr=phase.config.lr)
        else:
            optimizer = torch.optim.Adam(weights, lr=phase.config.lr, fused=True)
        trained = torch.compile(phase.module) if phase.config.compile else phase.module
        self.model, self.optimizer = self.accelerator.prepare(trained, optimizer)

    def _leave(self) -> None:
        """Take off what training put around a module."""
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        if self.raw_model.representation is not None:
            self.raw_model.representation.requires_grad_(True)

    def _loop(self, minutes: float | None) -> bool:
        began, cpu_began = time.monotonic() - self.seconds, time.process_time() - self.cpu_seconds
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        window: list[dict[str, float]] = []
        with self._progress() as bar:
            while self.step < self.steps:
                if self.step == self.phase.end:
                    self._next_phase()
                    bar.set_description(self.phase.name)
                window.append(self._update())
                self.step += 1
                ends = self.step == self.phase.end
                if self.step % self.config.log_every and not ends:
                    continue
                means = {name: float(np.mean([row[name] for row in window])) for name in window[0]}
                window.clear()
                self._refuse_nan("loss", means["loss"])
                rate = learning_rate(self.config, self.step - 1 - self.phase.begin)
                self._log({"step": self.step, "lr": rate, **means})
                bar.set_postfix(loss=f"{means['loss']:.4f}", refresh=False)
                bar.update(self.step - bar.n)
                late = self._any_process(time.monotonic() > deadline)
                self.seconds, self.cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
                if self.step % self.config.check_every == 0 or ends:
                    self._check()
                elif late:
                    self._save("last")
                if late and self.step < self.steps:
                    return False
        return True

    def _next_phase(self) -> None:
        """Go on with the best representation that was found; a run that is killed from here on begins with it."""
        self.raw_model.load_state_dict(load_checkpoint(self.directory.best).weights())
        self._judge_representation()
        self._leave()
        self._enter(self.phases[self.phases.index(self.phase) + 1])
        self._save("last")

    def _judge_representation(self) -> None:
        """Say how good the slots are before anything is built on them, with advice where they look bad."""
        if isinstance(self.raw_model.representation, Extractor):
            for line in judged(self.raw_model.representation, self.held_out):
                self._note(line, show=True)

    def _load(self, transitions: Transitions, index: FrameIndex) -> Any:
        """What the module of this phase is called with."""
        if self.phase.name == "represent":
            return transitions.pictures(index.obs).to(self.accelerator.device)
        frames = None
        if self.raw_model.representation is not None:
            if transitions not in self.frames:
                self.frames[transitions] = RepresentedFrames(transitions, self._represent)
            frames = self.frames[transitions]
        return transitions.load(index, frames).to(self.accelerator.device)

    @torch.no_grad()
    def _represent(self, pictures: Tensor) -> Tensor:
        device = self.accelerator.device
        with torch.autocast(device.type, enabled=False):
            return self.raw_model.represent(pictures.to(device))

    def _update(self) -> dict[str, float]:
        rng = np.random.default_rng([self.seed, _TRAIN, self.step])
        processes, rank, size = self.accelerator.num_processes, self.accelerator.process_index, self.config.batch
        index = self.transitions.index(rng.integers(len(self.transitions), size=processes * size), rng)
        batch = self._load(self.transitions, _rows(index, slice(rank * size, (rank + 1) * size)))
        torch.manual_seed(int(rng.integers(2**31)) + rank)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.step - self.phase.begin)
        self._set_training(True)
        with self.accelerator.autocast():
            loss, logs = self.model(batch)
        self.optimizer.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        self.optimizer.step()
        found = [torch.as_tensor(value, device=loss.device) for value in (loss.detach(), *logs.values())]
        values = torch.stack([value.float() for value in found])
        if processes > 1:
            values = self.accelerator.reduce(values, reduction="mean")
        return dict(zip(("loss", *logs), values.tolist(), strict=True))

    def _set_training(self, training: bool) -> None:
        """A frozen representation stays as it is used: statistics of batches may not drift, nor noise be drawn."""
        self.model.train(training)
        if self.phase.name == "train" and self.raw_model.representation is not None:
            self.raw_model.representation.eval()

    def _check(self) -> None:
        """Measure the loss on held-out training episodes and write the checkpoints."""
        rng = np.random.default_rng([self.seed, _CHECK])  # the same negatives every time
        self._set_training(False)
        totals: dict[str, float] = {}
        with torch.random.fork_rng(), torch.no_grad(), self.accelerator.autocast():
            torch.manual_seed(self.seed)
            for index in self.held_out.batches(self.config.batch, rng):
                loss, logs = self.phase.module(self._load(self.held_out, index))
                for name, value in {"loss": loss, **logs}.items():
                    totals[name] = totals.get(name, 0.0) + float(value) * len(index) / len(self.held_out)
        held_out_loss = self._agreed(totals["loss"])
        self._refuse_nan("held-out loss", held_out_loss)
        self._log({"step": self.step, **{f"held_out_{name}": value for name, value in totals.items()}})
        if held_out_loss < self.best:
            self.best = held_out_loss
            self._save("best")
        self._save("last")
        self.accelerator.wait_for_everyone()  # others may read the best checkpoint next
        self._note(f"step {self.step}: held-out loss {held_out_loss:.5f}, best {self.best:.5f}, {self.seconds:.0f} s")

    def _save(self, which: str) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.raw_model.state_dict().items()}
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
        self._refuse_nan("largest weight", 0.0 if finite else math.inf)
        if not self.leads:
            return
        if which == "last":
            for i, state in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in state.items()}
        self.peak_memory_mb = max(self.peak_memory_mb, _peak_memory_mb())
        if self.phase.name == "represent":
            self.slots_took = {
                "train_seconds": self.seconds,
                "train_cpu_seconds": self.cpu_seconds,
                "peak_memory_mb": self.peak_memory_mb,
            }
        progress = {
            "step": self.step,
            "phase": self.phase.name,
            "best_held_out_loss": None if math.isinf(self.best) else self.best,
            "train_seconds": self.seconds,
            "train_cpu_seconds": self.cpu_seconds,
            "peak_memory_mb": self.peak_memory_mb,
            "slots_took": self.slots_took,
            "scaler": self.accelerator.scaler.state_dict() if self.accelerator.scaler is not None else None,
        }
        path = self.directory.best if which == "best" else self.directory.last
        save_checkpoint(Checkpoint({**self.about, **progress}, tensors), path)

    def _restore(self, checkpoint: Checkpoint) -> None:
        about = checkpoint.about
        for name in ("method", "model", "extractor", "represent", "train", "seed", "data", "processes"):
            other = difference(name, about.get(name), json.loads(json.dumps(self.about.get(name))))
            if other:
                raise HowmError(
                    f"{self.directory.path} was begun with {other}; resume with the same or choose another --out"
                )
        self.raw_model.load_state_dict(checkpoint.weights())
        phase = next(phase for phase in self.phases if phase.name == about["phase"])
        if phase is not self.phase:
            self._enter(phase)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors.items():
            if name.startswith("optimizer."):
                _, i, key = name.split(".")
                state.setdefault(int(i), {})[key] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        if self.accelerator.scaler is not None and about["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(about["scaler"])
        self.step, self.seconds, self.cpu_seconds = about["step"], about["train_seconds"], about["train_cpu_seconds"]
        self.peak_memory_mb, self.slots_took = about["peak_memory_mb"], about.get("slots_took", {})
        self.best = math.inf if about["best_held_out_loss"] is None else about["best_held_out_loss"]

    def _refuse_nan(self, what: str, value: float) -> None:
        """Stop before ruined weights are saved."""
        if self._any_process(not math.isfinite(value)):
            stands = "the last good checkpoint stands" if self.directory.last.exists() else "there is no checkpoint yet"
            raise HowmError(
                f"the {what} is {value} at step {self.step}; {stands}. Try a lower train.lr than {self.config.lr}"
            )

    def _any_process(self, flag: bool) -> bool:
        """All processes decide alike."""
        if self.accelerator.num_processes == 1:
            return flag
        total = self.accelerator.reduce(torch.tensor(float(flag), device=self.accelerator.device), reduction="sum")
        return bool(total.item() > 0)

    def _agreed(self, number: float) -> float:
        """The mean over the processes, whose statistics of batches differ: what is decided by it, all decide alike."""
        if self.accelerator.num_processes == 1:
            return number
        total = torch.tensor(number, dtype=torch.float64, device=self.accelerator.device)
        return float(self.accelerator.reduce(total, reduction="mean"))

    def _log(self, row: dict[str, float]) -> None:
        if self.leads:
            self.directory.log(row)

    def _note(self, text: str, show: bool = False) -> None:
        if self.leads:
            self.directory.note(text)
            if show:
                tqdm.write(text, file=sys.stderr)

    def _progress(self) -> "tqdm[Any]":
        """A bar on a terminal; elsewhere a line in half a minute."""
        return tqdm(
            total=self.steps,
            initial=self.step,
            disable=not self.leads,
            unit="step",
            desc=self.phase.name,
            mininterval=0.5 if sys.stderr.isatty() else 30.0,
            dynamic_ncols=True,
        )


def _rows(index: FrameIndex, rows: slice) -> FrameIndex:
    return FrameIndex(index.obs[rows], index.action[rows], index.next_obs[rows], index.negative_obs[rows])


def _peak_memory_mb() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
