"""fit(): any world model, by its own loss, on any dataset; a killed run goes on where it stopped.

All randomness is a function of seed and step, so a run that was resumed equals one that was not, bit for bit.
"""

import ctypes
import json
import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from howm.batches import FrameIndex, Transitions, hold_out
from howm.checkpoint import Checkpoint, describe_data, load_checkpoint, save_checkpoint, spec_of, versions
from howm.config import to_plain, to_yaml
from howm.dataset import Dataset
from howm.errors import HowmError
from howm.models.methods import RunConfig, TrainConfig, build_model
from howm.models.worldmodel import WorldModel
from howm.storage import written_whole

_HOLD_OUT, _TRAIN, _CHECK, _NOISE = range(4)  # random streams of a run


def train_run(
    config: RunConfig, dataset: Dataset, out: Path, seed: int = 0, *, data_path: str | None = None,
    data_hash: str | None = None, resume: bool = False, minutes: float | None = None, tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Train a method of the table in a run directory; True when it is finished, False when time ran out."""
    spec = spec_of(dataset)
    model = build_model(config.method, spec, config.model, seed)
    about = {
        "method": config.method,
        "preset": config.preset,
        "model": to_plain(config.model),
        "spec": to_plain(spec),
    }
    open_run(out, resume)
    with written_whole(out / "config.yaml") as temporary:
        plain = {"data": data_path, "data_hash": data_hash, "seed": seed, **about, "train": to_plain(config.train)}
        del plain["spec"]
        temporary.write_text(to_yaml(plain), encoding="utf-8")
    return fit(model, dataset, config.train, out, seed, about=about, data_hash=data_hash, resume=resume,
               minutes=minutes, tensorboard=tensorboard)  # fmt: skip


def open_run(out: Path, resume: bool) -> None:
    """Make the directory of a run; an old run is never overwritten."""
    if not resume and (out / "last.safetensors").exists():
        raise HowmError(f"{out} already holds a run; go on with --resume or choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HowmError(f"cannot make the run directory {out}: {error.strerror}") from error


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


def fit(
    model: WorldModel, dataset: Dataset, config: TrainConfig, out: Path, seed: int = 0, *,
    about: dict[str, Any] | None = None, data_hash: str | None = None, resume: bool = False,
    minutes: float | None = None, tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Fit ``model`` and leave ``last`` and ``best`` checkpoints and ``metrics.jsonl`` in ``out``.

    Any module that follows the contract of WorldModel can be given. Under ``torchrun`` each process takes its share
    of a batch of (processes x config.batch). The best checkpoint is chosen by held-out *training* episodes.
    """
    if config.check_every % config.log_every:
        raise HowmError(f"train.check_every={config.check_every} is no multiple of train.log_every={config.log_every}")
    open_run(out, resume)
    return _Fit(model, dataset, config, out, seed, about or {"method": None}, data_hash).run(
        resume, minutes, tensorboard
    )


class _Fit:
    def __init__(
        self, model: WorldModel, dataset: Dataset, config: TrainConfig, out: Path, seed: int,
        about: dict[str, Any], data_hash: str | None,
    ) -> None:  # fmt: skip
        from accelerate import Accelerator

        self.config, self.out, self.seed = config, out, seed
        self.accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=config.precision)
        learn, check = hold_out(dataset.train, config.hold_out, np.random.default_rng([seed, _HOLD_OUT]))
        self.transitions = Transitions(learn, config.same_scene)
        self.held_out = Transitions(check, config.same_scene)
        self.raw_model = model
        optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
        trained = torch.compile(model) if config.compile else model
        self.model, self.optimizer = self.accelerator.prepare(trained, optimizer)
        self.about = {**about, "train": to_plain(config), "seed": seed, "versions": versions()}
        self.about["data"] = describe_data(dataset, data_hash)
        self.step, self.seconds, self.cpu_seconds, self.best = 0, 0.0, 0.0, math.inf

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return bool(self.accelerator.is_main_process)

    def run(self, resume: bool, minutes: float | None, tensorboard: bool) -> bool:
        if resume and (self.out / "last.safetensors").exists():
            self._restore(load_checkpoint(self.out / "last.safetensors"))
        if self.step >= self.config.steps:
            return True
        self._note(f"{'goes on' if self.step else 'begins'} at step {self.step} of {self.config.steps}: {versions()}")
        began, cpu_began = time.monotonic() - self.seconds, time.process_time() - self.cpu_seconds
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        window: list[dict[str, float]] = []
        with self._metrics(tensorboard) as log, _progress(self) as bar, torch.random.fork_rng():
            while self.step < self.config.steps:
                window.append(self._update())
                self.step += 1
                ends = self.step == self.config.steps
                if self.step % self.config.log_every == 0 or ends:
                    means = {name: float(np.mean([row[name] for row in window])) for name in window[0]}
                    self._refuse_nan(means["loss"])
                    log({"step": self.step, "lr": learning_rate(self.config, self.step - 1), **means})
                    bar.set_postfix(loss=f"{means['loss']:.4f}", refresh=False)
                    bar.update(self.step - bar.n)
                    window.clear()
                    late = self._agree(time.monotonic() > deadline)
                    self.seconds, self.cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
                    if self.step % self.config.check_every == 0 or ends:
                        self._check(log)
                    elif late:
                        self._save("last")
                    if late and not ends:
                        self._note(f"stopped at step {self.step}: time is up")
                        return False
        self._note(f"finished after {self.seconds:.0f} s")
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

    def _check(self, log: "_Log") -> None:
        """Measure the loss on held-out training episodes and write the checkpoints."""
        rng = np.random.default_rng([self.seed, _CHECK])  # the same negatives every time
        self.raw_model.eval()
        total = 0.0
        with torch.no_grad(), self.accelerator.autocast():
            for index in self.held_out.batches(self.config.batch, rng):
                loss, _ = self.raw_model(self.held_out.load(index).to(self.accelerator.device))
                total += float(loss) * len(index)
        held_out_loss = total / len(self.held_out)
        log({"step": self.step, "held_out_loss": held_out_loss})
        self._note(
            f"step {self.step}: held-out loss {held_out_loss:.5f}, {self.seconds:.0f} s, best {min(self.best, held_out_loss):.5f}"
        )
        if held_out_loss < self.best or not math.isfinite(self.best):
            self.best = held_out_loss
            self._save("best")
        self._save("last")

    def _save(self, which: str) -> None:
        if not self.leads:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.raw_model.state_dict().items()}
        if which == "last":
            for i, state in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in state.items()}
        progress = {
            "step": self.step,
            "best_held_out_loss": self.best if math.isfinite(self.best) else None,
            "train_seconds": self.seconds,
            "train_cpu_seconds": self.cpu_seconds,
            "peak_memory_mb": _peak_memory_mb(),
        }
        save_checkpoint(Checkpoint({**self.about, **progress}, tensors), self.out / f"{which}.safetensors")

    def _restore(self, checkpoint: Checkpoint) -> None:
        for name in ("method", "model", "train", "seed", "data"):
            if name in checkpoint.about and checkpoint.about[name] != json.loads(json.dumps(self.about.get(name))):
                raise HowmError(
                    f"{self.out} was begun with another {name}; resume with the same, or choose another --out"
                )
        self.raw_model.load_state_dict(checkpoint.weights())
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors.items():
            if name.startswith("optimizer."):
                _, i, key = name.split(".")
                state.setdefault(int(i), {})[key] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.step, self.seconds = checkpoint.step, checkpoint.about["train_seconds"]
        self.cpu_seconds = checkpoint.about["train_cpu_seconds"]
        self.best = checkpoint.about["best_held_out_loss"] or math.inf

    def _note(self, text: str) -> None:
        """A line with the time of day in log.txt, for people."""
        if not self.leads:
            return
        try:
            with open(self.out / "log.txt", "a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        except OSError as error:
            raise HowmError(f"cannot write {self.out / 'log.txt'}: {error.strerror}; go on with --resume") from error

    def _refuse_nan(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise HowmError(
                f"the loss is {loss} at step {self.step}; the last good checkpoint stands. "
                f"Try a lower train.lr than {self.config.lr}"
            )

    def _agree(self, late: bool) -> bool:
        """All processes stop together."""
        if self.accelerator.num_processes == 1:
            return late
        flag = torch.tensor(float(late), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, reduction="sum").item() > 0)

    @contextmanager
    def _metrics(self, tensorboard: bool) -> Iterator["_Log"]:
        """metrics.jsonl, cut back to the checkpoint that the run goes on from."""
        if not self.leads:
            yield _Log(None, None)
            return
        path = self.out / "metrics.jsonl"
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= self.step]
        with written_whole(path) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
        try:
            with open(path, "a", encoding="utf-8") as file:
                yield _Log(file, _tensorboard_writer(self.out) if tensorboard else None)
        except OSError as error:
            raise HowmError(
                f"cannot write {path}: {error.strerror}; free some space and go on with --resume"
            ) from error


class _Log:
    """One JSON object per line; no clock in it, so that equal runs give equal files."""

    def __init__(self, file: TextIO | None, writer: Any) -> None:
        self.file, self.writer = file, writer

    def __call__(self, row: dict[str, float]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()
        if self.writer is not None:
            for name, value in row.items():
                if name != "step":
                    self.writer.add_scalar(name, value, row["step"])
            self.writer.flush()


def _rows(index: FrameIndex, rows: slice) -> FrameIndex:
    return FrameIndex(index.obs[rows], index.action[rows], index.next_obs[rows], index.negative_obs[rows])


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file but for a last one that a kill cut short."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _tensorboard_writer(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise HowmError("TensorBoard is not installed; pip install 'howm[log]' or leave out --tensorboard") from error
    return SummaryWriter(str(out / "tensorboard"))


def _progress(run: _Fit) -> "tqdm[Any]":
    """A bar on a terminal; plain lines, one in half a minute, elsewhere."""
    return tqdm(
        total=run.config.steps,
        initial=run.step,
        disable=not run.leads,
        unit="step",
        desc="train",
        mininterval=0.5 if sys.stderr.isatty() else 30.0,
        dynamic_ncols=True,
    )


def _peak_memory_mb() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
