"""Models side by side: the same queries, paired intervals, and one line where they cannot be compared."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_bootstrap import plain_paired_interval

import howm
from howm.cli.main import main
from howm.errors import HowmError
from howm.evaluation.comparison import _STREAM, paired_difference
from howm.report.comparison_page import sentences, write_comparison
from howm.runs.ranks import ranks_path, read_ranks

AMOUNTS = howm.Amounts(train_episodes=60, train_steps=10, eval_episodes=80, eval_steps=5)
TINY = {"steps": 20, "batch": 16, "check_every": 10, "log_every": 10}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two short runs on one dataset, and their results with ranks."""
    folder = tmp_path_factory.mktemp("study")
    howm.save_dataset(howm.make_dataset("shapes", 6, 3, amounts=AMOUNTS), folder / "data.h5")
    for seed in (0, 1):
        values = ["train", "--method", "cswm-n", "--data", folder / "data.h5", "--out", folder / f"run{seed}"]
        keys = [f"train.{name}={value}" for name, value in TINY.items()]
        assert main([*map(str, values), "--seed", str(seed), "--set", "model.hidden=8", *keys]) == 0
        out = ["--results", str(folder / "results"), "--ranks", "--steps", "1", "5"]
        assert main(["eval", str(folder / f"run{seed}"), *out]) == 0
    return folder


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_the_interval_is_that_of_the_plain_bootstrap(seed, scenes):
    rng = np.random.default_rng(seed)
    ranks, base = rng.integers(1, 12, size=(2, 30)) / 2 + 0.5
    index = np.arange(30) % scenes
    found = paired_difference(ranks, base, index, stream=7, resamples=40)
    expected = plain_paired_interval(ranks, base, index, np.random.default_rng([7, _STREAM]), resamples=40)
    assert (found.mrr, *found.mrr_ci) == pytest.approx(expected)
    assert (found.better, found.worse) == (100 * np.mean(ranks < base), 100 * np.mean(ranks > base))


def test_what_is_hard_for_both_cancels():
    """Scenes differ a lot, the models little: the paired interval is narrow, and leaves out zero."""
    scene = np.repeat(np.arange(20), 5)
    base = 1.0 + scene
    found = paired_difference(base + 0.5, base, scene)
    assert found.mrr_ci[1] < 0
    assert found.is_clear
    assert not paired_difference(base, base, scene).is_clear


def test_runs_and_their_results_compare_alike(study):
    runs = howm.compare([study / "run0", study / "run1"], steps=(1, 5))
    results = howm.compare(sorted((study / "results").rglob("*.json")))
    assert runs.entries[0].name == "run0"
    assert results.names == ("cswm-n-seed0.json", "cswm-n-seed1.json")
    for one, other in zip(runs.entries, results.entries, strict=True):
        assert (one.metrics, one.difference, one.pool, one.steps) == (
            *(other.metrics, other.difference, other.pool, other.steps),
        )
    assert [entry.pool for entry in runs.entries] == ["hard"] * 4 + ["paper"] * 4
    assert runs.data == "the evaluation episodes of data.h5"
    first, second = (howm.evaluate_run(study / f"run{seed}", steps=(5,)) for seed in (0, 1))
    change = runs.of("hard", "run1")[1].difference
    expected = second.scores["unseen"]["hard"]["5"].mrr - first.scores["unseen"]["hard"]["5"].mrr
    assert change.mrr == pytest.approx(expected)


def test_a_model_does_not_differ_from_itself(study):
    found = howm.compare({"one": study / "run0", "same": study / "run0"}, fresh_seed=3, episodes=40, steps=(5,))
    (change,) = [entry.difference for entry in found.of("hard", "same")]
    assert (change.mrr, change.mrr_ci, change.better, change.worse) == (0, (0, 0), 0, 0)
    assert found.references == 40
    assert found.data == "fresh episodes of seed 3, in scenes that none was trained on"


