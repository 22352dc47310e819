"""Sweeps: the grid, shared data, what is finished is skipped, what failed is retried, a kill loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_tables import result

from howm.cli.main import _parser, main
from howm.cli.sweep import _config
from howm.config import read_yaml
from howm.data.storage import load_dataset
from howm.errors import HowmError
from howm.experiments.cell import Job
from howm.experiments.engines import run_local
from howm.experiments.folder import Sweep
from howm.experiments.plan import PAPER_METHODS, PlannedRun, SweepConfig, Variant
from howm.runs.checkpoint import load_checkpoint
from howm.runs.result import EVALUATION_VERSION, read_result, result_from_json, write_result

SETTINGS = (
    *("train.steps=4", "train.batch=256", "train.check_every=2", "train.log_every=2", "train.warmup=0"),
    *("represent.steps=4", "represent.batch=256", "represent.check_every=2", "represent.log_every=2"),
)
GRID = {"envs": ("shapes",), "n": (5,), "large": (), "seeds": (0,), "budget": "quick", "steps": (1,), "episodes": 60}


def small(**changes) -> SweepConfig:
    return SweepConfig(**{**GRID, "methods": ("cswm-n", "howm"), "settings": SETTINGS, **changes})


class Recorder:
    """Hears of a sweep, as a terminal does."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def ended(self, run: PlannedRun, status: str) -> None:
        self.heard.append((run.method, status))

    def tick(self) -> None:
        pass


def howm(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "howm.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_the_grid_of_the_paper():
    runs = SweepConfig().runs()
    assert len(runs) == len(PAPER_METHODS) * 3 * (4 + 3)
    assert {run.n for run in runs if run.world == "rush_hour"} == {5, 10, 20}
    assert {run.n for run in runs if run.world == "shapes"} == {5, 10, 20, 30}
    assert runs[0].seed == 0
    assert len(set(runs)) == len(runs)


def test_methods_and_variants_are_chosen_by_name():
    def rows(*arguments: str) -> list[str]:
        return list(_config(_parser().parse_args(["sweep", "--paper", *arguments])).rows)

    assert rows() == [*PAPER_METHODS, "monet-bm-background", "cswm-slots-matched"]
    assert rows("--budget", "quick") == list(PAPER_METHODS)
    assert rows("--methods", "howm") == ["howm"]
    assert rows("--methods", "monet-bm-background", "howm") == ["howm", "monet-bm-background"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"methods": ("magic",)}, "magic"),
        ({"envs": ("mars",)}, "mars"),
        ({"n": (4,)}, "n=4"),
        ({"seeds": (-1,)}, "seed must be a non-negative integer, got -1"),
        ({"seeds": (0, 1, 0)}, "seeds has 0 twice"),
        ({"steps": ()}, "steps"),
        ({"steps": (0,)}, "steps"),
        ({"n": ()}, "value of n"),
        ({"methods": ()}, "methods or variants"),
        ({"variants": (Variant("howm", "howm"),)}, "howm appears twice"),
        ({"settings": ("train.steps",)}, "train.steps"),
        ({"settings": ("model.hidden=0",)}, r"model\.hidden must be 1 or more, got 0"),
        ({"settings": ("trian.steps=5",)}, "trian.steps=5"),
        ({"settings": ("model.magic=5",)}, "model.magic=5"),
        ({"world_settings": ("grid=5by5",)}, "5by5"),
        ({"world_settings": ("grid=2x2",)}, "2x2"),
        ({"n": (10,), "train_scenes": 1}, "train_scenes=1|1 training scene"),
        ({"variants": (Variant("mine", "howm", ("model.magic=1",)),)}, "model.magic"),
    ],
)
def test_grids_that_cannot_be_run_are_named(changes, named):
    with pytest.raises(HowmError, match=named):
        small(**changes)


def test_a_setting_is_for_the_methods_that_have_its_key():
    config = small(settings=(*SETTINGS, "model.identity_loss_weight=0", "model.features=8", "represent.batch=9"))
    runs = {run.method: config.run_config(run) for run in config.runs()}
    assert (runs["howm"].model.identity_loss_weight, runs["howm"].represent.batch) == (0, 9)
    assert runs["cswm-n"].model.features == 8


