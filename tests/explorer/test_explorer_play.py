"""What the explorer answers is what world and model say, for every kind of model and world."""

import json

import numpy as np
import pytest
import torch
from drift_world import Drift
from explorer_client import Client, describe, picture, request, serving
from own_models import flat

import howm
from howm import HowmError
from howm.data.privileged import Privileged
from howm.explorer.hard_rank import ELSEWHERE
from howm.explorer.stage import open_stage
from howm.models.registry import build_model
from howm.runs.config import configure

SHAPES = "howm-shapes-n10"


@pytest.fixture(scope="module")
def stage():
    return open_stage(SHAPES)


@pytest.fixture(scope="module")
def server(stage):
    with serving(stage) as running:
        yield running


def untrained(method, world, k=5):
    return build_model(method, world.spec(k), configure(method, "cpu").model, seed=0).eval()


def drawn(model, first, actions):
    """The pictures of the model's own imagination, as bytes."""
    pictures = howm.imagine(model, first, actions).pictures[0]
    return (pictures.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def test_ten_moves_are_what_the_model_draws_and_the_world_renders(stage, server):
    client, world = Client(server), stage.world
    said = client.new()
    scene = np.array([said["scene"]["objects"]])
    first = picture(said["frames"][0]["truth"])
    actions = client.ask("suggest", count=10)["actions"]
    frames = [said["frames"][0], *(client.ask("step", action=action) for action in actions)]
    expected = drawn(howm.load(SHAPES), first, actions)
    for frame, imagined in zip(frames, expected, strict=True):
        np.testing.assert_array_equal(picture(frame["models"][0]["imagined"]), imagined)
    places = [[(place["y"] - 5) // 10 * 5 + (place["x"] - 5) // 10 for place in frame["places"]] for frame in frames]
    states = np.array(places, dtype=np.int64)[..., None]
    for t, frame in enumerate(frames):
        np.testing.assert_array_equal(picture(frame["truth"]), world.render(scene, states[t : t + 1])[0])
        if t:
            np.testing.assert_array_equal(
                states[t], world.step(scene, states[t - 1 : t], np.array([actions[t - 1]]))[0]
            )
        assert frame["changed"] == (t > 0 and bool((states[t] != states[t - 1]).any()))


def test_undo_and_another_way_is_as_if_never_gone(server):
    client, other = Client(server), Client(server)
    objects = client.new()["scene"]["objects"]
    other.new()
    one, two = 4 * objects[0], 4 * objects[1] + 1
    for action in (one, one + 2, two):
        client.ask("step", action=action)
    assert client.ask("rewind", time=1) == {"time": 1}
    other.ask("step", action=one)
    assert client.ask("step", action=two) == other.ask("step", action=two)
    assert client.ask("inspect", time=2) == other.ask("inspect", time=2)


def test_slots_binding_and_embeddings_are_the_model_s(server):
    client, model = Client(server), howm.load(SHAPES)
    said = client.new()
    objects = said["scene"]["objects"]
    frame = client.ask("step", action=4 * objects[2] + 1)
    shown = client.ask("inspect", time=1)["models"][0]
    pictures = torch.tensor(picture(frame["truth"]).copy())[None]
    with torch.no_grad():
        masks, state = model.masks(pictures)[0], model.encode(pictures)
        predicted = model.step(
            model.encode(picture(said["frames"][0]["truth"])[None].copy()), torch.tensor([4 * objects[2] + 1])
        )
        lifted = {"imagined": model.lifted(predicted)[0], "truth": model.lifted(state)[0]}
    assert len(shown["slots"]) == 6
    for slot, mask in zip(shown["slots"], masks, strict=True):
        np.testing.assert_array_equal(picture(slot)[..., 3], (mask.clamp(0, 1) * 255).round().numpy())
        np.testing.assert_array_equal(picture(slot)[..., :3], pictures[0].numpy())
    np.testing.assert_allclose(shown["binding"], model.binding(state)[0], atol=1e-5)
    assert shown["embedding"]["rows"] == "objects"
    for name, expected in lifted.items():
        np.testing.assert_allclose(shown["embedding"][name], expected, atol=1e-4)
    distance = (lifted["imagined"] - lifted["truth"]).double().norm()
    assert frame["models"][0]["distance"] == pytest.approx(float(distance), rel=1e-3)


@pytest.mark.parametrize("method", ["howm", "cswm-k"])
def test_the_rank_is_that_of_counting_one_reference_after_the_other(method, stage):
    """A plain twin: every reference is encoded by itself, and those of equal states count once."""
    world = stage.world
    model = howm.load(SHAPES) if method == "howm" else untrained(method, world)
    with serving(open_stage(model, world=world)) as server:
        client = Client(server)
        said = client.new()
        scene, actions = said["scene"]["objects"], client.ask("suggest", count=4)["actions"]
        frames = [said["frames"][0], *(client.ask("step", action=action) for action in actions)]
        found = client.ask("rank", time=4)["models"][0]

    def embedded(pixels, ids):
        return model.embed(model.encode(pixels[None].copy(), Privileged(torch.tensor(ids)[None])))[0].double()

    with torch.no_grad():
        state = model.encode(picture(frames[0]["truth"])[None].copy(), Privileged(torch.tensor(scene)[None]))
        for action in actions:
            state = model.step(state, torch.tensor([action]))
        prediction = model.embed(state)[0].double()
        rng = np.random.default_rng([5, 4, *actions])
        cells = np.array([[[int(p["y"] // 10 * 5 + p["x"] // 10)] for p in frames[0]["places"]]])
        plays = world.near_misses(np.array([scene]), cells, 4, 20, 0.9, rng)[0]
        others = np.random.default_rng([5, 11])
        scenes = np.stack([np.sort(others.choice(10, 5, replace=False)) for _ in range(ELSEWHERE)])
        rivals = [(picture(frame["truth"]), scene) for frame in frames[:4]]
        rivals += [(world.render(np.array([scene]), play[None])[0], scene) for play in plays]
        rivals += zip(world.render(scenes, world.reset(scenes, others)), scenes.tolist(), strict=True)
        truth = picture(frames[4]["truth"])
        kept = {pixels.tobytes(): (pixels, ids) for pixels, ids in rivals if pixels.tobytes() != truth.tobytes()}
        own = float((prediction - embedded(truth, scene)).norm())
        distances = sorted(float((prediction - embedded(*rival)).norm()) for rival in kept.values())
    assert found["of"] == 1 + len(kept)
    assert found["distance"] == pytest.approx(own, rel=1e-3)
    assert found["rank"] == 1 + sum(distance < own for distance in distances)
    assert [one["distance"] for one in found["nearest"]] == pytest.approx(distances[:4], rel=1e-3)


def test_scenes_are_of_the_kind_and_size_that_was_asked_for(stage, server):
    client, known = Client(server), howm.load(SHAPES).training_scenes
    for size in (1, 4, 5, 9):
        assert len(client.new(kind="unseen", size=size)["scene"]["objects"]) == size
    for _ in range(5):
        assert not known.contains(client.new(kind="unseen")["scene"]["objects"])
        said = client.new(kind="training")["scene"]
        assert known.contains(said["objects"])
        assert said["kind"] == "training"
    assert client.new(objects=[7, 2, 0])["scene"]["objects"] == [0, 2, 7]
    told = describe(server)
    assert told["sizes"] == list(range(1, 11))
    assert told["kinds"]["5"] == ["unseen", "training"]
    assert told["kinds"]["4"] == ["unseen"]


def test_scenes_and_starts_of_a_dataset(tmp_path):
    amounts = howm.Amounts(train_episodes=100, train_steps=2, eval_episodes=40, eval_steps=2)
    shapes = open_stage(SHAPES).world
    data = howm.make_dataset(shapes, k=5, amounts=amounts)
    howm.save_dataset(data, tmp_path / "data.h5")
    stage = open_stage(SHAPES, data=tmp_path / "data.h5")
    starts = {
        shapes.render(*some).tobytes()
        for some in zip(data.eval.scene_ids[:, None], data.eval.states[:, :1], strict=True)
    }
    with serving(stage) as server:
        client = Client(server)
        for _ in range(4):
            assert picture(client.new()["frames"][0]["truth"]).tobytes() in starts


def test_cars_go_where_their_actions_take_them_on_the_screen():
    stage = open_stage("howm-rush_hour-n20")
    moves = stage.moves(tuple(range(20)))
    ways = {tuple(map(tuple, each)) for each in moves.values()}
    assert {tuple(sorted(way)) for way in ways} == {((-10.0, 0.0), (0.0, -10.0), (0.0, 10.0), (10.0, 0.0))}
    assert len(ways) == 4  # one for each heading
    heading = stage.world.library.headings
    ahead = {0: [0.0, -10.0], 1: [10.0, 0.0], 2: [0.0, 10.0], 3: [-10.0, 0.0]}
    assert all(moves[item][0] == ahead[int(heading[item])] for item in range(20))


def test_a_world_and_a_model_of_one_s_own_that_can_show_nothing():
    world = Drift(n=6)
    with serving(open_stage(flat(world, 3), world=world)) as server:
        told, client = describe(server), Client(server)
        assert told["world"]["actionsPerObject"] == 3
        assert told["world"]["actionNames"] == ["0", "1", "2"]
        assert told["sizes"] == [3]
        assert told["models"][0]["can"] == {"draw": False, "masks": False, "binding": False}
        assert [note for note in told["models"][0]["notes"] if "cannot draw" in note]
        said = client.new()
        moves = np.array(list(said["scene"]["moves"].values()))
        np.testing.assert_allclose(moves, np.broadcast_to([[3.25, 0], [0, 2.75], [-2.5, -2]], (3, 3, 2)), atol=0.8)
        frame = client.ask("step", action=3 * said["scene"]["objects"][1])
        assert frame["models"][0]["nearest"]
        assert picture(frame["models"][0]["imagined"]).shape == (30, 30, 3)
        shown = client.ask("inspect", time=1)["models"][0]
        assert (shown["slots"], shown["binding"], shown["embedding"]["rows"]) == (None, None, "slots")
        assert client.ask("rank", time=1)["models"][0]["of"] > ELSEWHERE / 2


@pytest.mark.parametrize("name", [name for name in howm.WORLDS if name not in ("shapes", "rush_hour")])
def test_every_world_can_be_played(name):
    world = howm.make_world(name, n=8)
    sizes = world.default_k if isinstance(world.default_k, range) else range(3, 4)
    model = build_model("howm", world.spec(sizes[-1]), configure("howm", "cpu", spec=world.spec(sizes[-1])).model, 0)
    with serving(open_stage(model, world=world)) as server:
        client = Client(server)
        said = client.new()
        moved = []
        for item in said["scene"]["objects"]:
            for shift, action in zip(said["scene"]["moves"][str(item)], range(4 * item, 4 * item + 4), strict=True):
                before = {
                    place["object"]: place for place in client.ask("rewind", time=0) and said["frames"][0]["places"]
                }
                frame = client.ask("step", action=action)
                after = {place["object"]: place for place in frame["places"]}[item]
                if shift is not None and None not in (after["x"], before[item]["x"]) and after != before[item]:
                    way = np.array([after["x"] - before[item]["x"], after["y"] - before[item]["y"]])
                    moved.append(float(way @ shift) / np.linalg.norm(way) / np.linalg.norm(shift))
        assert np.mean(moved) > 0.8  # where an action said that it goes, or as far as others let it
        assert client.ask("inspect", time=1)["models"][0]["binding"] is not None
        assert client.ask("rank", time=1)["models"][0]["rank"] >= 1


def test_a_world_of_many_actions_shows_the_nearest_picture_to_what_is_imagined():
    """A model that encodes pictures as they are and knows that nothing moves: its picture is always the first."""

    class Still(type(flat(Drift(n=4), 2))):
        def encode(self, pictures, privileged=None):
            return howm.SlotState(pictures.flatten(1).float()[:, None])

        def step(self, state, action):
            return state

    world = Drift(n=4)
    with serving(open_stage(Still(world.spec(2)), world=world)) as server:
        client = Client(server)
        first = client.new()["frames"][0]
        for action in client.ask("suggest", count=5)["actions"]:
            frame = client.ask("step", action=action)
            np.testing.assert_array_equal(picture(frame["models"][0]["imagined"]), picture(first["truth"]))


def test_a_second_model_sees_the_same_scene(stage):
    other = untrained("cswm-k", stage.world)
    with serving(open_stage(SHAPES, other)) as server:
        told, client = describe(server), Client(server)
        assert [model["name"] for model in told["models"]] == [SHAPES, "CSWMK"]
        assert told["sizes"] == [5]
        assert any("privileged" in note for note in told["models"][1]["notes"])
        objects = client.new()["scene"]["objects"]
        frame = client.ask("step", action=4 * objects[0])
        assert [model["nearest"] for model in frame["models"]] == [False, True]
        shown = client.ask("inspect", time=1)["models"]
        assert [len(one["slots"]) for one in shown] == [6, 5]
        assert len(client.ask("rank", time=1)["models"]) == 2


def test_models_of_different_worlds_are_refused():
    with pytest.raises(HowmError, match="different worlds"):
        open_stage(SHAPES, "howm-rush_hour-n20")
    with pytest.raises(HowmError, match="give world="):
        open_stage(flat(Drift(n=6), 3))


def test_a_search_finds_the_worst_and_they_can_be_opened(stage):
    broken = howm.load(SHAPES)
    with torch.no_grad():
        for parameter in broken.transition.parameters():
            parameter.mul_(0.8)
    with serving(open_stage(broken, world=stage.world)) as server:
        client = Client(server)
        client.new()
        body = json.dumps({"session": client.session, "kind": "unseen", "size": 5})
        status, _, said = request(server, "POST", "/api/search", body, {"Content-Type": "application/json"})
        lines = [json.loads(line) for line in said.splitlines()]
        assert status == 200
        assert [line["done"] for line in lines[:-1]] == sorted({line["done"] for line in lines[:-1]})
        assert lines[-2]["done"] == lines[-2]["total"] == describe(server)["search"]["rollouts"]
        found = lines[-1]["found"]
        errors = [one["error"] for one in found]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] == pytest.approx(lines[-2]["worst"], rel=1e-3)
        for one in found[:2]:
            opened = client.new(found=one["key"])
            last = opened["frames"][-1]
            assert opened["scene"]["objects"] == one["objects"]
            assert len(opened["frames"]) == one["steps"] + 1
            truth, imagined = picture(last["truth"]), picture(last["models"][0]["imagined"])
            np.testing.assert_array_equal(truth, picture(one["truth"]))
            error = np.square((truth / 255.0) - (imagined / 255.0)).mean()
            assert error == pytest.approx(one["error"], rel=0.05)


def test_a_goal_is_arranged_planned_for_and_reached(server):
    client = Client(server)
    objects = client.new()["scene"]["objects"]
    truth = picture(client.ask("step", action=4 * objects[0] + 1)["truth"])
    goal = client.ask("goal/start")
    np.testing.assert_array_equal(picture(goal["picture"]), truth)
    assert client.ask("goal/plan")["actions"] == []
    moved = client.ask("goal/step", action=4 * objects[1])
    assert moved["changed"] == bool((picture(moved["picture"]) != truth).any())
    for _ in range(3):
        goal = picture(client.ask("goal/shuffle")["picture"])
        assert (goal != truth).any()
        found = client.ask("goal/plan")
        assert found["reached"]
        for action in found["actions"]:
            truth = picture(client.ask("step", action=action)["truth"])
        np.testing.assert_array_equal(truth, goal)
