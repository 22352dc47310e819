"""Splits of scenes: disjoint, covering and balanced, or an error; and a certificate that says which of these hold."""

import json
import re
from itertools import combinations
from math import ceil, comb
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SplitRequest, seeds, split_requests

from howm.errors import HowmError
from howm.worlds.scenes import Scene, SceneSet, SceneSplit, seeded_split, split_scenes


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def runs_of_ids(n: int, k: int) -> set[Scene]:
    """The consecutive scenes, wrapping round from the last object to the first."""
    return {tuple(sorted((start + j) % n for j in range(k))) for start in range(n)}


def assert_sound(split: SceneSplit) -> None:
    """What every split must be, said again without the certificate's code."""
    train, evaluation = split.train.scenes, split.eval.scenes
    assert len(set(train)) == len(train)
    assert len(set(evaluation)) == len(evaluation)
    assert not set(train) & set(evaluation)
    assert {i for scene in train for i in scene} == set(range(split.n))
    for scenes in (train, evaluation):
        times = [sum(i in scene for scene in scenes) for i in range(split.n)]
        assert max(times) - min(times) <= 1
        assert all(scene == tuple(sorted(set(scene))) and len(scene) == split.k for scene in scenes)
    assert split.certificate()["violations"] == []


@given(split_requests())
def test_splits_are_disjoint_covering_and_balanced(asked: SplitRequest) -> None:
    split = split_scenes(asked.n, asked.k, rng(asked.seed), asked.train, asked.eval)
    assert (len(split.train), len(split.eval)) == (asked.train, asked.eval)
    assert_sound(split)


def test_every_small_split_is_balanced() -> None:
    # Baranyai's theorem: two disjoint balanced sets of any sizes exist, so that nothing less is acceptable.
    for n in range(3, 8):
        for k in range(2, n):
            for train in range(ceil(n / k), comb(n, k)):
                for evaluation in range(1, comb(n, k) - train + 1):
                    assert_sound(split_scenes(n, k, rng(train), train, evaluation))


@pytest.mark.parametrize(("n", "k", "train", "evaluation"), [(12, 6, 895, 10), (14, 4, 980, 14), (14, 4, 14, 980)])
def test_a_small_set_beside_almost_all_scenes_is_balanced(n: int, k: int, train: int, evaluation: int) -> None:
    assert_sound(split_scenes(n, k, rng(), train, evaluation))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_library_of_a_thousand_is_split(k: int) -> None:
    assert_sound(split_scenes(1000, k, rng()))


@pytest.mark.parametrize(
    ("n", "k", "train", "evaluation"),
    [
        (10, 5, 100, 100),
        (30, 5, 100, 100),
        (1000, 5, 400, 100),  # 2N/K exceeds 100
        (500, 3, 334, 100),  # and is rounded up
        (21, 2, 100, 100),  # 210 combinations
        (20, 2, 95, 95),  # 190 combinations are shared half and half
        (6, 2, 8, 7),  # the larger half is for training
        (3, 2, 2, 1),
    ],
)
def test_default_sizes(n: int, k: int, train: int, evaluation: int) -> None:
    split = split_scenes(n, k, rng())
    assert (len(split.train), len(split.eval)) == (train, evaluation)
    assert_sound(split)


def test_a_default_gives_way_to_the_size_asked_for() -> None:
    split = split_scenes(6, 2, rng(), eval_scenes=11)
    assert (len(split.train), len(split.eval)) == (4, 11)
    split = split_scenes(6, 2, rng(), train_scenes=14)
    assert (len(split.train), len(split.eval)) == (14, 1)


@given(seeds)
def test_same_seed_gives_the_same_split(seed: int) -> None:
    assert split_scenes(7, 3, rng(seed)) == split_scenes(7, 3, rng(seed))


def test_seeds_give_different_splits() -> None:
    assert len({split_scenes(10, 5, rng(seed)).hash for seed in range(20)}) == 20


@st.composite
def consecutive_requests(draw: st.DrawFn) -> SplitRequest:
    n = draw(st.integers(4, 10))
    k = draw(st.integers(2, n - 2))
    train = draw(st.integers(ceil(n / k), comb(n, k) - n))
    return SplitRequest(n, k, train, draw(st.integers(1, n)), draw(seeds))


