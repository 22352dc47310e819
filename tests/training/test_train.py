"""Training: a run directory that explains itself, survives a kill at any moment, and uses nothing it may not."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import howm
from howm import METHODS, Rollouts, Transitions, evaluate, fit, make_dataset
from howm.cli.main import main
from howm.data.dataset import Amounts, Dataset
from howm.data.episodes import Episodes
from howm.data.storage import save_dataset
from howm.errors import HowmError
from howm.models.registry import build_model
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import TrainConfig, configure
from howm.runs.locate import rebuild
from howm.training.run import train_run
from howm.training.schedule import learning_rate

AMOUNTS = Amounts(train_episodes=60, train_steps=10, eval_episodes=60, eval_steps=3)
TINY = {"model": {"hidden": 8}, "train": {"steps": 12, "batch": 16, "check_every": 4, "log_every": 2}}
TINY_SLOTS = {"represent": TINY["train"]}


@pytest.fixture(scope="module")
def data():
    return make_dataset("shapes", 5, 3, amounts=AMOUNTS)


def tiny(method="cswm-n", **train):
    return configure(method, "cpu", TINY, {"train": train}, TINY_SLOTS if METHODS[method].represents else {})


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def weights(run: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return load_checkpoint(run / f"{which}.safetensors").weights()


def assert_same_run(one: Path, other: Path) -> None:
    assert (one / "metrics.jsonl").read_text() == (other / "metrics.jsonl").read_text()
    for which in ("last", "best"):
        a, b = weights(one, which), weights(other, which)
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_directory_explains_itself(data, tmp_path):
    assert train_run(tiny(), data, tmp_path, 3, data_path="somewhere.h5", data_hash="abc")
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert (config["method"], config["seed"], config["data"]) == ("cswm-n", 3, "somewhere.h5")
    assert config["train"]["steps"] == 12
    rows = metrics(tmp_path)
    assert [row["step"] for row in rows if "loss" in row] == [2, 4, 6, 8, 10, 12]
    assert [row["step"] for row in rows if "held_out_loss" in row] == [4, 8, 12]
    assert all(row["lr"] > 0 for row in rows if "lr" in row)
    record = load_checkpoint(tmp_path / "last.safetensors").record
    assert record.data.hash == "abc"
    assert len(record.data.train_scenes) == len(data.split.train)
    assert record.data.simulator["library"]["world"] == "shapes"
    assert record.versions["torch"] == torch.__version__
    assert record.progress.costs.train_seconds > 0
    assert "finished at step 12" in (tmp_path / "log.txt").read_text()
    assert record.progress.costs.peak_memory_mb > 0


def test_the_best_checkpoint_is_the_one_with_the_lowest_held_out_loss(data, tmp_path):
    train_run(tiny(steps=16, lr=0.3, schedule="constant"), data, tmp_path)  # such a rate makes the loss jump
    losses = {row["step"]: row["held_out_loss"] for row in metrics(tmp_path) if "held_out_loss" in row}
    best = load_checkpoint(tmp_path / "best.safetensors")
    assert best.step == min(losses, key=losses.__getitem__)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(data, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train_run(tiny(), data, tmp_path / name, seed)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a/metrics.jsonl").read_text() != (tmp_path / "c/metrics.jsonl").read_text()


def test_load_gives_the_best_model_back(data, tmp_path):
    train_run(tiny(), data, tmp_path)
    model = howm.load(tmp_path)
    assert not model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, weights(tmp_path, "best")[name])


def with_pictures(episodes: Episodes, ids: np.ndarray) -> Episodes:
    """The same pictures and actions, but the privileged part replaced."""
    frames = np.arange(episodes.steps + 1)
    pictures = np.stack([episodes.observe(np.full_like(frames, e), frames) for e in range(len(episodes))])
    garbage = np.random.default_rng(0).integers(1000, size=episodes.states.shape)
    return Episodes(episodes.actions, ids, garbage, episodes.world, pictures)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "cswm-k"])
def test_garbage_in_place_of_privileged_state_changes_nothing(method, data, tmp_path):
    # Which episodes share a scene is all that sampling negatives needs; the names of the objects are garbage.
    scrambled = np.random.default_rng(1).permutation(10_000)[: 3 * (data.train.scene_index.max() + 1)].reshape(-1, 3)
    scrambled = scrambled[np.lexsort(scrambled.T[::-1])]  # scenes keep their order, as their numbers come from it
    train = with_pictures(data.train, scrambled[data.train.scene_index])
    blind = replace(data, train=train, eval=data.train, eval_seen=data.train)
    train_run(tiny(method), data, tmp_path / "seeing")
    train_run(tiny(method), blind, tmp_path / "blind")
    assert_same_run(tmp_path / "seeing", tmp_path / "blind")
    batch = Transitions(train).load(Transitions(train).index(np.arange(20), np.random.default_rng(0)))
    model = howm.load(tmp_path / "seeing")
    a, b = model.encode(batch.obs, batch.privileged), model.encode(batch.obs)
    assert torch.equal(model.step(a, batch.action).slots, model.step(b, batch.action).slots)
    blind_judged, slot_quality_report = (
        evaluate(model, Rollouts(Episodes(train.actions, ids, pictures=train.pictures)), (1, 3)).to_json()
        for ids in (train.scene_ids, data.train.scene_ids)
    )
    assert blind_judged == slot_quality_report


def test_learning_rates_are_never_zero_and_depend_on_the_step_alone():
    config = TrainConfig(steps=100, lr=0.5, schedule="cosine", warmup=10)
    rates = [learning_rate(config, step) for step in range(100)]
    assert min(rates) > 0
    assert rates[0] == pytest.approx(0.05)
    assert max(rates) <= 0.5
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert {learning_rate(TrainConfig(steps=9), step) for step in range(9)} == {5e-4}


def test_time_that_runs_out_stops_and_never_shapes_the_run(data, tmp_path):
    train_run(tiny(), data, tmp_path / "whole")
    stops = 0
    while not train_run(tiny(), data, tmp_path / "pieces", minutes=0.0, resume=stops > 0):
        stops += 1
    assert stops == 5  # one log interval at a time
    assert_same_run(tmp_path / "whole", tmp_path / "pieces")


def test_a_finished_run_is_left_alone(data, tmp_path):
    train_run(tiny(), data, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(HowmError, match="already holds a run"):
        train_run(tiny(), data, tmp_path)
    assert train_run(tiny(), data, tmp_path, resume=True)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before == after


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"lr": 0.7}, r"train\.lr=0\.0025, not 0\.7"),
        ({"seed": 9}, "seed=0, not 9"),
        ({"method": "cwm-n"}, "method='cswm-n', not 'cwm-n'"),
        ({"data_hash": "other"}, "data.hash=None, not 'other'"),
    ],
)
def test_resuming_with_other_settings_is_refused(change, named, data, tmp_path):
    train_run(tiny(), data, tmp_path, minutes=0.0)
    method, seed = change.pop("method", "cswm-n"), change.pop("seed", 0)
    options = {"data_hash": change.pop("data_hash", None), "resume": True}
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(HowmError, match=f"begun with {named}; resume"):
        train_run(tiny(method, **change), data, tmp_path, seed, **options)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_resuming_what_was_not_begun_begins_and_says_so(data, tmp_path, capsys):
    assert train_run(tiny(), data, tmp_path / "run", resume=True)
    assert f"{tmp_path / 'run'} holds no checkpoint" in capsys.readouterr().err
    assert train_run(tiny(), data, tmp_path / "run", resume=True)
    assert "no checkpoint" not in capsys.readouterr().err


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_other_files_is_left_alone(resume, data, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(HowmError, match="holds files that are not of a run"):
        train_run(tiny(), data, tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_seeds_that_torch_cannot_take_are_refused(data, tmp_path):
    for seed in (-1, 2**63):
        with pytest.raises(HowmError, match=f"seed must be .*, got {seed}"):
            train_run(tiny(), data, tmp_path, seed)


class Bursting(howm.WorldModel):
    """Learns well until its weight, which every step doubles, overflows."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def encode(self, obs, object_ids=None):
        return howm.SlotState(obs.float().mean(dim=(1, 2, 3)).view(-1, 1, 1))

    def step(self, state, action):
        return state

    def forward(self, batch):
        if self.training:
            with torch.no_grad():
                self.weight *= 1e5
        return self.weight.square().sum() * 1e-30, {}


