"""Splits by pairs and minimal ones, algebra of scene sets, and the divergence of compounds."""

from itertools import combinations
from math import ceil, comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howm.errors import HowmError
from howm.worlds.divergence import divergence
from howm.worlds.scenes import SceneSet
from howm.worlds.splits import make_split

sizes = st.integers(3, 11).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n - 1)))
seeds = st.integers(0, 2**32 - 1)


@given(sizes, seeds)
def test_pairs_are_kept_apart_in_training_and_meet_in_every_evaluation_scene(size, seed):
    n, k = size
    split = make_split("pairs", n, k, seed)
    apart = [set(pair) for pair in split.pairs_apart]
    assert apart
    assert not any(pair <= set(scene) for pair in apart for scene in split.train.scenes)
    assert all(any(pair <= set(scene) for pair in apart) for scene in split.eval.scenes)
    assert split.certificate()["violations"] == []


@given(sizes, seeds)
def test_minimal_training_sets_cover_the_library_with_as_few_scenes_as_possible(size, seed):
    n, k = size
    split = make_split("minimal", n, k, seed)
    assert len(split.train) == ceil(n / k)
    assert sorted({i for scene in split.train.scenes for i in scene}) == list(range(n))
    assert split.certificate()["violations"] == []
    if n % k == 0:
        assert set(split.train.counts()) == {1}


@pytest.mark.parametrize("kind", ["scenes", "pairs", "minimal"])
def test_the_same_seed_gives_the_same_split(kind):
    assert make_split(kind, 10, 5, 3) == make_split(kind, 10, 5, 3) != make_split(kind, 10, 5, 4)


@pytest.mark.parametrize("kind", ["pairs", "minimal"])
def test_large_libraries_are_not_enumerated(kind):
    split = make_split(kind, 60, 5, 0)
    assert len(split.eval) == 100
    assert split.certificate()["violations"] == []


@pytest.mark.parametrize(
    ("kind", "n", "k", "options", "message"),
    [
        ("pairs", 5, 5, {}, "more in the library"),
        ("minimal", 5, 1, {}, "2 or more objects"),
        ("pairs", 10, 5, {"train_scenes": 33}, "32 training scenes"),
        ("minimal", 10, 5, {"train_scenes": 3}, "has 2 training scenes"),
        ("minimal", 10, 5, {"eval_scenes": 251}, "250 other scenes"),
        ("pairs", 10, 5, {"consecutive": True}, "consecutive"),
        ("triples", 10, 5, {}, "unknown split 'triples'"),
    ],
)
def test_impossible_demands_are_one_line(kind, n, k, options, message):
    with pytest.raises(HowmError, match=message):
        make_split(kind, n, k, 0, **options)


def test_sets_of_scenes_compose():
    a, b = SceneSet(4, 2, ((0, 1), (0, 2))), SceneSet(4, 2, ((0, 2), (1, 3)))
    assert (a | b).scenes == ((0, 1), (0, 2), (1, 3))
    assert (a & b).scenes == ((0, 2),)
    assert (a - b).scenes == ((0, 1),)
    with pytest.raises(HowmError, match="cannot be combined"):
        a | SceneSet(5, 2, ((0, 1),))


def test_divergence_is_0_of_equal_sets_and_1_of_sets_that_share_nothing():
    every = SceneSet(6, 3, tuple(combinations(range(6), 3)))
    assert len(every) == comb(6, 3)
    for size in (1, 2, 3):
        assert divergence(every, every, size) == pytest.approx(0)
    left, right = SceneSet(6, 3, ((0, 1, 2),)), SceneSet(6, 3, ((3, 4, 5),))
    assert [divergence(left, right, size) for size in (1, 2, 3)] == [1, 1, 1]


def test_divergence_of_two_known_sets():
    """Pairs of training: 01, 02, 12; of evaluation: 01, 03, 13. One of three is shared: 1 - 1/3."""
    train, evaluation = SceneSet(4, 3, ((0, 1, 2),)), SceneSet(4, 3, ((0, 1, 3),))
    assert divergence(train, evaluation, 2) == pytest.approx(2 / 3)


def test_pairs_diverge_more_where_they_are_kept_apart():
    apart = {kind: make_split(kind, 10, 5, 0) for kind in ("scenes", "pairs", "minimal")}
    found = {kind: divergence(split.train, split.eval, 2) for kind, split in apart.items()}
    assert found["scenes"] < found["pairs"] < found["minimal"]