@given(consecutive_requests())
def test_consecutive_scenes_are_kept_for_evaluation(asked: SplitRequest) -> None:
    split = split_scenes(asked.n, asked.k, rng(asked.seed), asked.train, asked.eval, consecutive=True)
    runs = runs_of_ids(asked.n, asked.k)
    assert (len(split.train), len(split.eval)) == (asked.train, asked.eval)
    assert set(split.eval.scenes) <= runs
    assert not set(split.train.scenes) & runs
    assert_sound(split)
    assert split.certificate()["consecutive"] is True


def test_all_consecutive_scenes_are_evaluated_by_default_and_wrap_round() -> None:
    split = split_scenes(10, 3, rng(), consecutive=True)
    assert set(split.eval.scenes) == runs_of_ids(10, 3)
    assert split.eval.contains((9, 0, 1))
    assert len(split.train) == 100
    assert len(split_scenes(6, 3, rng(), consecutive=True).train) == comb(6, 3) - 6


@pytest.mark.parametrize(("n", "k"), [(5, 4), (3, 2)])
def test_consecutive_is_refused_where_no_other_scene_is_left(n: int, k: int) -> None:
    with pytest.raises(HowmError, match=f"all {n} scenes of n={n}, k={k} are consecutive"):
        split_scenes(n, k, rng(), consecutive=True)


@pytest.mark.parametrize("n", [1, 5])
def test_a_scene_of_the_whole_library_is_labelled(n: int) -> None:
    split = split_scenes(n, n, rng(), consecutive=n == 5)
    certificate = split.certificate()
    assert split.train == split.eval
    assert not split.unseen_exists
    assert certificate["unseen"] == "no unseen scene exists"
    assert certificate["disjoint"] is False
    assert certificate["violations"] == []


def test_certificate_of_a_sound_split() -> None:
    split = split_scenes(6, 3, rng(), 4, 3)
    certificate = split.certificate()
    assert json.loads(json.dumps(certificate)) == certificate
    counts = {name: certificate.pop(f"{name}_counts") for name in ("train", "eval")}
    assert counts["train"] == [2] * 6
    assert sorted(counts["eval"]) == [1, 1, 1, 2, 2, 2]
    assert certificate == {
        "n": 6,
        "k": 3,
        "combinations": 20,
        "train_scenes": 4,
        "eval_scenes": 3,
        "consecutive": False,
        "unseen": "eval scenes are unseen in training",
        "disjoint": True,
        "covered": True,
        "frequency_spread": {"train": 0, "eval": 1},
        "balanced": {"train": True, "eval": True},
        "hash": split.hash,
        "violations": [],
    }


COVERING: tuple[Scene, ...] = ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("train", "evaluation", "violation"),
    [
        (COVERING, ((0, 2), (3, 2)), r"disjointness: 1 scenes .*\(2, 3\)"),
        (((0, 1), (1, 2)), ((0, 2),), r"coverage: objects \[3\]"),
        ((*COVERING, (1, 0)), ((0, 2),), "uniqueness: a scene of train"),
        (COVERING, ((0, 2), (0, 2)), "uniqueness: a scene of eval"),
        (COVERING, (), "emptiness: there is no eval scene"),
    ],
)
def test_certificate_names_what_is_wrong(
    train: tuple[Scene, ...], evaluation: tuple[Scene, ...], violation: str
) -> None:
    certificate = SceneSplit(SceneSet(4, 2, train), SceneSet(4, 2, evaluation)).certificate()
    assert len(certificate["violations"]) == 1
    assert re.search(violation, certificate["violations"][0])
    seen = "1 eval scenes are seen" if "disjointness" in violation else "eval scenes are unseen"
    assert certificate["unseen"] == f"{seen} in training"


def test_certificate_says_where_a_set_is_not_balanced() -> None:
    lopsided = SceneSet(4, 2, ((0, 1), (0, 2), (0, 3)))
    certificate = SceneSplit(lopsided, SceneSet(4, 2, ((1, 2),))).certificate()
    assert certificate["balanced"] == {"train": False, "eval": True}
    assert certificate["frequency_spread"] == {"train": 2, "eval": 1}


