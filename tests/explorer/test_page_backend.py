"""The backend of an exported page answers as the server of `howm explore` does."""

import json

import numpy as np
import pytest
from parity import needs_node, run_node
from test_page_models import tiny

from howm import HowmError, SceneSet, export_page, make_world
from howm.cli.main import main
from howm.explorer.export.page import HERE, SCRIPTS, render_page
from howm.explorer.export.page_data import page_data
from howm.explorer.rollout import Rollout
from howm.explorer.stage import open_stage

STEPS = 4


@pytest.fixture(scope="module")
def stage():
    """A model that draws and matches slots, and one that does neither and is privileged."""
    world = make_world("shapes", n=5)
    model, other = tiny("monet-bm", world), tiny("cswm-k", world)
    model.training_scenes = SceneSet(5, 3, ((0, 1, 2), (1, 2, 4)))
    return open_stage(model, against=other, world=world)


@pytest.fixture(scope="module")
def data(stage):
    return json.loads(json.dumps(page_data(stage, [3])))


def rgb(picture: dict) -> np.ndarray:
    return np.array(picture["data"], dtype=int).reshape(picture["height"], picture["width"], 4)[..., :3]


@needs_node
def test_the_page_answers_as_the_server_does(stage, data, tmp_path):
    world, rng = stage.world, np.random.default_rng(2)
    scene, start = stage.draw("unseen", 3, rng)
    rollout = Rollout(world, stage.sights(3), scene, start)
    for action in rollout.suggest(STEPS, 0.9, rng):
        rollout.step(action)
    given = {"scene": list(scene), "start": start.tolist(), "actions": rollout.actions}
    sources = ("../backend.js", *SCRIPTS)
    found = run_node("run_backend.js", {"data": data, "rollout": given}, tmp_path, sources)

    assert found["scene"]["text"] == stage.scene_text(scene)
    assert found["scene"]["kind"] == stage.kind_of(scene)
    assert found["scene"]["moves"] == {str(item): moves for item, moves in stage.moves(scene).items()}
    assert len(found["frames"]) == STEPS + 1
    for time, frame in enumerate(found["frames"]):
        expected = rollout.frame(time)
        assert frame["action"] == expected["action"]
        assert frame["changed"] == expected["changed"]
        assert frame["places"] == json.loads(json.dumps(expected["places"]))
        assert np.array_equal(rgb(frame["truth"]), expected["truth"])
        for ours, theirs in zip(frame["models"], expected["models"], strict=True):
            assert ours["nearest"] == theirs["nearest"]
            assert ours["distance"] == pytest.approx(theirs["distance"], rel=1e-3, abs=1e-4)
        drawn, expected_drawn = rgb(frame["models"][0]["imagined"]), expected["models"][0]["imagined"].astype(int)
        assert np.abs(drawn - expected_drawn).max() <= 1
    assert found["again"] == found["frames"][2]

    for ours, theirs in zip(found["inspected"]["models"], rollout.inspect(STEPS)["models"], strict=True):
        assert (ours["binding"] is None) == (theirs["binding"] is None)
        if theirs["binding"] is not None:
            assert np.allclose(ours["binding"], theirs["binding"], atol=1e-5)
        assert ours["embedding"]["rows"] == theirs["embedding"]["rows"]
        for which in ("imagined", "truth"):
            assert np.allclose(ours["embedding"][which], theirs["embedding"][which], rtol=1e-3, atol=1e-4)
        for slot, expected in zip(ours["slots"], theirs["slots"], strict=True):
            assert np.array_equal(rgb(slot), expected[..., :3])
            assert np.abs(np.array(slot["data"])[3::4] - expected[..., 3].reshape(-1).astype(int)).max() <= 1


@needs_node
def test_the_page_does_all_that_its_interface_says(stage, data, tmp_path):
    scene = [0, 1, 3]
    given = {"scene": scene, "start": [[0], [7], [12]], "actions": [2, 2, 5, 15]}
    found = run_node("run_backend.js", {"data": data, "rollout": given}, tmp_path, ("../backend.js", *SCRIPTS))
    for ranked in found["ranked"]["models"]:
        assert 1 <= ranked["rank"] <= ranked["of"] <= 1 + STEPS + 20 + 200
        distances = [one["distance"] for one in ranked["nearest"]]
        assert distances == sorted(distances)
    assert len(found["suggested"]) == 7
    assert {action // 4 for action in found["suggested"]} <= set(scene)
    assert found["goal"]["changed"]
    assert isinstance(found["plan"]["reached"], bool)
    assert [done for done, *_ in found["told"]] == [1, 2, 3]
    errors = [one["error"] for one in found["worst"]]
    assert errors == sorted(errors, reverse=True)
    assert found["replayed"] == found["worst"][0]["steps"] + 1
    assert found["stopped"] == []
    assert "no scene of 99 objects" in found["refused"]
    assert found["drawn"]["objects"] == sorted(set(found["drawn"]["objects"]))


def test_the_page_runs_its_own_scripts_only(data):
    hostile = {**data, "about": {**data["about"], "title": "</script><script>alert(1)</script>"}}
    page = render_page(hostile)
    assert "alert(1)</script>" not in page
    assert "default-src 'none'" in page
    assert "unsafe" not in page.partition("</head>")[0].partition("Content-Security-Policy")[2].partition(">")[0]
    assert page.count("<script") == page.count("</script>")
    assert "src=" not in page.replace("img-src", "").replace("default-src", "").partition("<main>")[0]


@pytest.mark.parametrize(
    ("run", "name", "sizes", "words"),
    [
        ("howm-rush_hour-n20", "page.txt", None, "ends in .html"),
        ("howm-rush_hour-n20", "page.html", [40], "scenes of 40 objects cannot be played"),
        ("nowhere", "page.html", None, "nowhere does not exist"),
    ],
)
def test_what_cannot_be_exported_is_said_and_nothing_is_written(run, name, sizes, words, tmp_path):
    with pytest.raises(HowmError, match=words):
        export_page(run, tmp_path / name, sizes=sizes)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_not_replaced(tmp_path):
    diary = tmp_path / "diary.html"
    diary.write_text("<title>Diary</title>", encoding="utf-8")
    with pytest.raises(HowmError, match="is not a page of the explorer"):
        export_page("howm-shapes-n10", diary)
    assert diary.read_text(encoding="utf-8") == "<title>Diary</title>"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sizes", "5"], "--sizes 5 is for an exported page"),
        (["--export", "page.html", "--data", "some.h5"], "leave out --data"),
        (["--export", "page.html", "--sizes", "many"], "must be an integer of 1 or more"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "howm-shapes-n10", "--no-browser", *options]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_scripts_are_short_enough_to_read():
    assert all(len((HERE / name).read_text(encoding="utf-8").splitlines()) <= 350 for name in SCRIPTS)
