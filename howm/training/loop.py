"""The training loop: phases, updates, checks on held-out episodes, checkpoints.

All randomness is a function of seed and step, so a run that was resumed equals one that was not, bit for bit.
"""

import math
import sys
import time
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from howm.config import to_plain
from howm.data.dataset import Dataset
from howm.data.transitions import FrameIndex, Transitions, hold_out
from howm.errors import HowmError
from howm.models.extractors.quality import slot_quality_report
from howm.models.registry import METHODS
from howm.models.world_model import WorldModel
from howm.progress import progress
from howm.runs.checkpoint import Checkpoint
from howm.runs.config import RunConfig
from howm.runs.directory import RunDirectory
from howm.runs.locate import load_weights
from howm.runs.provenance import describe_data, versions
from howm.runs.record import Costs, Progress, RunRecord
from howm.training.costs import Meter
from howm.training.feed import Feed
from howm.training.options import FitOptions
from howm.training.phases import Phase, make_optimizer, plan_phases, renew
from howm.training.processes import (
    alone,
    any_process,
    make_accelerator,
    mean_over_processes,
    prepare,
    release,
    seed_all,
)
from howm.training.saving import Checkpoints, restore_optimizer
from howm.training.schedule import learning_rate

_HOLD_OUT, _TRAIN, _CHECK, _CALIBRATE, _START = range(100, 105)  # random streams of a run, apart from those of the data

_CALIBRATION_FRAMES = 500