def test_finished_cells_are_skipped_and_failed_and_outdated_ones_retried(tmp_path):
    broken = Sweep(tmp_path, small(methods=("cwm-n",), settings=(*SETTINGS, "train.lr=1e30")))
    (second,) = broken.config.runs()
    assert broken.execute(second) == "failed"
    failed = broken.result(second)
    assert "Try a lower train.lr than 1e+30" in failed.failure.reason
    assert (failed.failure.stage, failed.scores) == ("train", {})
    assert broken.open_runs() == [second]

    sweep = Sweep(tmp_path, small(methods=("cswm-n", "cwm-n")))
    first = sweep.config.runs()[0]
    old = result("cswm-n", n=5, references=60, evaluation_version=EVALUATION_VERSION - 1)
    write_result(result_from_json(old, "a result"), sweep.result_path(first))
    sweep.begin()  # other settings of an outdated result do not matter, either
    assert (sweep.open_runs(), sweep.status(first)) == ([first, second], "waiting")
    recorder = Recorder()
    assert run_local(sweep, sweep.open_runs(), 2, recorder) == {first: "ok", second: "ok"}
    assert sorted(recorder.heard) == [("cswm-n", "ok"), ("cwm-n", "ok")]
    assert str(sweep.overview()) == "2 ok"
    assert sweep.open_runs() == []
    assert len(list((tmp_path / "data").iterdir())) == 1
    found = sweep.result(first)
    assert (found.status, found.method, found.references, found.threads) == ("ok", "cswm-n", 60, 1)
    assert found.evaluation_version == EVALUATION_VERSION


def test_a_cell_over_its_memory_limit_is_recorded_and_tried_again_with_more(tmp_path):
    sweep = Sweep(tmp_path, small(methods=("cswm-n",)), memory_mb=20)
    (run,) = sweep.config.runs()
    assert sweep.execute(run) == "OM"
    result = sweep.result(run)
    assert (result.status, result.scores, result.failure.memory_limit_mb) == ("OM", {}, 20)
    assert sweep.open_runs() == []
    assert Sweep(tmp_path, sweep.config, memory_mb=4000).open_runs() == [run]
    assert Sweep(tmp_path, sweep.config).open_runs() == [run]


def test_a_cell_that_does_not_fit_into_the_machine_is_recorded_likewise(tmp_path):
    sweep = Sweep(tmp_path, small(methods=("cswm-n",), settings=(*SETTINGS, "model.hidden=2000000")))
    (run,) = sweep.config.runs()
    assert sweep.execute(run) == "OM"
    assert "not enough memory" in sweep.result(run).failure.reason
    assert sweep.open_runs() == []  # the machine has not grown


@pytest.mark.slow
def test_variants_are_methods_with_other_settings_and_share_their_slots(tmp_path):
    settings = (*SETTINGS, "model.hidden=8", "model.extractor.hidden=8")
    variants = (Variant("linear-maps", "howm", ("model.maps=linear",)),)
    sweep = Sweep(tmp_path, small(methods=("howm",), variants=variants, settings=settings))
    assert set(run_local(sweep, sweep.open_runs(), 2, Recorder()).values()) == {"ok"}
    assert len(list((tmp_path / "extractors").iterdir())) == 1
    taken = [read_yaml(str(sweep.run_path(run) / "config.yaml")).get("extractor") for run in sweep.config.runs()]
    assert taken[0] == taken[1] is not None
    result = read_result(tmp_path / "results" / "shapes-n5-k5" / "linear-maps-seed0.json")
    assert (result.method, result.variant, result.config["model"]["maps"]) == ("howm", "linear-maps", "linear")
    spent = read_result(tmp_path / "results" / "shapes-n5-k5" / "howm-seed0.json").costs
    last = load_checkpoint(tmp_path / "runs/shapes-n5-k5/howm-seed0/last.safetensors").record
    assert spent.train_cpu_seconds > last.progress.costs.train_cpu_seconds

    # Another choice asks for the same slots with the same job, whoever comes first, even for a run that is left alone.
    sigma = Variant("sigma-05", "howm", ("model.sigma=0.5",))
    asked = []
    for chosen in ((sigma, *variants), (*variants, sigma), variants):
        other = Asked(tmp_path, small(methods=(), variants=chosen, settings=settings))
        for run in other.config.runs():
            assert other._extractor(run, tmp_path / "data.h5") is not None
        asked += other.jobs
    assert len(asked) == 5
    assert len(set(asked)) == 1


class Asked(Sweep):
    """Notes jobs instead of doing them."""

    jobs: tuple[Job, ...] = ()

    def _do(self, run: PlannedRun, job: Job) -> None:
        self.jobs += (job,)


def test_slots_are_shared_only_where_nothing_differs_that_they_depend_on():
    variants = (
        Variant("linear-maps", "howm", ("model.maps=linear",)),
        Variant("other-slots", "howm", ("model.extractor.features=8",)),
        Variant("longer", "howm", ("represent.steps=5",)),
        Variant("joint", "howm", ("model.joint=true",)),
    )
    sweep = Sweep(Path("nowhere"), small(methods=("howm", "monet-bm", "cswm-n"), variants=variants, seeds=(0, 1)))
    slots = {(run.method, run.seed): sweep._slots_of(run) for run in sweep.config.runs()}
    assert slots["howm", 0] == slots["linear-maps", 0]
    assert slots["joint", 0] is slots["cswm-n", 0] is None
    others = [slots[name, 0] for name in ("howm", "other-slots", "longer", "monet-bm")] + [slots["howm", 1]]
    assert len(set(others)) == 5


