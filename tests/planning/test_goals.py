"""Goal sets: what they promise of every goal, and what is kept in a file."""

import h5py
import numpy as np
import pytest

import howm
from howm import HowmError, make_goals, make_world, seeded_split, shortest_plans
from howm.planning.goal_set import BUCKETS
from howm.planning.goals import load_goals, save_goals
from howm.worlds.scenes import SceneSet

SPLIT = seeded_split(8, 4, 0)


def some_goals(name="shapes", **options):
    options = {"per_bucket": 8, "seed": 3, "buckets": ["1-5", "6-10", "11-20"]} | options
    return make_goals(make_world(name, 8), SPLIT, **options)


@pytest.mark.parametrize("name", ["shapes", "rush_hour", "free", "layers", "classes"])
def test_every_goal_keeps_its_promises(name):
    goals = some_goals(name, per_bucket=4, buckets=["1-5", "6-10"], max_nodes=20_000)
    assert len(goals) == 8
    assert [len(goals.bucket(bucket)) for bucket in BUCKETS] == [4, 4, 0, 0]
    assert goals.exact.all()
    unseen = set(SPLIT.eval.scenes)
    assert {tuple(scene) for scene in goals.scenes.tolist()} <= unseen
    plans = shortest_plans(goals.world, goals.scenes, goals.start, goals.goal)
    assert plans.steps.tolist() == goals.optimal.tolist()
    state = goals.start
    for t in range(plans.actions.shape[1]):
        assert not (goals.reached(state) & (t < goals.optimal)).any()
        action = plans.actions[:, t]
        state = np.where(
            (action >= 0)[:, None, None], goals.world.step(goals.scenes, state, np.maximum(action, 0)), state
        )
    assert goals.reached(state).all()
    assert not goals.reached(goals.start).any()
    assert goals.start_pictures().shape == goals.goal_pictures().shape == (8, 50, 50, 3)
    least = goals.world.steps_between(goals.scenes, goals.start, goals.goal)
    if least is not None:
        assert (goals.detour == (goals.optimal > least)).all()


def test_detours_have_their_share():
    goals = some_goals(per_bucket=20, detours=0.25)
    for bucket in ("1-5", "6-10", "11-20"):
        assert goals.bucket(bucket).detour.sum() == 5
    assert not some_goals(detours=0.0, buckets=["6-10"]).detour.any()


def test_a_swap_in_a_corner_is_a_detour():
    world = make_world("shapes", 4, grid=(2, 3))
    scene, start, goal = np.array([[0, 1]]), np.array([[[0], [1]]]), np.array([[[1], [0]]])
    assert shortest_plans(world, scene, start, goal).steps[0] == 4 > world.steps_between(scene, start, goal)[0] == 2


def test_the_same_seed_gives_the_same_goals_and_parts_differ():
    one, same, other = some_goals(), some_goals(), some_goals(seed=4)
    np.testing.assert_array_equal(one.goal, same.goal)
    assert not np.array_equal(one.goal, other.goal)
    training = some_goals(part="training")
    assert {tuple(scene) for scene in training.scenes.tolist()} <= set(SPLIT.train.scenes)


def test_scenes_of_several_sizes():
    scenes = SceneSet(8, 4, ((0, 1), (2, 3, 4), (4, 5, 6, 7)), 2)
    goals = make_goals(make_world("shapes", 8), scenes, per_bucket=6, buckets=["1-5"])
    assert {int((row >= 0).sum()) for row in goals.scenes} == {2, 3, 4}
    assert goals.goal_pictures().shape == (6, 50, 50, 3)
    assert goals.reached(goals.goal).all()


