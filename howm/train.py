"""fit(): any world model, by its own loss, on any dataset; a killed run goes on where it stopped.

All randomness is a function of seed and step, so a run that was resumed equals one that was not, bit for bit.
"""

import ctypes
import json
import math
import reprlib
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from howm.batches import FrameIndex, Transitions, hold_out
from howm.checkpoint import Checkpoint, describe_data, load_checkpoint, save_checkpoint, spec_of, versions
from howm.config import TrainConfig, to_plain
from howm.dataset import Dataset
from howm.errors import HowmError
from howm.models.methods import RunConfig, build_model
from howm.models.worldmodel import WorldModel
from howm.rundir import RunDirectory

_HOLD_OUT, _TRAIN, _CHECK = range(100, 103)  # random streams of a run, apart from those of the data


def train_run(
    config: RunConfig, dataset: Dataset, out: Path, seed: int = 0, *, data_path: str | None = None,
    data_hash: str | None = None, resume: bool = False, minutes: float | None = None, tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Train a method of the table in a run directory; True when it is finished, False when time ran out."""
    if not 0 <= seed < 2**63:  # what torch takes
        raise HowmError(f"seed={seed} is no seed of weights; give a whole number from 0 to 2**63 - 1")
    spec = spec_of(dataset)
    about = {
        "method": config.method,
        "preset": config.preset,
        "model": to_plain(config.model),
        "spec": to_plain(spec),
    }
    model = build_model(config.method, spec, config.model, seed)
    return fit(model, dataset, config.train, out, seed, about=about, data_path=data_path, data_hash=data_hash,
               resume=resume, minutes=minutes, tensorboard=tensorboard)  # fmt: skip


def fit(
    model: WorldModel, dataset: Dataset, config: TrainConfig, out: Path, seed: int = 0, *,
    about: dict[str, Any] | None = None, data_path: str | None = None, data_hash: str | None = None,
    resume: bool = False, minutes: float | None = None, tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Fit ``model``, leave checkpoints and metrics in ``out``, and, when finished, the best weights in ``model``.

    Any module that follows the contract of WorldModel can be given. Under ``torchrun`` each process takes its share
    of a batch of (processes x config.batch). The best checkpoint is chosen by held-out *training* episodes.
    """
    run = RunDirectory(Path(out), resume)
    return _Fit(model, dataset, config, run, seed, about or {"method": None}, data_path, data_hash).run(
        resume, minutes, tensorboard
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


class _Fit:
    def __init__(
        self, model: WorldModel, dataset: Dataset, config: TrainConfig, directory: RunDirectory, seed: int,
        about: dict[str, Any], data_path: str | None, data_hash: str | None,
    ) -> None:  # fmt: skip
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        if config.precision == "fp16" and not torch.cuda.is_available():
            raise HowmError("train.precision=fp16 needs a GPU; use bf16 or fp32")
        AcceleratorState._reset_state()  # else a second fit in one process could not choose its own precision
        precision = "no" if config.precision == "fp32" else config.precision
        self.accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=precision)
        self.config, self.directory, self.seed, self.data_path = config, directory, seed, data_path
        learn, check = hold_out(dataset.train, config.hold_out, np.random.default_rng([seed, _HOLD_OUT]))
        self.transitions = Transitions(learn, config.same_scene)
        self.held_out = Transitions(check, config.same_scene)
        self.raw_model = model
        optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
        trained = torch.compile(model) if config.compile else model
        self.model, self.optimizer = self.accelerator.prepare(trained, optimizer)
        self.about = {**about, "train": to_plain(config), "seed": seed, "versions": versions()}
        self.about |= {"data": describe_data(dataset, data_hash), "processes": self.accelerator.num_processes}
        self.step, self.seconds, self.cpu_seconds, self.peak_memory_mb, self.best = 0, 0.0, 0.0, 0.0, math.inf

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return bool(self.accelerator.is_main_process)

    def run(self, resume: bool, minutes: float | None, tensorboard: bool) -> bool:
        if resume and self.directory.last.exists():
            self._restore(load_checkpoint(self.directory.last))
        elif resume and self.leads:
            print(f"{self.directory.path} holds no checkpoint to go on from: a new run begins", file=sys.stderr)
        finished = self.step >= self.config.steps
        if not finished:
            if self.leads:
                plain = {
                    name: self.about[name]
                    for name in ("method", "preset", "seed", "model", "train")
                    if name in self.about
                }
                data = {"data": self.data_path, "data_hash": self.about["data"]["hash"]}
                self.directory.begin(data | plain, self.step, tensorboard)
            self._note(f"begins at step {self.step} of {self.config.steps}, {versions()}")
            try:
                with torch.random.fork_rng():
                    finished = self._loop(minutes)
            finally:
                self.directory.close()
            self._note(f"{'finished' if finished else 'time is up'} at step {self.step} after {self.seconds:.0f} s")
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        if finished:
            self.raw_model.load_state_dict(load_checkpoint(self.directory.best).weights())
        return finished

    def _loop(self, minutes: float | None) -> bool:
        began, cpu_began = time.monotonic() - self.seconds, time.process_time() - self.cpu_seconds
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        window: list[dict[str, float]] = []
        with self._progress() as bar:
            while self.step < self.config.steps:
                window.append(self._update())
                self.step += 1
                ends = self.step == self.config.steps
                if self.step % self.config.log_every and not ends:
                    continue
                means = {name: float(np.mean([row[name] for row in window])) for name in window[0]}
                window.clear()
                self._refuse_nan("loss", means["loss"])
                self._log({"step": self.step, "lr": learning_rate(self.config, self.step - 1), **means})
                bar.set_postfix(loss=f"{means['loss']:.4f}", refresh=False)
                bar.update(self.step - bar.n)
                late = self._any_process(time.monotonic() > deadline)
                self.seconds, self.cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
                if self.step % self.config.check_every == 0 or ends:
                    self._check()
                elif late:
                    self._save("last")
                if late and not ends:
                    return False
        return True

    def _update(self) -> dict[str, float]:
        rng = np.random.default_rng([self.seed, _TRAIN, self.step])
        processes, rank, size = self.accelerator.num_processes, self.accelerator.process_index, self.config.batch
        index = self.transitions.index(rng.integers(len(self.transitions), size=processes * size), rng)
        batch = self.transitions.load(_rows(index, slice(rank * size, (rank + 1) * size))).to(self.accelerator.device)
        torch.manual_seed(int(rng.integers(2**31)) + rank)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.step)
        self.model.train()
        with self.accelerator.autocast():
            loss, logs = self.model(batch)
        self.optimizer.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        self.optimizer.step()
        values = torch.stack([loss.detach().float(), *(value.float() for value in logs.values())])
        if processes > 1:
            values = self.accelerator.reduce(values, reduction="mean")
        return dict(zip(("loss", *logs), values.tolist(), strict=True))

    def _check(self) -> None:
        """Measure the loss on held-out training episodes and write the checkpoints."""
        rng = np.random.default_rng([self.seed, _CHECK])  # the same negatives every time
        self.raw_model.eval()
        total = 0.0
        with torch.no_grad(), self.accelerator.autocast():
            for index in self.held_out.batches(self.config.batch, rng):
                loss, _ = self.raw_model(self.held_out.load(index).to(self.accelerator.device))
                total += float(loss) * len(index)
        held_out_loss = total / len(self.held_out)
        self._refuse_nan("held-out loss", held_out_loss)
        self._log({"step": self.step, "held_out_loss": held_out_loss})
        if held_out_loss < self.best:
            self.best = held_out_loss
            self._save("best")
        self._save("last")
        self._note(f"step {self.step}: held-out loss {held_out_loss:.5f}, best {self.best:.5f}, {self.seconds:.0f} s")

    def _save(self, which: str) -> None:
        if not self.leads:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.raw_model.state_dict().items()}
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            self._refuse_nan("largest weight", math.inf)
        if which == "last":
            for i, state in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in state.items()}
        self.peak_memory_mb = max(self.peak_memory_mb, _peak_memory_mb())
        progress = {
            "step": self.step,
            "best_held_out_loss": None if math.isinf(self.best) else self.best,
            "train_seconds": self.seconds,
            "train_cpu_seconds": self.cpu_seconds,
            "peak_memory_mb": self.peak_memory_mb,
            "scaler": self.accelerator.scaler.state_dict() if self.accelerator.scaler is not None else None,
        }
        path = self.directory.best if which == "best" else self.directory.last
        save_checkpoint(Checkpoint({**self.about, **progress}, tensors), path)

    def _restore(self, checkpoint: Checkpoint) -> None:
        about = checkpoint.about
        for name in ("method", "model", "train", "seed", "data", "processes"):
            other = _difference(name, about.get(name), json.loads(json.dumps(self.about.get(name))))
            if other:
                raise HowmError(
                    f"{self.directory.path} was begun with {other}; resume with the same or choose another --out"
                )
        self.raw_model.load_state_dict(checkpoint.weights())
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors.items():
            if name.startswith("optimizer."):
                _, i, key = name.split(".")
                state.setdefault(int(i), {})[key] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        if self.accelerator.scaler is not None and about["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(about["scaler"])
        self.step, self.seconds, self.cpu_seconds = about["step"], about["train_seconds"], about["train_cpu_seconds"]
        self.peak_memory_mb = about["peak_memory_mb"]
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

    def _log(self, row: dict[str, float]) -> None:
        if self.leads:
            self.directory.log(row)

    def _note(self, text: str) -> None:
        if self.leads:
            self.directory.note(text)

    def _progress(self) -> "tqdm[Any]":
        """A bar on a terminal; elsewhere a line in half a minute."""
        return tqdm(
            total=self.config.steps,
            initial=self.step,
            disable=not self.leads,
            unit="step",
            desc="train",
            mininterval=0.5 if sys.stderr.isatty() else 30.0,
            dynamic_ncols=True,
        )


def _difference(key: str, old: Any, new: Any) -> str | None:
    """The first key with different values, and both of them."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = (_difference(f"{key}.{name}", old.get(name), new.get(name)) for name in old | new)
        return next(filter(None, found), None)
    return None if old == new else f"{key}={reprlib.repr(old)}, not {reprlib.repr(new)}"


def _rows(index: FrameIndex, rows: slice) -> FrameIndex:
    return FrameIndex(index.obs[rows], index.action[rows], index.next_obs[rows], index.negative_obs[rows])


def _peak_memory_mb() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
