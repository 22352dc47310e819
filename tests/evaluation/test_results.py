"""What `howm eval` says of a run: the layout of results.json, fair pools, and scenes that are really unseen."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest
from test_cli import howm

from howm import FitOptions, Rollouts, TrainConfig, evaluate, fit, make_dataset
from howm.cli.main import main
from howm.data.dataset import Amounts, Dataset
from howm.data.storage import load_dataset, save_dataset
from howm.errors import HowmError
from howm.evaluation.episodes import fresh_episodes, matched
from howm.evaluation.run import evaluate_run
from howm.files import file_hash
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import configure
from howm.runs.result import read_result, result_from_json
from howm.training.run import train_run
from howm.worlds.scenes import SceneSet, draw_unseen

AMOUNTS = Amounts(train_episodes=60, train_steps=8, eval_episodes=90, eval_steps=4)
TINY = {"model": {"hidden": 8}, "train": {"steps": 8, "batch": 16, "check_every": 4, "log_every": 4}}
STEPS = ("1", "3")


def trained(folder: Path, dataset: Dataset, method: str = "cswm-n") -> Path:
    save_dataset(dataset, folder / "data.h5")
    config = configure(method, "cpu", TINY)
    run = folder / "run"
    path = folder / "data.h5"
    train_run(config, dataset, run, 5, data_path=str(path), data_hash=file_hash(path))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("run"), make_dataset("shapes", 6, 3, amounts=AMOUNTS))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_eval_prints_the_results_as_the_last_line_and_writes_them(run, tmp_path):
    result = howm("eval", run, "--steps", 1, 3, "--json", "--results", tmp_path)
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    printed = json.loads(line)
    assert printed == json.loads((run / "results.json").read_text())
    assert printed == json.loads((tmp_path / "shapes-n6-k3" / "cswm-n-seed5.json").read_text())
    found = result_from_json(printed, "what was printed")
    assert (found.status, found.world, found.n, found.k, found.seed) == ("ok", "shapes", 6, 3, 5)
    assert (found.method_title, found.world_title, found.hard_pool) == ("Σ_N-CSWM", "Shapes", "near misses")
    assert (found.version, found.evaluation_version, found.privileged) == (2, 2, False)
    for pool in ("paper", "hard"):
        for part in ("unseen", "training"):
            assert tuple(found.scores[part][pool]) == STEPS
        for k in STEPS:
            assert found.gap[pool][k] == found.scores["training"][pool][k].mrr - found.scores["unseen"][pool][k].mrr
            assert found.controls["oracle"][pool][k].mrr == 100.0
    assert set(found.controls) == {"do_nothing", "random", "constant", "oracle"}
    assert (found.references, found.scenes, found.training_steps, found.threads) == (90, 10, 8, 1)


def test_results_say_how_they_were_made(run):
    results = evaluate_run(str(run), steps=(1,))
    assert results.config["train"]["steps"] == 8
    assert results.config["model"]["hidden"] == 8
    assert results.data.split == load_dataset(run.parent / "data.h5").split.hash
    assert [row["step"] for row in results.curve] == [4, 8]
    best = load_checkpoint(run / "best.safetensors").record.progress.best_held_out_loss
    assert min(row["held_out_loss"] for row in results.curve) == best
    assert results.versions.keys() >= {"howm", "torch", "python"}
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", results.versions.get("commit", "0" * 40))


def test_a_line_of_metrics_that_a_kill_cut_short_is_left_out(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    with open(copy / "metrics.jsonl", "a") as file:
        file.write('{"step": 9, "held_out_lo')
    assert [row["step"] for row in evaluate_run(str(copy), steps=(1,)).curve] == [4, 8]


def test_results_are_written_also_where_nobody_listens(run, tmp_path):
    command = [sys.executable, "-m", "howm.cli", "eval", str(run), "--steps", "1", "--results", str(tmp_path)]
    reading, writing = os.pipe()
    os.close(reading)
    subprocess.run(command, stdout=writing, stderr=writing, timeout=300)
    os.close(writing)
    assert json.loads((tmp_path / "shapes-n6-k3" / "cswm-n-seed5.json").read_text())["status"] == "ok"


def test_pools_of_fresh_episodes_are_equal_in_size_where_few_scenes_were_trained_on(tmp_path):
    few = trained(tmp_path, make_dataset("shapes", 6, 3, train_scenes=5, amounts=AMOUNTS))
    chosen = fresh_episodes(load_checkpoint(few / "best.safetensors"), 2, 0)
    assert len(chosen.seen.scenes) == len(chosen.unseen.scenes) == 5
    assert matched(chosen.seen, chosen.unseen) == [(chosen.seen, chosen.unseen)]


def test_fresh_episodes_audit_the_stored_ones(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "run")
    assert main(["eval", str(copy), "--steps", "1", "3"]) == 0
    assert evaluate_run(copy, steps=(1, 3), fresh_seed=1, episodes=20).audit is None  # among other references
    honest = evaluate_run(copy, steps=(1, 3), fresh_seed=1)
    assert honest.audit is not None
    assert not honest.audit.remembers
    assert result_from_json(json.loads(json.dumps(honest.to_json())), "itself") == honest
    # A model that had learned the stored episodes by heart would have had this result on them.
    stored = json.loads((copy / "results.json").read_text())
    stored["scores"]["unseen"]["hard"]["3"] |= {"mrr": 99.0, "mrr_ci": [98.0, 99.5]}
    (copy / "results.json").write_text(json.dumps(stored))
    found = evaluate_run(copy, steps=(1, 3), fresh_seed=1).audit
    assert (found.pool, found.steps, found.stored, found.remembers) == ("hard", "3", 99.0, True)
    capsys.readouterr()
    assert main(["eval", str(copy), "--steps", "3", "--fresh-seed", "1"]) == 0
    assert "audit: MRR 99.0 on the stored episodes" in (said := capsys.readouterr().err)
    assert "it remembers its evaluation episodes" in said


def test_equivariance_is_told_in_words(run, capsys):
    assert main(["eval", str(run), "--steps", "1", "--fresh-seed", "1", "--episodes", "20", "--equivariance"]) == 0
    said = capsys.readouterr().err
    assert "equivariance error, 512 samples" in said
    assert "decoded" in said
    assert "{" not in said


def test_eval_prints_a_table_for_people(run):
    result = howm("eval", run, "--steps", 1, 3, "--fresh-seed", 2, "--json")
    printed, lines = json.loads(result.stdout), result.stderr.splitlines()
    assert lines[1].split() == ["after", "1", "step", "after", "3", "steps"]
    begins = [lines.index(next(line for line in lines if line.startswith(pool))) for pool in ("paper's", "hard")]
    for begin, pool in zip(begins, ("paper", "hard"), strict=True):
        for line, part in zip(lines[begin + 1 :], ("unseen", "training"), strict=False):
            cells = []
            for scores in printed["scores"][part][pool].values():
                low, high = scores["mrr_ci"]
                cells += [f"{scores['mrr']:.2f}", f"({low:.1f}-{high:.1f})", f"{scores['h1']:.1f}"]
            assert line.split()[2:] == cells
        gaps = [float(cell) for cell in lines[begin + 3].split()[1:]]
        assert gaps == pytest.approx(list(printed["gap"][pool].values()), abs=0.06)


def test_other_data_and_parts_of_the_data_leave_the_results_of_a_run_alone(run):
    before = contents(run)
    for options in (("--episodes", 10), ("--fresh-seed", 1)):
        assert howm("eval", run, "--steps", 1, *options).returncode == 0
        assert contents(run) == before


def test_fresh_episodes_are_of_unseen_scenes_and_leave_the_run_alone(run):
    before = contents(run)
    fresh = evaluate_run(str(run), steps=[1], fresh_seed=3)
    assert before == contents(run)
    assert fresh.data.fresh_seed == 3
    assert fresh == evaluate_run(str(run), steps=[1], fresh_seed=3)
    assert fresh.scores != evaluate_run(str(run), steps=[1], fresh_seed=4).scores
    checkpoint = load_checkpoint(run / "best.safetensors")
    train = set(checkpoint.record.data.train_scenes)
    chosen = fresh_episodes(checkpoint, 2, seed=0)
    assert len(chosen.unseen) == 90
    unseen = {tuple(ids) for ids in chosen.unseen.scene_ids.tolist()}
    assert len(unseen) == comb(6, 3) - len(train)  # few exist, so all of them
    assert not unseen & train
    assert {tuple(ids) for ids in chosen.seen.scene_ids.tolist()} <= train


def test_the_one_scene_of_n_equal_k_is_labelled(tmp_path):
    run = trained(tmp_path, make_dataset("rush_hour", 3, 3, amounts=AMOUNTS))
    for options in ({}, {"fresh_seed": 1}):
        assert evaluate_run(str(run), steps=[1], **options).unseen == "no unseen scene exists"


def test_other_data_must_fit_the_model_and_hold_no_training_scene(run, tmp_path):
    for name, dataset, words in (
        ("size", make_dataset("shapes", 7, 3, amounts=AMOUNTS), "was made for"),
        ("library", make_dataset("shapes", 6, 3, library_seed=1, amounts=AMOUNTS), "other objects"),
        ("split", make_dataset("shapes", 6, 3, seed=1, amounts=AMOUNTS), "training scenes of the run"),
    ):
        save_dataset(dataset, tmp_path / name)
        with pytest.raises(HowmError, match=words):
            evaluate_run(str(run), steps=[1], data=tmp_path / name)


def test_data_whose_certificate_is_violated_is_refused(run, tmp_path):
    data = load_dataset(run.parent / "data.h5")
    save_dataset(replace(data, eval=data.eval_seen), tmp_path / "broken.h5")
    with pytest.raises(HowmError, match=r"part eval are not in its set.*howm data check .*broken\.h5"):
        evaluate_run(str(run), steps=[1], data=tmp_path / "broken.h5")
    fewer = data.eval_seen.select(np.flatnonzero(data.eval_seen.scene_index < 4))  # an evaluation makes pools equal
    save_dataset(replace(data, eval_seen=fewer), tmp_path / "unequal.h5")
    assert evaluate_run(str(run), steps=[1], data=tmp_path / "unequal.h5").status == "ok"


def test_a_model_of_ones_own_is_evaluated_by_its_maker(tmp_path):
    from test_train import OwnModel

    data, path = make_dataset("shapes", 5, 3, amounts=AMOUNTS), tmp_path / "data.h5"
    save_dataset(data, path)
    config = TrainConfig(steps=2, batch=8, check_every=2, log_every=2)
    options = FitOptions(data_path=str(path), data_hash=file_hash(path))
    fit(OwnModel(), data, config, tmp_path / "run", options=options)
    result = howm("eval", tmp_path / "run", "--steps", 1)
    assert result.returncode == 2
    assert "of your own" in result.stderr
    assert "Traceback" not in result.stderr


def test_changed_or_lost_data_is_named(run, tmp_path):
    data = run.parent / "data.h5"
    good = data.read_bytes()
    save_dataset(make_dataset("shapes", 6, 3, seed=9, amounts=AMOUNTS), data)
    try:
        with pytest.raises(HowmError, match="is not the data that"):
            evaluate_run(str(run), steps=[1])
        data.unlink()
        with pytest.raises(HowmError, match="`fresh_seed=SEED`"):
            evaluate_run(str(run), steps=[1])
    finally:
        data.write_bytes(good)


def test_unequal_pools_are_matched_before_they_are_compared():
    data = make_dataset("shapes", 6, 3, amounts=AMOUNTS)
    few = data.eval_seen.select(np.arange(0, 90, 5))
    for seen, unseen in matched(few, data.eval):
        assert sorted(np.bincount(seen.scene_index)) == sorted(np.bincount(unseen.scene_index))
        assert len(seen) > 0
    ((seen, unseen),) = matched(data.eval_seen, data.eval)
    assert seen is data.eval_seen
    assert unseen is data.eval


def test_many_small_pools_are_compared_where_training_had_few_scenes(tmp_path):
    data = make_dataset("shapes", 6, 3, amounts=AMOUNTS, split="minimal")
    assert (len(data.eval_seen.scenes), len(data.eval.scenes)) == (2, 18)
    pairs = matched(data.eval_seen, data.eval)
    counts = {tuple(np.bincount(pool.scene_index)) for pair in pairs for pool in pair}
    assert counts == {(5, 5)}
    assert len(pairs) == 9
    shown = np.concatenate([unseen.states[:, 0].reshape(-1) for _, unseen in pairs])
    assert np.array_equal(np.sort(shown), np.sort(data.eval.states[:, 0].reshape(-1)))  # each episode once
    result = evaluate_run(trained(tmp_path, data), steps=[1])
    assert (result.scenes, result.training_scenes) == (18, 2)
    seen, unseen = (result.metrics(part, "hard", "1").mrr for part in ("training", "unseen"))
    assert result.gap["hard"]["1"] != seen - unseen  # which are of unequal pools


def test_bad_requests_are_refused_before_any_work(run, tmp_path):
    for arguments, word in (
        (["--steps", "0"], "0"),
        (["--fresh-seed", "-1"], "-1"),
        (["--fresh-seed", "1", "--results", str(tmp_path)], "--results"),
        (["--steps", "99"], "99 steps"),
        (["--results", str(run / "config.yaml")], "config.yaml is a file"),
    ):
        result = howm("eval", run, *arguments)
        assert result.returncode == 2
        assert word in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_equivariance_is_part_of_the_results_on_request(run):
    report = evaluate_run(str(run), steps=[1], fresh_seed=0, equivariance=True).equivariance
    assert report["transition"]["relative"] < 1e-4


def test_unseen_scenes_are_drawn_from_many_and_refused_when_none_is_left():
    rng = np.random.default_rng(0)
    train = SceneSet(30, 5, ((0, 1, 2, 3, 4),))
    drawn = draw_unseen(train, 50, rng)
    assert len(drawn) == len(set(drawn.scenes)) == 50
    assert not any(train.contains(scene) for scene in drawn.scenes)
    everything = SceneSet(3, 2, ((0, 1), (0, 2), (1, 2)))
    with pytest.raises(HowmError, match="all 3 scenes"):
        draw_unseen(everything, 1, rng)


def test_a_model_object_gets_its_results_written_and_reported(tmp_path):
    from test_train import OwnModel

    from howm.report.page import write_report

    data, path = make_dataset("shapes", 5, 3, amounts=AMOUNTS), tmp_path / "data.h5"
    save_dataset(data, path)
    model = OwnModel()
    result = evaluate_run(model, path, tmp_path / "results", steps=(1, 3))
    assert read_result(tmp_path / "results" / "shapes-n5-k3" / "OwnModel-seed0.json") == result
    assert (result.method, result.method_title, result.data.hash) == ("OwnModel", "OwnModel", file_hash(path))
    direct = evaluate(model, Rollouts(data.eval), (1, 3))
    assert result.scores["unseen"] == direct.model
    named = evaluate_run(model, data, tmp_path / "one.json", steps=(1,), method="mine", title="My model", seed=3)
    assert read_result(tmp_path / "one.json") == named
    assert (named.method, named.method_title, named.seed, named.data.hash) == ("mine", "My model", 3, None)
    write_report(tmp_path / "results", tmp_path / "report.html")
    assert "OwnModel" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(HowmError, match="give data"):
        evaluate_run(model)
    broken = replace(data, eval=data.eval_seen)
    with pytest.raises(HowmError, match="certificate of the data is violated"):
        evaluate_run(model, broken)


def test_results_of_other_data_are_replaced_only_by_force(tmp_path):
    from test_train import OwnModel

    model, out = OwnModel(), tmp_path / "results"
    one, other = (make_dataset("shapes", 5, 3, seed=seed, amounts=AMOUNTS) for seed in (0, 1))
    first = evaluate_run(model, one, out, steps=(1,))
    assert evaluate_run(model, one, out, steps=(1,)) == first
    with pytest.raises(HowmError, match=r"OwnModel-seed0\.json was computed on other data; .*`force=True`"):
        evaluate_run(model, other, out, steps=(1,))
    path = first.place(out)
    assert read_result(path) == first
    evaluate_run(model, other, out, steps=(1,), force=True)
    assert read_result(path).data != first.data


def test_imported_pictures_are_said_to_have_the_weaker_hard_pool(run, tmp_path):
    for part in ("train", "eval", "eval_seen"):
        howm("data", "export", run.parent / "data.h5", "--format", "cswm", "--part", part, "-o", tmp_path / part)
    files = [f"--{part.replace('_', '-')}={tmp_path / part}" for part in ("train", "eval", "eval_seen")]
    assert howm("data", "import", *files, "-n", 6, "-k", 3, "-o", tmp_path / "data.h5").returncode == 0
    settings = (
        "--set",
        "model.hidden=8",
        "train.steps=4",
        "train.batch=16",
        "train.check_every=4",
        "train.log_every=4",
    )
    howm("train", "--method", "cswm-k", "--data", tmp_path / "data.h5", "--out", tmp_path / "run", *settings)
    result = howm("eval", tmp_path / "run", "--steps", 1)
    assert result.returncode == 0, result.stderr
    assert "hard pool: earlier frames only" in result.stderr
    found = read_result(tmp_path / "run" / "results.json")
    assert (found.hard_pool, found.privileged) == ("earlier frames only", True)


def test_a_model_without_weights_can_be_evaluated():
    from test_evaluation import TrueModel

    data = make_dataset("shapes", 5, 2, amounts=AMOUNTS)
    model = TrueModel(data.world.renderer)
    del model.anchor
    assert evaluate(model, Rollouts(data.eval), (1,)).model["paper"]["1"].mrr == 100.0