def test_names_of_variants_are_names_of_files():
    with pytest.raises(HowmError, match="no identity loss"):
        Variant("no identity loss", "howm")


def test_data_and_results_can_be_asked_for(tmp_path):
    config = small(methods=("cswm-n",), n=(7,), train_scenes=9, world_settings=("grid=4x6",))
    sweep = Sweep(tmp_path / "sweep", config, results=tmp_path / "elsewhere")
    (run,) = config.runs()
    assert sweep.result_path(run) == tmp_path / "elsewhere" / "shapes-n7-k5" / "cswm-n-seed0.json"
    dataset = load_dataset(sweep._data(run))
    assert len(dataset.split.train) == 9
    assert dataset.eval.observe(np.arange(1), 0).shape == (1, 40, 60, 3)


def test_a_run_that_another_process_does_is_left_alone(tmp_path):
    sweep = Sweep(tmp_path, small(methods=("cswm-n",)))
    (run,) = sweep.config.runs()
    assert sweep.status(run) == "waiting"
    with sweep.hold(run) as mine:
        assert mine
        assert sweep.status(run) == "running"
        assert sweep.execute(run) == "running"
        assert sweep.overview().running == {run: 0.0}
        sweep.run_path(run).mkdir(parents=True)
        (sweep.run_path(run) / "config.yaml").write_text("train: {steps: 4}")
        (sweep.run_path(run) / "metrics.jsonl").write_text('{"step": 2}\n{"st')
        assert sweep.overview().running == {run: 0.5}  # the last line is not whole yet
        (sweep.run_path(run) / "metrics.jsonl").write_text('{"step": 2}\n{"step": 3}\n')
        assert sweep.overview().running == {run: 0.75}
    assert sweep.status(run) == "waiting"


def test_the_note_of_a_process_that_was_killed_does_not_count(tmp_path):
    sweep = Sweep(tmp_path, small(methods=("cswm-n",)))
    (run,) = sweep.config.runs()
    with sweep.hold(run):
        note = sweep._lock_path(run).with_suffix(".json").read_text()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for changes in ({"pid": ended.pid}, {"began": 0.0}):
        sweep._lock_path(run).with_suffix(".json").write_text(json.dumps(json.loads(note) | changes))
        assert sweep.status(run) == "waiting"