@given(split_requests(max_n=7), st.randoms(use_true_random=False))
def test_contains_accepts_any_order(asked: SplitRequest, random: Random) -> None:
    split = split_scenes(asked.n, asked.k, rng(asked.seed), asked.train, asked.eval)
    for scene in combinations(range(asked.n), asked.k):
        shuffled = list(scene)
        random.shuffle(shuffled)
        assert split.train.contains(shuffled) == (scene in split.train.scenes)
        assert split.eval.contains(np.array(shuffled)) == (scene in split.eval.scenes)


def test_a_scene_has_one_spelling() -> None:
    assert SceneSet(5, 2, ((3, 1),)) == SceneSet.from_array(5, np.array([[1, 3]])) == SceneSet(5, 2, ((1, 3),))


@given(split_requests(max_n=7))
def test_array_round_trip(asked: SplitRequest) -> None:
    scenes = split_scenes(asked.n, asked.k, rng(asked.seed), asked.train, asked.eval).train
    assert SceneSet.from_array(asked.n, scenes.to_array()) == scenes


def test_sets_are_found_by_name() -> None:
    split = split_scenes(6, 3, rng())
    assert split.scenes("train") is split.train
    assert split.scenes("eval") is split.eval
    assert set(split.scenes("all").scenes) == set(combinations(range(6), 3))
    with pytest.raises(HowmError, match="'test'"):
        split.scenes("test")


@pytest.mark.parametrize(
    ("n", "k", "train", "evaluation", "message"),
    [
        (5, 6, None, None, "k=6 .* n=5"),
        (5, 0, None, None, "k=0"),
        (0, 0, None, None, "k=0"),
        (6, 3, 0, None, "train_scenes=0"),
        (6, 3, None, -1, "eval_scenes=-1"),
        (5, 5, 0, None, "train_scenes=0"),
        (5, 5, 2, None, "n=k=5"),
        (6, 3, 20, None, "train_scenes=20, .* the 20 of n=6, k=3"),
        (6, 3, 10, 11, "train_scenes=10, eval_scenes=11 .* the 20"),
        (1000, 5, 10**13, None, "train_scenes=10000000000000"),
        (1000, 5, 199, None, "199 training scenes of k=5 .* n=1000; 200 or more"),
        (10, 1, None, None, "k=1 leaves nothing unseen.* n=10 .*k >= 2"),
        ("10", 5, None, None, "n='10'"),
        (10, 5.0, None, None, r"k=5\.0"),
        (10, 5, "4", None, "train_scenes='4'"),
        (10, 9, 1, None, "1 training scenes .* n=10; 2 or more"),
    ],
)
def test_impossible_requests_are_refused(
    n: int, k: int, train: int | None, evaluation: int | None, message: str
) -> None:
    with pytest.raises(HowmError, match=message):
        split_scenes(n, k, rng(), train, evaluation)


@pytest.mark.parametrize(("train", "evaluation"), [(15, None), (None, 7)])
def test_more_scenes_than_the_consecutive_option_leaves_are_refused(train: int | None, evaluation: int | None) -> None:
    with pytest.raises(HowmError, match="only 14 other and 6 consecutive scenes"):
        split_scenes(6, 3, rng(), train, evaluation, consecutive=True)


@pytest.mark.parametrize("scene", [(0, 1), (0, 1, 1), (0, 1, 5), (-1, 0, 1)])
def test_what_is_no_scene_is_refused(scene: Scene) -> None:
    with pytest.raises(HowmError, match="is not 3 different objects of a library of 5"):
        SceneSet(5, 3, (scene,))


def test_sets_of_different_libraries_make_no_split() -> None:
    with pytest.raises(HowmError, match=r"n=5, k=2 .* n=6"):
        SceneSplit(SceneSet(5, 2, ((0, 1),)), SceneSet(6, 2, ((0, 1),)))


@pytest.mark.parametrize(("n", "k"), [(301, 5), (1000, 7), (10_000, 5)])
def test_large_libraries_get_balanced_disjoint_scenes_that_cover_them(n, k):
    certificate = seeded_split(n, k, 0).certificate()
    assert certificate["violations"] == []
    assert certificate["train_scenes"] == max(100, -(-2 * n // k))
    assert certificate["balanced"] == {"train": True, "eval": True}