def test_fresh_scenes_are_unseen_by_all(tmp_path):
    """Two runs of one world with other training scenes: those of either are left out."""
    from howm.evaluation.episodes import fresh_episodes
    from howm.runs.checkpoint import load_checkpoint

    checkpoints = []
    for seed in (0, 1):
        data = howm.make_dataset("shapes", 6, 3, seed, amounts=AMOUNTS, train_scenes=8)
        config = howm.configure("cswm-n", "cpu", {"train": TINY, "model": {"hidden": 8}})
        howm.train_run(config, data, tmp_path / str(seed))
        checkpoints.append(load_checkpoint(tmp_path / str(seed) / "last.safetensors"))
    trained = [{*checkpoint.record.data.train_scenes} for checkpoint in checkpoints]
    assert trained[0] != trained[1]
    fresh = fresh_episodes(checkpoints[0], 5, 0, 40, checkpoints[1:])
    assert not fresh.unseen.scenes & (trained[0] | trained[1])
    assert fresh_episodes(checkpoints[0], 5, 0, 40).unseen.scenes & trained[1]
    found = howm.compare([tmp_path / "0", tmp_path / "1"], steps=(1,), episodes=40)
    assert found.data.startswith("fresh episodes of seed 0")


def test_model_objects_and_runs_are_compared_on_a_file(study):
    found = howm.compare({"run": study / "run0", "mine": howm.load(study / "run1")}, study / "data.h5", steps=(1,))
    again = howm.compare([study / "run0", study / "run1"], steps=(1,))
    assert [entry.metrics for entry in found.entries] == [entry.metrics for entry in again.entries]


def test_the_command_prints_a_table_json_and_a_page(study, tmp_path, capsys):
    page = tmp_path / "page.html"
    runs = [str(study / f"run{seed}") for seed in (0, 1)]
    assert main(["compare", *runs, "--steps", "1", "5", "--json", "-o", str(page)]) == 0
    said = capsys.readouterr()
    path, plain = said.out.splitlines()
    assert path == str(page)
    assert json.loads(plain)["names"] == ["run0", "run1"]
    assert "80 queries of 10 scenes: the evaluation episodes of data.h5" in said.err
    assert said.err.index("hard pool, 1 step ahead") < said.err.index("paper's pool, 1 step ahead")
    text = page.read_text(encoding="utf-8")
    HTMLParser().feed(text)
    assert "<script" not in text
    assert text.count("<svg") == 2
    assert "run1 compared with run0" in text
    again = write_comparison(howm.compare(runs, steps=(1, 5)), tmp_path / "again.html")
    assert again.read_bytes() == page.read_bytes()


def test_sentences_say_who_is_better_only_where_it_is_clear(study):
    found = howm.compare({"a": study / "run0", "b": study / "run0"}, steps=(1,), episodes=20)
    assert sentences(found)[1].startswith(
        "b does not clearly differ from a after 1 step in the hard pool: +0.00 points"
    )


def test_what_cannot_be_compared_is_one_line(study, tmp_path, capsys):
    results = sorted((study / "results").rglob("*.json"))
    lone = tmp_path / "result.json"
    lone.write_text(results[0].read_text())
    howm.evaluate_run(study / "run0", out=tmp_path / "other.json", steps=(1,), episodes=30, ranks=True)
    for models, words in (
        ([results[0], lone], "has no ranks of its queries; compare the runs, or make it with howm eval --ranks"),
        ([results[0], study / "run0"], "compare runs with runs, results with results"),
        ([results[0], tmp_path / "other.json"], "were evaluated with different queries; evaluate both again"),
        ([study / "run0", study / "run0"], "is given twice"),
        ([study / "run0", "howm-shapes-n10"], "were trained in different worlds"),
        ([study / "run0", "nowhere"], "nowhere does not exist"),
    ):
        assert main(["compare", *map(str, models)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
    assert main(["compare", *map(str, results), "--episodes", "5"]) == 2
    assert "leave out --data, --fresh-seed and --episodes" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}', '{"version": 2}'])
def test_a_broken_file_of_ranks_is_one_error(text, study, tmp_path):
    path = tmp_path / "x.ranks"
    path.write_text(text)
    with pytest.raises(HowmError, match=r"x\.ranks .*howm eval RUN --ranks"):
        read_ranks(path)
    good = json.loads(ranks_path(next((study / "results").rglob("*.json"))).read_text())
    good["ranks"]["hard"]["1"][0] = 0
    path.write_text(json.dumps(good))
    with pytest.raises(HowmError, match="one for each query, 1 or more"):
        read_ranks(path)


def test_a_report_does_not_take_ranks_for_results(study):
    assert main(["report", str(study / "results"), "-o", str(study / "report.html")]) == 0