def test_asking_for_the_status_only_reads(tmp_path, capsys):
    Sweep(tmp_path, small()).begin()
    before = sorted(tmp_path.rglob("*"))
    assert main(["sweep", "status", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "2 waiting\n"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_killed_at_random_moments_and_called_again_a_sweep_ends_as_if_undisturbed(tmp_path):
    options = ("--methods", "cswm-n", "howm", "--envs", "shapes", "-n", 5, "--seeds", 0, "--budget", "quick",
               "--steps", 1, "--episodes", 60, "--workers", 2, "--set", *SETTINGS, "train.steps=40")  # fmt: skip
    whole = howm("sweep", *options, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "howm.cli", "sweep", *map(str, options), "--out", str(killed)]
    rng = np.random.default_rng()
    moments = [int(moment) for moment in rng.integers(1, 15, size=5)]
    for moment in moments:
        begin = written(killed)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while process.poll() is None and written(killed) < begin + moment:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL, (moments, "it was finished before it was killed")
    again = howm("sweep", *options, "--out", killed)
    assert again.returncode == 0, (moments, again.stderr)
    for name in ("cswm-n-seed0.json", "howm-seed0.json"):
        one, other = (
            read_result(folder / "results" / "shapes-n5-k5" / name) for folder in (tmp_path / "whole", killed)
        )
        assert (one.scores, one.curve) == (other.scores, other.curve), moments
    status = howm("sweep", "status", killed)
    assert status.stdout.strip() == "2 ok"


def written(folder: Path) -> int:
    """How far a sweep is, in files and lines of metrics."""
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return len(files) + sum(len(path.read_bytes().splitlines()) for path in files if path.name == "metrics.jsonl")


def test_an_interrupted_sweep_ends_its_cells_and_records_nothing_of_them(tmp_path):
    options = ("--methods", "cswm-n", "cwm-n", "--envs", "shapes", "-n", 5, "--seeds", 0, "--budget", "quick",
               "--workers", 2, "--set", *SETTINGS, "train.steps=100000", "--out", tmp_path)  # fmt: skip
    command = [sys.executable, "-m", "howm.cli", "sweep"]
    process = subprocess.Popen([*command, *map(str, options)], stderr=subprocess.PIPE, start_new_session=True)
    try:
        while process.poll() is None and len(list(tmp_path.glob("runs/*/*/metrics.jsonl"))) < 2:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()  # or it would go on training beside the other tests
    assert process.returncode == 130, said
    assert said.decode().strip().splitlines()[-1] == "howm: interrupted"
    assert not list(tmp_path.glob("results/*/*.json"))
    for run in Sweep.open(tmp_path).config.runs():
        assert Sweep.open(tmp_path).status(run) == "waiting"


def test_a_folder_is_not_begun_again_with_other_settings(tmp_path):
    Sweep(tmp_path, small()).begin()
    Sweep(tmp_path, small(seeds=(0, 1), methods=("howm", "cwm-n"))).begin()
    for changes, named in (
        ({"world_settings": ("grid=6x6",)}, "world_settings="),
        ({"steps": (1, 50)}, "steps"),
        ({"budget": "cpu"}, "budget=quick, not cpu"),
        ({"episodes": 61}, "episodes=60, not 61"),
        ({"settings": ("train.steps=5",)}, "settings"),
    ):
        with pytest.raises(HowmError, match=f"was begun with .*{named}.*; choose another folder"):
            Sweep(tmp_path, small(**changes)).begin()
    Sweep(tmp_path, small(variants=(Variant("mine", "howm"),))).begin()
    with pytest.raises(HowmError, match="another variant mine"):
        Sweep(tmp_path, small(variants=(Variant("mine", "howm", ("model.sigma=1",)),))).begin()


def test_results_cannot_go_into_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HowmError, match="file is a file"):
        Sweep(tmp_path, small(), results=tmp_path / "file").begin()
    with pytest.raises(HowmError, match="cannot write results"):
        Sweep(tmp_path, small(), results=Path("/proc/none")).begin()


def test_results_of_another_sweep_count_only_if_they_are_what_is_asked_for(tmp_path):
    config = small(methods=("cswm-n",))
    (run,) = config.runs()
    sweep = Sweep(tmp_path, config)
    made = {"train": {"steps": 4, "of-old": 1}, "model": {"hidden": 128}}
    values = result("cswm-n", n=5, references=60, config=made, evaluation_version=EVALUATION_VERSION)
    write_result(result_from_json(values, "a result"), sweep.result_path(run))
    sweep.begin()
    assert sweep.open_runs() == []
    for changes, named in (
        ({"episodes": 61}, "60 references, not 61"),
        ({"settings": (*SETTINGS, "train.steps=5")}, r"train\.steps=4, not 5"),
        ({"settings": (*SETTINGS, "model.hidden=9")}, r"model\.hidden=128, not 9"),
    ):
        other = Sweep(tmp_path / "other", small(methods=("cswm-n",), **changes), results=tmp_path / "results")
        with pytest.raises(HowmError, match=f"cswm-n-seed0.json was made with {named}; choose another folder"):
            other.begin()
    sweep.result_path(run).write_text("{")
    with pytest.raises(HowmError, match="is not JSON"):
        sweep.open_runs()


def test_what_a_sweep_wrote_down_can_be_given_again(tmp_path):
    Sweep(tmp_path, small()).begin()
    assert _config(_parser().parse_args(["sweep", str(tmp_path / "sweep.yaml")])) == small()
    (tmp_path / "odd.yaml").write_text("variants: [{method: howm}]")
    for more in ([], ["--methods", "howm"]):
        with pytest.raises(HowmError, match=r"variants\W*name is missing"):
            _config(_parser().parse_args(["sweep", str(tmp_path / "odd.yaml"), *more]))


def test_bad_usage_is_one_line(tmp_path, capsys):
    local = ("sweep", "--methods", "howm", "-n", "5", "--out", str(tmp_path / "new"))
    for arguments in (
        ("sweep", "--out", str(tmp_path)), ("sweep", "--paper"), ("sweep", "status", str(tmp_path)),
        (*local, "--address", "auto"),
    ):  # fmt: skip
        assert main(arguments) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    with pytest.raises(SystemExit, match="2"):
        main((*local, "--gpus", "-1"))
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_names_of_cells():
    assert PlannedRun("shapes", 10, 5, "howm", 2).name == "shapes-n10-k5/howm-seed2"


def test_an_absurd_sweep_is_refused_at_once():
    began = time.monotonic()
    for changes in ({"seeds": tuple(range(20_000))}, {"n": tuple(range(5, 1_005)), "seeds": tuple(range(20))}):
        with pytest.raises(HowmError, match="10,000 runs at most"):
            small(**changes)
    assert time.monotonic() - began < 2


def test_names_of_a_file_are_not_imported(tmp_path, capsys):
    (tmp_path / "sweep.yaml").write_text("methods: [howm]\nenvs: ['antigravity:X']\nn: [5]\nlarge: []\n")
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert "antigravity" not in sys.modules
    assert "--world antigravity:X" in capsys.readouterr().err
