"""Several starts of a phase: each from new weights, the best of them kept, and resumed like any other run."""

from dataclasses import replace

import pytest
import torch

from howm.errors import HowmError
from howm.models.registry import build_model
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import TrainConfig
from howm.training.fit import fit
from howm.training.loop import Trainer
from howm.training.run import train_run
from tests.training.test_train import assert_same_run, data, metrics, tiny, weights  # noqa: F401


def starts(method, represent=1, train=1):
    config = tiny(method)
    slots = None if config.represent is None else replace(config.represent, starts=represent)
    return replace(config, represent=slots, train=replace(config.train, starts=train))


def held_out(run):
    return {row["step"]: row["held_out_loss"] for row in metrics(run) if "held_out_loss" in row}


def test_every_start_has_weights_and_a_schedule_of_its_own_and_the_best_is_kept(data, tmp_path):  # noqa: F811
    assert train_run(starts("cswm-n", train=3), data, tmp_path)
    rows = [row for row in metrics(tmp_path) if "lr" in row]
    assert [row["step"] for row in rows] == list(range(2, 37, 2))
    rates = [row["lr"] for row in rows]
    assert rates[:6] == rates[6:12] == rates[12:]
    found = held_out(tmp_path)
    assert list(found) == list(range(4, 37, 4))
    assert found[12] != found[24] != found[36]
    best = load_checkpoint(tmp_path / "best.safetensors").record.progress
    assert best.best_held_out_loss == min(found.values())


def test_the_first_start_is_the_run_without_others(data, tmp_path):  # noqa: F811
    train_run(starts("cswm-n"), data, tmp_path / "one")
    train_run(starts("cswm-n", train=2), data, tmp_path / "two")
    assert metrics(tmp_path / "two")[: len(metrics(tmp_path / "one"))] == metrics(tmp_path / "one")


def test_slots_of_the_best_start_are_handed_on(data, tmp_path):  # noqa: F811
    train_run(starts("howm", represent=2), data, tmp_path / "slots", represent_only=True)
    train_run(starts("howm", represent=2), data, tmp_path / "run")
    chosen, used = weights(tmp_path / "slots", "best"), weights(tmp_path / "run", "best")
    names = [name for name in chosen if name.startswith("extractor.")]
    assert names
    assert all(torch.equal(chosen[name], used[name]) for name in names)


def test_later_starts_leave_the_extractor_alone(data, tmp_path):  # noqa: F811
    train_run(starts("howm", train=2), data, tmp_path)
    first, last = (load_checkpoint(tmp_path / f"{which}.safetensors").weights() for which in ("best", "last"))
    assert all(torch.equal(first[name], last[name]) for name in first if name.startswith("extractor."))
    assert [row["step"] for row in metrics(tmp_path) if "held_out_loss" in row][-1] == 36


@pytest.mark.parametrize("stop", [11, 12, 13])
def test_a_run_that_was_stopped_around_a_new_start_resumes_bit_for_bit(stop, data, tmp_path, monkeypatch):  # noqa: F811
    config = starts("howm", represent=2, train=2)
    train_run(config, data, tmp_path / "whole")

    update = Trainer._update

    def stopped(self):
        if self.step == stop:
            raise KeyboardInterrupt
        return update(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", stopped)
        with pytest.raises(KeyboardInterrupt):
            train_run(config, data, tmp_path / "stopped")
    train_run(config, data, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_of_several_starts_cannot_be_made_longer(data, tmp_path):  # noqa: F811
    config = starts("cswm-n", train=2)
    config = replace(config, train=replace(config.train, schedule="constant"))
    train_run(config, data, tmp_path)
    with pytest.raises(HowmError, match=r"begun with .*steps=12"):
        train_run(replace(config, train=replace(config.train, steps=20)), data, tmp_path, resume=True)


def test_a_model_that_cannot_be_built_anew_has_one_start(data, tmp_path):  # noqa: F811
    model = build_model("cswm-n", data.spec, tiny().model, seed=0)
    with pytest.raises(HowmError, match="starts=2 needs a method"):
        fit(model, data, TrainConfig(steps=2, batch=4, starts=2), tmp_path)
    with pytest.raises(HowmError, match="starts"):
        TrainConfig(starts=0)
