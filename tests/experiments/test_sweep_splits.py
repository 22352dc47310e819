"""Sweeps over every world, sizes of scenes and kinds of split: what is run, where it stands, and what names it."""

from itertools import combinations
from pathlib import Path

import pytest
from test_sweep import Recorder, small

from howm.cli.main import _parser, main
from howm.cli.sweep import _config
from howm.config import from_plain, read_yaml
from howm.data.storage import load_dataset
from howm.errors import HowmError
from howm.evaluation.episodes import fresh_episodes
from howm.evaluation.run import evaluate_run
from howm.experiments.engines import run_local
from howm.experiments.folder import Sweep
from howm.experiments.plan import SweepConfig
from howm.report.results_folder import read_results
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint
from howm.runs.result import read_result
from howm.worlds.grid_world import Shapes
from howm.worlds.registry import WORLDS

ROOT = Path(__file__).parents[2]


def config_of(*arguments: str) -> SweepConfig:
    return _config(_parser().parse_args(["sweep", "--methods", "howm", "-n", "10", "--seeds", "0", *arguments]))


def settings_of(*arguments: str) -> list[str]:
    return [run.setting for run in config_of(*arguments).runs()]


def test_every_world_has_its_own_sizes_and_split():
    found = settings_of("--worlds", *WORLDS)
    assert len(found) == len(WORLDS)
    assert {"shapes-n10-k5", "free-n10-k5", "grand-n10-k3-7", "changing-n10-k5-linked"} <= {*found}


def test_sizes_and_splits_can_be_asked_for():
    assert settings_of("--worlds", "shapes", "-k", "3-4") == ["shapes-n10-k3-4"]
    assert settings_of("--worlds", "shapes", "grand", "-k", "4") == ["shapes-n10-k4", "grand-n10-k4"]
    asked = settings_of("--worlds", "shapes", "--split", "scenes", "pairs", "minimal")
    assert asked == ["shapes-n10-k5", "shapes-n10-k5-pairs", "shapes-n10-k5-minimal"]
    larger = config_of("--worlds", "shapes", "--split", "larger-k", "-k", "3-4", "--eval-k", "5-6")
    (run,) = larger.runs()
    assert (run.setting, run.k, larger._spec(run).k) == ("shapes-n10-k3-4-to-5-6-larger-k", 6, 6)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("-k", "7-3"), "3-7"),
        (("-k", "11"), "n=10 objects has no scene of k=11"),
        (("--split", "magic"), "magic"),
        (("--split", "pairs", "pairs"), "pairs twice"),
        (("--split", "larger-k"), "eval_k"),
        (("--eval-k", "6"), "eval_k"),
        (("--split", "larger-k", "-k", "5", "--eval-k", "4"), "larger"),
        (("--split", "larger-k", "-k", "5", "--eval-k", "11"), "n=10"),
        (("--split", "minimal", "--train-scenes", "7"), "train_scenes=7"),
        (("-n", "5", "--split", "pairs"), "the split pairs needs"),
        (("--share", "0"), "share"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_work(arguments, named, tmp_path, capsys):
    options = ["--worlds", "shapes", "--methods", "howm", "-n", "10", "--out", str(tmp_path / "out")]
    assert main(["sweep", *options, *arguments]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_share_of_the_steps_takes_the_place_of_the_budgets():
    config = config_of("--worlds", "shapes", "--budget", "quick", "--share", "0.1")
    (run,) = config.runs()
    assert config.overrides(run) == ["train.steps=150", "represent.steps=60"]
    assert config.first_mismatch(config_of("--worlds", "shapes", "--budget", "quick")) == "steps_share=0.1, not 0.25"


@pytest.mark.parametrize("name", ["ladder", "splits"])
def test_our_own_sweeps_can_be_read(name):
    config = from_plain(SweepConfig, read_yaml(str(ROOT / "experiments" / f"{name}.yaml")))
    assert len({run.setting for run in config.runs()}) == (len(WORLDS) if name == "ladder" else 3)


@pytest.mark.slow
def test_runs_of_other_splits_stand_apart_and_name_their_split(tmp_path):
    sweep = Sweep(tmp_path, small(methods=("cswm-k",), n=(6,), k=3, splits=("pairs", "minimal")))
    pairs, minimal = sweep.config.runs()
    sweep.begin()
    assert set(run_local(sweep, sweep.open_runs(), 1, Recorder()).values()) == {"ok"}
    assert load_dataset(tmp_path / "data" / "shapes-n6-k3-minimal-seed0.h5").split.kind == "minimal"
    result = read_result(tmp_path / "results" / "shapes-n6-k3-pairs" / "cswm-k-seed0.json")
    assert (result.split, result.sizes, result.scene_size, result.is_plain) == ("pairs", None, "3", False)
    assert result.place(tmp_path / "results") == sweep.result_path(pairs)
    assert sweep.result(minimal).training_scenes == 2

    results = read_results(tmp_path)
    assert (results.grid, {run.split for run in results.others}) == ((), {"pairs", "minimal"})

    # Fresh scenes keep the rule of the split, and so does the name.
    place = sweep.run_path(pairs)
    checkpoint = load_checkpoint(find_checkpoint(place))
    met = {pair for scene in checkpoint.record.data.train_scenes for pair in combinations(scene, 2)}
    fresh = fresh_episodes(checkpoint, 1, 7, 50)
    assert all({*combinations(scene, 2)} - met for scene in fresh.unseen.scenes)
    assert evaluate_run(place, steps=(1,), fresh_seed=7, episodes=20).split == "pairs"
    mixed = tmp_path / "data" / "shapes-n6-k3-minimal-seed0.h5"
    with pytest.raises(HowmError, match="scenes"):  # of which some were seen in training
        evaluate_run(place, mixed, steps=(1,))


@pytest.mark.slow
def test_runs_in_scenes_of_several_sizes_name_them(tmp_path):
    grid = {"n": (6,), "k": "2-3", "splits": ("larger-k",), "eval_k": "4-5"}
    sweep = Sweep(tmp_path, small(methods=("cswm-k",), envs=("grand",), **grid))
    (run,) = sweep.config.runs()
    sweep.begin()
    assert sweep.execute(run) == "ok"
    result = sweep.result(run)
    assert (result.k, result.sizes, result.split) == (5, "2-3 to 4-5", "larger-k")
    fresh = fresh_episodes(load_checkpoint(find_checkpoint(sweep.run_path(run))), 1, 7, 50)
    assert {len(scene) for scene in fresh.unseen.scenes} == {4, 5}
    assert {len(scene) for scene in fresh.seen.scenes} == {2, 3}
    assert fresh.unseen.scene_ids.shape[1] == fresh.seen.scene_ids.shape[1] == 5


class Three(Shapes):
    """A world of one's own, whose scenes have three objects."""

    default_k = 3


def test_the_file_of_a_sweep_names_the_sizes_of_a_world_of_ones_own(tmp_path):
    name = WORLDS.name_of(Three)
    assert ":" in name
    sweep = Sweep(tmp_path, small(methods=("cswm-k",), envs=(name,), n=(6,)))
    sweep.begin()
    written = read_yaml(str(tmp_path / "sweep.yaml"))
    assert (written["k"], written["splits"]) == ("3", ["scenes"])
    assert [run.name for run in Sweep.open(tmp_path).config.runs()] == [run.name for run in sweep.config.runs()]
    assert sweep.config.runs()[0].setting.endswith("n6-k3")