class Trainer:
    """A run in progress: its phases, its step, and what is written along the way."""

    def __init__(
        self,
        model: WorldModel,
        dataset: Dataset,
        config: RunConfig,
        directory: RunDirectory,
        seed: int,
        options: FitOptions,
    ) -> None:
        self.raw_model, self.directory, self.seed, self.options = model, directory, seed, options
        self.run_config = config
        self.accelerator = make_accelerator(config.train)
        learn, check = hold_out(dataset.train, config.train.hold_out, np.random.default_rng([seed, _HOLD_OUT]))
        self.transitions = Transitions(learn, config.train.same_scene)
        self.held_out = Transitions(check, config.train.same_scene)
        self.phases = plan_phases(model, config)
        record = RunRecord(
            config.method, METHODS[config.method].title if config.method else type(model).__name__, seed,
            dataset.spec, to_plain(config.train), describe_data(dataset, options.data_hash), versions(),
            config.preset, {} if config.model is None else to_plain(config.model),
            None if config.represent is None else to_plain(config.represent), options.extractor,
            self.accelerator.num_processes, torch.get_num_threads(),
        )  # fmt: skip
        self.checkpoints = Checkpoints(directory, record)
        self.meter = Meter()
        self.step, self.best = 0, math.inf
        self.saved: int | None = None  # the step of the last checkpoint
        self.slot_costs = Costs()  # what runs that take over the extractor need not spend

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes the files."""
        return bool(self.accelerator.is_main_process)

    @property
    def steps(self) -> int:
        """Of all phases together that are to be run."""
        return self.phases[0 if self.options.represent_only else -1].end

    def run(self) -> bool:
        self._enter(self.phases[0])
        try:
            finished = self._resume_and_train()
        except KeyboardInterrupt:  # also of SIGTERM
            kept = "nothing is saved yet" if self.saved is None else f"step {self.saved} is saved"
            self._note(f"stopped at step {self.step} of {self.steps}: {kept}", show=True)
            raise
        finally:
            self._leave()
        if finished:
            self.checkpoints.load_best(self.raw_model)
        if finished and self.options.represent_only and self.phase.name == "represent":
            self._report_slot_quality()
        return finished

    def _resume_and_train(self) -> bool:
        if self.options.resume:
            checkpoint = self.checkpoints.load_last()
            if checkpoint is not None:
                self._restore(checkpoint)
            elif self.is_main_process:
                print(f"{self.directory.path} holds no checkpoint to resume from: a new run begins", file=sys.stderr)
        if self.step >= self.steps:
            return True
        if self.is_main_process:
            data = {"data": self.options.data_path, "data_hash": self.options.data_hash}
            configuration = data | self.checkpoints.record.configuration()
            self.directory.begin(configuration, self.step, self.options.tensorboard)
        self._note(f"begins at step {self.step} of {self.steps}, {self.checkpoints.record.versions}")
        try:
            with torch.random.fork_rng():
                finished = self._loop()
        finally:
            self.directory.close()
        seconds = self.meter.costs.train_seconds
        self._note(f"{'finished' if finished else 'time is up'} at step {self.step} after {seconds:.0f} s")
        return finished

    def _enter(self, phase: Phase) -> None:
        """Make ready to fit a phase from its beginning."""
        self.phase, self.config, self.best = phase, phase.config, math.inf
        self.feed = Feed(self.raw_model, self.accelerator.device)
        extractor = self.raw_model.frozen_extractor
        if extractor is not None:
            extractor.requires_grad_(phase.name == "represent")
            extractor.eval()  # before anything is computed with it: no noise, no statistics of batches
        trained = torch.compile(phase.module) if phase.config.compile else phase.module
        optimizer = make_optimizer(phase, alone(self.accelerator))
        self.model, self.optimizer = prepare(self.accelerator, trained, optimizer)
        self._mode: bool | None = None

    def _leave(self) -> None:
        """Take off what training put around a module."""
        release(self.accelerator, self.model)
        if self.raw_model.frozen_extractor is not None:
            self.raw_model.frozen_extractor.requires_grad_(True)

    def _loop(self) -> bool:
        self.meter.start()
        minutes = self.options.minutes
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        window: list[dict[str, float]] = []
        with progress(self.steps, self.phase.name, done=self.step, unit="step", show=self.is_main_process) as bar:
            while self.step < self.steps:
                if self.step == self.phase.end:
                    self._next_phase()
                    bar.set_description(self.phase.name)
                elif self.step > self.phase.begin and self.phase.trained(self.step) == 0:
                    self._next_start()
                window.append(self._update())
                self.step += 1
                ends = self.phase.trained(self.step) == 0
                if self.step % self.config.log_every and not ends:
                    continue
                means = {name: float(np.mean([row[name] for row in window])) for name in window[0]}
                window.clear()
                self._refuse_nan("loss", means["loss"])
                rate = learning_rate(self.config, self.phase.trained(self.step - 1))
                self._log({"step": self.step, "lr": rate, **means})
                bar.set_postfix(loss=f"{means['loss']:.4f}", refresh=False)
                bar.update(self.step - bar.n)
                late = any_process(self.accelerator, time.monotonic() > deadline)
                self.meter.read()
                if self.step % self.config.check_every == 0 or ends:
                    self._check()
                elif late:
                    self._save_last()
                if late and self.step < self.steps:
                    return False
        return True

    def _next_phase(self) -> None:
        """Continue with the best extractor that was found; a run that is killed from here on begins with it."""
        self.checkpoints.load_best(self.raw_model)
        self._report_slot_quality()
        self._leave()
        self._enter(self.phases[self.phases.index(self.phase) + 1])
        self._save_last()

    def _next_start(self) -> None:
        """Begin the phase again with new weights; those that were best so far stay the best checkpoint."""
        rng = np.random.default_rng([self.seed, _START, self.phases.index(self.phase), self.phase.start(self.step)])
        best = self.best
        self._leave()
        assert self.run_config.method is not None
        renew(self.raw_model, self.phase, self.run_config.method, self.run_config.model, int(rng.integers(2**63)))
        self._enter(self.phase)
        self.best = best

    def _report_slot_quality(self) -> None:
        """Say how good the slots are before anything is built on them, with advice where they look bad."""
        if self.raw_model.frozen_extractor is not None:
            for line in slot_quality_report(self.raw_model.frozen_extractor, self.held_out):
                self._note(line, show=True)

    def _load(self, transitions: Transitions, index: FrameIndex) -> Any:
        load = self.feed.pictures if self.phase.name == "represent" else self.feed.batch
        return load(transitions, index)

    def _update(self) -> dict[str, float]:
        rng = np.random.default_rng([self.seed, _TRAIN, self.step])
        processes, rank, size = self.accelerator.num_processes, self.accelerator.process_index, self.config.batch
        chosen = rng.integers(len(self.transitions), size=processes * size)
        if self.config.still and len(self.transitions.still):
            again = rng.random(len(chosen)) < self.config.still
            chosen[again] = rng.choice(self.transitions.still, int(again.sum()))
        index = self.transitions.index(chosen, rng)
        batch = self._load(self.transitions, index[rank * size : (rank + 1) * size])
        seed_all(int(rng.integers(2**31)) + rank, self.accelerator.device)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.phase.trained(self.step))
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
        """A frozen extractor stays as it is used: statistics of batches may not drift, nor noise be drawn."""
        if training == self._mode:
            return
        self._mode = training
        self.model.train(training)
        if self.phase.name == "train" and self.raw_model.frozen_extractor is not None:
            self.raw_model.frozen_extractor.eval()

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
        held_out_loss = mean_over_processes(self.accelerator, totals["loss"])
        self._refuse_nan("held-out loss", held_out_loss)
        self._log({"step": self.step, **{f"held_out_{name}": value for name, value in totals.items()}})
        if held_out_loss < self.best:
            self.best = held_out_loss
            self._calibrate()
            self._refuse_bad_weights()
            if self.is_main_process:
                self.checkpoints.save_best(self.raw_model, self._progress())
        self._save_last()
        self.accelerator.wait_for_everyone()  # others may read the best checkpoint next
        seconds = self.meter.costs.train_seconds
        self._note(f"step {self.step}: held-out loss {held_out_loss:.5f}, best {self.best:.5f}, {seconds:.0f} s")

    def _calibrate(self) -> None:
        """Let an extractor in training set what it needs beside its weights; it is kept with them."""
        extractor = self.raw_model.extractor
        if extractor is None or (self.phase.name == "train" and self.raw_model.frozen_extractor is not None):
            return
        rng = np.random.default_rng([self.seed, _CALIBRATE])
        frames = rng.integers(self.transitions.frame_count, size=_CALIBRATION_FRAMES)
        right = extractor.calibrate(self.transitions.pictures(frames).to(self.accelerator.device))
        if right is not None:
            self._note(f"calibrated: the number of objects is right in {right:.2%} of {len(frames)} training frames")

    def _save_last(self) -> None:
        self._refuse_bad_weights()
        if self.is_main_process:
            self.checkpoints.save_last(self.raw_model, self.optimizer, self._progress())
            self.saved = self.step

    def _progress(self) -> Progress:
        costs, scaler = self.meter.costs, self.accelerator.scaler
        if self.phase.name == "represent":
            self.slot_costs = costs
        best, scaling = None if math.isinf(self.best) else self.best, None if scaler is None else scaler.state_dict()
        return Progress(self.step, self.phase.name, best, costs, self.slot_costs, scaling)

    def _restore(self, checkpoint: Checkpoint) -> None:
        progress = checkpoint.record.progress
        load_weights(self.raw_model, checkpoint.weights(), self.directory.last)
        phase = next(phase for phase in self.phases if phase.name == progress.phase)
        if phase is not self.phase:
            self._enter(phase)
        restore_optimizer(self.optimizer, checkpoint.tensors)
        if self.accelerator.scaler is not None and progress.scaler is not None:
            self.accelerator.scaler.load_state_dict(progress.scaler)
        self.meter.start(progress.costs)
        self.step, self.saved, self.slot_costs = progress.step, progress.step, progress.slots
        self.best = math.inf if progress.best_held_out_loss is None else progress.best_held_out_loss

    def _refuse_bad_weights(self) -> None:
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in self.raw_model.state_dict().values())
        self._refuse_nan("largest weight", 0.0 if finite else math.inf)

    def _refuse_nan(self, what: str, value: float) -> None:
        """Stop before ruined weights are saved."""
        if any_process(self.accelerator, not math.isfinite(value)):
            stands = "the last good checkpoint stands" if self.directory.last.exists() else "there is no checkpoint yet"
            raise HowmError(
                f"the {what} is {value} at step {self.step}; {stands}. Try a lower train.lr than {self.config.lr}"
            )

    def _log(self, row: dict[str, float]) -> None:
        if self.is_main_process:
            self.directory.log(row)

    def _note(self, text: str, show: bool = False) -> None:
        if self.is_main_process:
            self.directory.note(text)
            if show:
                tqdm.write(text, file=sys.stderr)