@pytest.mark.parametrize("check_every", [1, 2])
def test_nan_stops_with_a_clear_message_and_keeps_the_last_good_checkpoint(check_every, data, tmp_path):
    config = TrainConfig(steps=40, batch=4, lr=1e-3, check_every=check_every, log_every=1)
    with pytest.raises(HowmError, match=r"is (nan|inf) at step.*last good checkpoint stands.*train\.lr"):
        fit(Bursting(), data, config, tmp_path)
    for which in ("last", "best"):
        assert torch.isfinite(weights(tmp_path, which)["weight"]).all()
    assert all(np.isfinite(list(row.values())).all() for row in metrics(tmp_path))


def test_nan_before_the_first_checkpoint_promises_none(data, tmp_path):
    config = TrainConfig(steps=40, batch=4, lr=1e-3, check_every=40, log_every=1)
    with pytest.raises(HowmError, match=r"is (nan|inf) at step.*no checkpoint yet.*train\.lr"):
        fit(Bursting(), data, config, tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_kill_between_the_two_checkpoints_loses_nothing(data, tmp_path, monkeypatch):
    import howm.training.saving as train

    class Killed(BaseException):
        pass

    train_run(tiny(), data, tmp_path / "whole")
    save, saved = train.save_checkpoint, []

    def save_until_killed(checkpoint, path):
        if path.name == "last.safetensors" and checkpoint.step == 8:
            raise Killed
        saved.append(path.name)
        save(checkpoint, path)

    monkeypatch.setattr(train, "save_checkpoint", save_until_killed)
    with pytest.raises(Killed):
        train_run(tiny(), data, tmp_path / "killed")
    monkeypatch.undo()
    with open(tmp_path / "killed" / "metrics.jsonl", "a") as file:
        file.write('{"step": 9, "lo')  # a line that the kill cut short
    assert train_run(tiny(), data, tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_before_the_first_check_the_last_checkpoint_is_the_model(data, tmp_path):
    train_run(tiny(), data, tmp_path, minutes=0.0)
    assert not (tmp_path / "best.safetensors").exists()
    assert howm.load(tmp_path) is not None


def test_weights_that_are_tied_can_be_saved(data, tmp_path):
    class Tied(OwnModel):
        def __init__(self):
            super().__init__()
            self.again = self.encoder

    assert fit(Tied(), data, TrainConfig(steps=2, batch=8, check_every=2, log_every=2), tmp_path)


def test_fit_leaves_the_best_weights_in_the_model(data, tmp_path):
    model = OwnModel()
    fit(model, data, TrainConfig(steps=8, batch=8, lr=0.5, check_every=1, log_every=1), tmp_path)
    for name, tensor in weights(tmp_path, "best").items():
        assert torch.equal(model.state_dict()[name], tensor)


def test_half_precision_on_a_cpu_is_refused(data, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("a GPU can do it")
    with pytest.raises(HowmError, match="fp16"):
        train_run(tiny(precision="fp16"), data, tmp_path)


def test_an_unwritable_place_is_one_clear_error(data, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HowmError, match="cannot make the run directory"):
        train_run(tiny(), data, tmp_path / "file" / "run")


def test_tensorboard_events_are_written_on_request(data, tmp_path):
    train_run(tiny(), data, tmp_path, tensorboard=True)
    assert list((tmp_path / "tensorboard").glob("events.*"))


def test_log_and_check_intervals_must_fit():
    with pytest.raises(HowmError, match="check_every=5"):
        tiny(check_every=5)


@pytest.mark.parametrize("precision", ["bf16"])
def test_mixed_precision(precision, data, tmp_path):
    assert train_run(tiny(precision=precision), data, tmp_path)
    assert all(np.isfinite(row["loss"]) for row in metrics(tmp_path) if "loss" in row)


def test_damaged_checkpoints_are_one_clear_error(data, tmp_path):
    train_run(tiny(), data, tmp_path)
    path = tmp_path / "best.safetensors"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(HowmError, match=r"best\.safetensors"):
        howm.load(tmp_path)


class OwnModel(howm.WorldModel):
    """A user's model without batch statistics: pictures averaged over cells, one linear step."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.encoder, self.transition = torch.nn.Linear(75, 6), torch.nn.Linear(6 + 20, 6)

    def encode(self, obs, object_ids=None):
        cells = obs.float().view(len(obs), 5, 10, 5, 10, 3).mean(dim=(2, 4)) / 255
        return howm.SlotState(self.encoder(cells.flatten(1))[:, None])

    def step(self, state, action):
        inputs = torch.cat([state.slots[:, 0], torch.nn.functional.one_hot(action, 20).float()], dim=1)
        return howm.SlotState(state.slots + self.transition(inputs)[:, None])

    def forward(self, batch):
        predicted = self.step(self.encode(batch.obs), batch.action).slots
        loss = (predicted - self.encode(batch.next_obs).slots).square().mean()
        return loss, {}


def test_a_users_own_model_is_trained_and_its_weights_come_back(data, tmp_path):
    assert fit(OwnModel(), data, TrainConfig(steps=6, batch=8, check_every=2, log_every=2), tmp_path)
    with pytest.raises(HowmError, match="of your own"):
        rebuild(load_checkpoint(tmp_path / "last.safetensors"))
    model = OwnModel()
    model.load_state_dict(weights(tmp_path))


def spawn(arguments: list[str], **kwargs) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **kwargs,
    )


@pytest.mark.slow
def test_killed_at_any_moment_a_run_resumes_bit_for_bit(data, tmp_path):
    file = tmp_path / "data.h5"
    save_dataset(data, file)
    settings = ["model.hidden=8", "train.steps=1500", "train.batch=8", "train.check_every=20", "train.log_every=10"]
    command = ["-m", "howm.cli", "train", "--method", "cswm-n", "--data", str(file), "--set", *settings]
    whole = spawn([*command, "--out", str(tmp_path / "whole")])
    killed, run, kills = None, tmp_path / "killed", 0
    while kills < 3:
        killed = spawn([*command, "--out", str(run), "--resume"])
        steps_before = progress(run)
        while progress(run) < steps_before + 200 and killed.poll() is None:
            time.sleep(0.01)  # waits for an event, not for a time
        assert killed.poll() is None, killed.communicate()[0]
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        kills += 1
    final = spawn([*command, "--out", str(run), "--resume"])
    ended(final)
    ended(whole)
    assert_same_run(tmp_path / "whole", run)


def ended(process: subprocess.Popen[str]) -> None:
    """Read what a process says to its end, or it might wait for a reader forever."""
    output = process.communicate()[0]
    assert process.returncode == 0, output


def progress(run: Path) -> int:
    """How far a run has come, by the lines of its log."""
    path = run / "metrics.jsonl"
    return 10 * len(path.read_text().splitlines()) if path.exists() else 0


def test_a_full_disk_leaves_the_last_checkpoint_whole(data, tmp_path):
    file = tmp_path / "data.h5"
    save_dataset(data, file)
    command = ["train", "--method", "cswm-n", "--data", str(file), "--out", str(tmp_path / "run")]
    command += [
        "--set",
        "model.hidden=8",
        "train.steps=40",
        "train.batch=8",
        "train.check_every=10",
        "train.log_every=10",
    ]
    assert main([*command, "--minutes", "0.0001"]) == 0
    before = (tmp_path / "run" / "last.safetensors").read_bytes()
    # A limit on the size of files stands for a full disk: writing past it fails in the same way.
    limited = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from howm.cli.main import main
sys.exit(main({[*command, "--resume"]!r}))
"""
    second = spawn(["-c", limited])
    output = second.communicate()[0]
    assert second.returncode == 2, output
    assert "Traceback" not in output
    assert "howm: cannot write" in output
    assert (tmp_path / "run" / "last.safetensors").read_bytes() == before
    assert not list((tmp_path / "run").glob(".*.part"))


DISTRIBUTED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_train import AMOUNTS, OwnModel
from howm import TrainConfig, fit, make_dataset
fit(OwnModel(), make_dataset("shapes", 5, 3, amounts=AMOUNTS),
    TrainConfig(steps=12, batch={batch}, lr=0.01, check_every=4, log_every=2), Path({out!r}))
"""


@pytest.mark.slow
def test_two_processes_equal_one_with_the_double_batch(tmp_path):
    tests = str(Path(__file__).parent)
    one = spawn(["-c", DISTRIBUTED.format(tests=tests, batch=16, out=str(tmp_path / "one"))])
    script = tmp_path / "script.py"
    script.write_text(DISTRIBUTED.format(tests=tests, batch=8, out=str(tmp_path / "two")))
    here = ["--standalone", "--local-addr=127.0.0.1"]  # a machine need not know its own name
    two = spawn(["-m", "torch.distributed.run", "--nproc-per-node=2", *here, str(script)])
    ended(one)
    ended(two)
    curves = [[row["loss"] for row in metrics(tmp_path / name) if "loss" in row] for name in ("one", "two")]
    assert curves[0] == pytest.approx(curves[1], rel=1e-5)
    assert curves[0][-1] < curves[0][0]


class Torn(OwnModel):
    """Its held-out loss differs between processes, as that of models with statistics of batches does."""

    def forward(self, batch):
        loss, logs = super().forward(batch)
        if not self.training:
            self.checks = getattr(self, "checks", 0) + 1
            loss = loss.detach() * 0 + (self.checks if os.environ["RANK"] == "0" else -self.checks)
        return loss, logs | {"said": 1.0}


TORN = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_train import AMOUNTS, Torn
from howm import TrainConfig, fit, make_dataset
fit(Torn(), make_dataset("shapes", 5, 3, amounts=AMOUNTS),
    TrainConfig(steps=6, batch=8, lr=0.01, check_every=2, log_every=2), Path({out!r}))
"""


@pytest.mark.slow
def test_processes_that_measure_differently_decide_alike_which_weights_are_best(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TORN.format(tests=str(Path(__file__).parent), out=str(tmp_path / "run")))
    here = ["--standalone", "--local-addr=127.0.0.1"]
    ended(spawn(["-m", "torch.distributed.run", "--nproc-per-node=2", *here, str(script)]))
    assert load_checkpoint(tmp_path / "run" / "last.safetensors").step == 6
    assert load_checkpoint(tmp_path / "run" / "best.safetensors").record.progress.best_held_out_loss == 0
    assert metrics(tmp_path / "run")[0]["said"] == 1.0


def test_a_run_that_fails_leaves_the_model_as_it_was(data, tmp_path):
    model = build_model("howm", data.spec, tiny("howm").model, seed=0)
    with pytest.raises(HowmError, match="Try a lower"):
        fit(model, data, howm.RunConfig(replace(tiny().train, lr=1e30, warmup=0), tiny("howm").represent), tmp_path)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_data_of_another_kind_trains_as_well(tmp_path):
    rush = make_dataset("rush_hour", 4, 2, amounts=AMOUNTS)
    assert isinstance(rush, Dataset)
    assert train_run(tiny("cswm-k"), rush, tmp_path)


def test_peak_memory_is_in_megabytes_on_every_system(monkeypatch):
    import psutil

    from howm.training import costs

    used = psutil.Process().memory_info().rss / 2**20
    assert 0.5 * used < costs.peak_memory_mb() < 50 * used
    if torch.cuda.is_available():
        return
    here = costs.peak_memory_mb()
    monkeypatch.setattr(costs.sys, "platform", "darwin")  # whose ru_maxrss is in bytes
    assert costs.peak_memory_mb() == pytest.approx(here / 1024, rel=0.1)
    monkeypatch.setattr(costs, "resource", None)  # as on Windows
    assert costs.peak_memory_mb() == pytest.approx(psutil.Process().memory_info().rss / 2**20, rel=0.1)