def test_buckets_and_subsets():
    goals = some_goals()
    assert goals.bucket_of() == ["1-5"] * 8 + ["6-10"] * 8 + ["11-20"] * 8
    assert goals.subset(np.array([2, 5])).optimal.tolist() == goals.optimal[[2, 5]].tolist()
    assert len(goals.subset(goals.detour)) == goals.detour.sum()
    summary = goals.summary()
    assert summary["world"] == "shapes"
    assert summary["buckets"]["6-10"]["goals"] == 8
    with pytest.raises(HowmError, match="unknown bucket '5-6'"):
        goals.bucket("5-6")
    with pytest.raises(HowmError, match="one for each goal"):
        goals.reached(goals.goal[:3])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"per_bucket": 0}, "per_bucket"),
        ({"buckets": ["1-6"]}, "unknown bucket '1-6'"),
        ({"detours": 1.5}, "detours"),
        ({"part": "seen"}, "part must be"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_demands_are_one_line(options, words):
    with pytest.raises(HowmError, match=words):
        some_goals(**options)


def test_a_bucket_that_cannot_be_filled_is_named():
    world = make_world("shapes", 4, grid=(2, 2))
    scenes = SceneSet(4, 1, ((0,), (1,)))
    with pytest.raises(HowmError, match=r"only 0 of 5 goals of 6-10 optimal steps"):
        make_goals(world, scenes, per_bucket=5, buckets=["1-5", "6-10"])
    fewer = make_goals(world, scenes, per_bucket=5, buckets=["1-5", "6-10"], strict=False)
    assert len(fewer) == 5
    with pytest.raises(HowmError, match="of 50 goals of 1-5 optimal steps"):  # as many as that do not exist
        make_goals(world, scenes, per_bucket=50, buckets=["1-5"])


def test_scenes_must_be_there_and_of_the_world():
    with pytest.raises(HowmError, match="scenes of 8 objects do not belong to a world of 9"):
        make_goals(make_world("shapes", 9), SPLIT)
    with pytest.raises(HowmError, match="no scenes"):
        make_goals(make_world("shapes", 8), SceneSet(8, 4, ()))
    with pytest.raises(HowmError, match="none is unseen"):
        make_goals(make_world("shapes", 4), seeded_split(4, 4, 0))


@pytest.mark.parametrize("name", ["rush_hour", "free", "classes"])
def test_a_file_keeps_all(name, tmp_path):
    goals = some_goals(name, per_bucket=3, buckets=["1-5"])
    for path in (tmp_path / "a.h5", tmp_path / "b.h5"):
        save_goals(goals, path)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    read = howm.load_goals(tmp_path / "a.h5")
    for field in ("scenes", "start", "goal", "optimal", "exact", "detour"):
        ours, theirs = getattr(goals, field), getattr(read, field)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert (read.world, read.part, read.seed, read.world_name) == (goals.world, "unseen", 3, name)


def test_bad_files_are_one_line(tmp_path):
    path = tmp_path / "goals.h5"
    with pytest.raises(HowmError, match="does not exist"):
        load_goals(path)
    path.write_bytes(b"no goals")
    with pytest.raises(HowmError, match="damaged or not an HDF5 file"):
        load_goals(path)
    howm.save_dataset(howm.make_dataset("shapes", 4, 2, amounts=howm.Amounts(6, 2, 4, 2)), path)
    with pytest.raises(HowmError, match="is not a set of goals"):
        load_goals(path)
    goals = some_goals(buckets=["1-5"])

    def changed(name, values):
        save_goals(goals, path)
        with h5py.File(path, "r+") as file:
            del file[name]
            file[name] = values
        with pytest.raises(HowmError, match="contradicts itself") as error:
            load_goals(path)
        return str(error.value)

    assert "do not fit" not in changed("goal", np.zeros_like(goals.goal))  # all on one cell
    assert "share a cell" in changed("goal", np.zeros_like(goals.goal))
    assert "does not fit 8 goals of 4 objects" in changed("start", goals.start[:5])
    assert "not 4 of 8 objects" in changed("scenes", goals.scenes + 5)
    assert "fewer than 0" in changed("optimal", goals.optimal - 99)
