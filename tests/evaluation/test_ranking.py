"""The ranking metrics against a slow and obvious twin, known answers, invariances and attempts to fool them."""

import json
import math
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import Tensor

from howm.evaluation import metrics as metrics_of
from howm.evaluation.metrics import Metrics, summarise
from howm.evaluation.ranking import PADDING, pool_sizes, ranks, ranks_from_distances
from howm.models.distance import euclidean


class Case(NamedTuple):
    predictions: Tensor
    targets: Tensor
    target_index: np.ndarray
    labels: np.ndarray | None
    extra: Tensor | None
    extra_labels: np.ndarray | None


def square(a: list[float], b: list[float]) -> Fraction:
    return sum(((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0))


def kept_references(case: Case, query: int) -> list[list[float]]:
    """The embeddings of the pool of one query, its target first."""
    own = int(case.target_index[query])
    labels = list(range(len(case.targets))) if case.labels is None else case.labels.tolist()
    pool = [case.targets[own].tolist()]
    pool += [t.tolist() for t, label in zip(case.targets, labels, strict=True) if label != labels[own]]
    if case.extra is not None and case.extra_labels is not None:
        seen = {PADDING, labels[own]}
        for embedding, label in zip(case.extra[query], case.extra_labels[query].tolist(), strict=True):
            if label not in seen:
                seen.add(label)
                pool.append(embedding.tolist())
    return pool


def twin(case: Case) -> list[float]:
    """Sort every pool by exact rational distance and take the mean place of those as near as the target."""
    found = []
    for query, prediction in enumerate(case.predictions.tolist()):
        distances = [square(prediction, reference) for reference in kept_references(case, query)]
        places = [place for place, d in enumerate(sorted(distances), start=1) if d == distances[0]]
        found.append(float(Fraction(sum(places), len(places))))
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small integer grids, where distances are exact in float64 and ties and duplicates abound."""
    queries, pool, width = draw(st.integers(1, 7)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.integers(0, 3))

    def grid(*shape: int) -> Tensor:
        dtype = draw(st.sampled_from([torch.float32, torch.float64]))
        return torch.from_numpy(rng.integers(-spread, spread + 1, shape)).to(dtype)

    states = draw(st.integers(1, 12))
    labels = rng.integers(0, states, pool) if draw(st.booleans()) else None
    extra, extra_labels = None, None
    if labels is not None and draw(st.booleans()):
        extras = draw(st.integers(0, 6))
        extra, extra_labels = grid(queries, extras, width), rng.integers(PADDING, states + 2, (queries, extras))
    index = rng.integers(0, pool, queries)
    return Case(grid(queries, width), grid(pool, width), index, labels, extra, extra_labels)


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def refused(message: str) -> AbstractContextManager[object]:
    """By the function itself, or before it by the shape checks where jaxtyping's import hook is on."""
    return pytest.raises((ValueError, TypeCheckError), match=f"{message}|Type-check error")


# --- ranks against the twin -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=400)
@given(cases(), st.sampled_from([None, 1, 2, 3, 100]))
def test_equals_the_slow_twin(case: Case, chunk: int | None) -> None:
    found = ranks(*case, chunk=chunk)
    assert found.dtype == np.float64
    assert found.tolist() == twin(case)


@settings(deadline=None, max_examples=100)
@given(cases())
def test_equals_the_plain_function_and_counts_its_pool(case: Case) -> None:
    queries = range(len(case.predictions))
    pools = [kept_references(case, query) for query in queries]
    for query, pool in zip(queries, pools, strict=True):
        squares = [float(square(case.predictions[query].tolist(), reference)) for reference in pool]
        assert ranks_from_distances(np.array([squares]), np.array([0])) == ranks(*case)[query]
    labels = np.arange(len(case.targets)) if case.labels is None else case.labels
    sizes = pool_sizes(labels, case.target_index, case.extra_labels)
    assert sizes.tolist() == [len(pool) for pool in pools]


@pytest.mark.parametrize("width", [1, 5, 40])
def test_equals_the_twin_on_gaussians(width: int) -> None:
    rng = np.random.default_rng(1)
    case = Case(
        predictions=gaussian(23, width, seed=1).float(),
        targets=gaussian(61, width, seed=2).float(),
        target_index=rng.integers(0, 61, 23),
        labels=rng.integers(0, 40, 61),
        extra=gaussian(23, 7, width, seed=3).float(),
        extra_labels=rng.integers(PADDING, 50, (23, 7)),
    )
    assert ranks(*case, chunk=5).tolist() == twin(case)


def test_default_chunks_cover_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, targets, index = gaussian(103, 4), gaussian(103, 4, seed=1), np.arange(103)
    whole = ranks(predictions, targets, index, chunk=103)
    monkeypatch.setattr("howm.evaluation.ranking._CHUNK_ELEMENTS", 103 * 10)
    sizes: list[int] = []

    def counted(queries: Tensor, references: Tensor) -> Tensor:
        sizes.append(len(queries))
        return euclidean(queries, references)

    assert ranks(predictions, targets, index, distance=counted).tolist() == whole.tolist()
    assert sizes == [10] * 10 + [3]


def test_own_distance() -> None:
    """City-block distance puts the diagonal target last instead of first, behind the shared and the extra rival."""

    def city_block(queries: Tensor, references: Tensor) -> Tensor:
        return (queries[..., :, None, :] - references[..., None, :, :]).abs().sum(-1)

    predictions, targets = torch.zeros(1, 2), torch.tensor([[3.0, 3.0], [5.0, 0.0]])
    labels, extra, extra_labels = np.array([0, 1]), torch.tensor([[[0.0, 4.5]]]), np.array([[2]])
    index = np.array([0])
    assert ranks(predictions, targets, index, labels, extra, extra_labels) == 1
    assert ranks(predictions, targets, index, labels, extra, extra_labels, distance=city_block) == 3


# --- known answers ----------------------------------------------------------------------------------------


def test_known_ranks_by_hand() -> None:
    targets = torch.tensor([[0.0], [1.0], [2.0], [4.0]])
    predictions = torch.tensor([[0.0], [3.9], [3.0], [-1.0]])
    # 0: exact. 1.0 seen from 3.9 is third (4, 2, 1). From 3.0, 2 and 4 tie: (1+2)/2. 4 seen from -1 is last.
    assert ranks(predictions, targets, np.arange(4)).tolist() == [1, 3, 1.5, 4]


def test_left_out_references_by_hand() -> None:
    targets = torch.tensor([[0.0], [0.0], [1.0], [2.0]])
    labels = np.array([7, 7, 8, 9])
    assert ranks(torch.zeros(1, 1), targets, np.array([0])) == 1.5
    assert ranks(torch.zeros(1, 1), targets, np.array([0]), labels) == 1
    assert ranks(torch.zeros(1, 1), targets, np.array([2]), labels) == 3


def test_extra_references_by_hand() -> None:
    targets, labels = torch.tensor([[1.0], [5.0]]), np.array([0, 1])
    # The target's own state, the same rival twice, padding on the very spot, a rival behind, a tie.
    extra = torch.tensor([[[0.0], [0.5], [0.5], [0.0], [3.0], [-1.0]]])
    extra_labels = np.array([[0, 5, 5, PADDING, 6, 7]])
    index = np.array([0])
    assert ranks(torch.zeros(1, 1), targets, index, labels, extra, extra_labels) == 1 + 1.5
    assert pool_sizes(labels, index, extra_labels).tolist() == [2 + 3]


def test_padding_may_hold_anything() -> None:
    targets, labels = torch.tensor([[1.0], [5.0]]), np.array([0, 1])
    extra = torch.full((1, 3, 1), math.nan)
    assert ranks(torch.zeros(1, 1), targets, np.array([0]), labels, extra, np.full((1, 3), PADDING)) == 1


def test_perfect_prediction_ranks_first() -> None:
    targets = gaussian(50, 6)
    assert (ranks(targets, targets, np.arange(50)) == 1).all()
    shuffled = np.random.default_rng(0).permutation(50)
    assert (ranks(targets[shuffled], targets, shuffled) == 1).all()


# --- attempts to fool it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 8, 17, 40])
@pytest.mark.parametrize("scale", [0.0, 0.1, 1e6])
def test_constant_encoder_gets_the_middle_of_its_pool(width: int, scale: float) -> None:
    rng = np.random.default_rng(0)
    point = (scale * gaussian(1, width)).float()
    labels, index = rng.integers(0, 150, 207), rng.integers(0, 207, 101)
    extra_labels = rng.integers(PADDING, 150, (101, 9))
    sizes = pool_sizes(labels, index, extra_labels)
    for offset in (0.0, 0.3):  # predictions on the point itself, or all equally far from it
        predictions = (point + offset).expand(101, width)
        found = ranks(predictions, point.expand(207, width), index, labels, point.expand(101, 9, width), extra_labels)
        assert (found == (sizes + 1) / 2).all()
        metrics = summarise(found, index, rng, resamples=2)
        assert metrics.mrr == pytest.approx(metrics_of.expected_constant_mrr(sizes), rel=1e-12)
    assert metrics_of.expected_constant_mrr(np.full(3, 99)) == pytest.approx(2.0, rel=1e-15)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 31, 40, 67])
def test_equal_embeddings_tie_wherever_they_stand(width: int) -> None:
    """Bit for bit, at random places of the shared pool, in other chunks and among the extras."""
    rng = np.random.default_rng(width)
    distinct = gaussian(11, width, seed=width) * 1e3 + 1e4
    pool, private = rng.integers(0, 11, 1031), rng.integers(0, 11, (29, 13))
    index = rng.integers(0, 1031, 29)
    predictions = gaussian(29, width, seed=99) * 1e3 + 1e4
    case = Case(predictions, distinct[pool], index, np.arange(1031), distinct[private], private + 2000)
    for chunk in (None, 1, 6):
        assert ranks(*case, chunk=chunk).tolist() == twin_by_groups(predictions, distinct, case, pool, private)


def twin_by_groups(
    predictions: Tensor, distinct: Tensor, case: Case, pool: np.ndarray, private: np.ndarray
) -> list[float]:
    """Exact order of the few distinct embeddings; ties counted by which one a reference is, not by distance."""
    found = []
    for query, prediction in enumerate(predictions.tolist()):
        squares = [square(prediction, embedding) for embedding in distinct.tolist()]
        members = [*pool.tolist(), *dict.fromkeys(private[query].tolist())]
        own = int(pool[case.target_index[query]])
        nearer = sum(squares[m] < squares[own] for m in members)
        found.append(nearer + (members.count(own) + 1) / 2)
    return found


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_near_misses_rank_right_far_from_the_origin(offset: float) -> None:
    """A rival nearer or farther by one part in a million, where |a|²+|b|²−2ab would have lost it."""
    target, step = gaussian(40, 8, seed=5) + offset, gaussian(40, 8, seed=6) * 1e-3
    for factor, expected in ((1 - 1e-6, 2), (1 + 1e-6, 1)):
        for query in range(40):
            near = torch.stack([target[query] + step[query], target[query] + factor * step[query]])
            case = Case(target[query : query + 1], near, np.array([0]), None, None, None)
            assert ranks(*case).tolist() == twin(case) == [expected]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
@pytest.mark.parametrize("both", [False, True], ids=["prediction", "prediction-and-target"])
def test_unmeasurable_query_comes_last(bad: float, both: bool) -> None:
    predictions, targets = gaussian(4, 3), gaussian(9, 3, seed=1)
    predictions[2, 1] = bad
    if both:
        targets[2, 1] = -bad
    labels = np.array([0, 1, 2, 3, 4, 5, 2, 7, 8])
    extra, extra_labels = gaussian(4, 2, 3, seed=2), np.array([[20, 21]] * 4)
    found = ranks(predictions, targets, np.arange(4), labels, extra, extra_labels)
    assert found[2] == 9 - 1 + 2
    assert np.isfinite(found).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_unmeasurable_reference_counts_as_nearer(bad: float) -> None:
    """Else an encoder could rid itself of its rivals by giving them no embedding."""
    targets = gaussian(9, 3)
    predictions = targets.clone()
    targets[4, 0] = bad
    expected = np.full(9, 2.0)
    expected[4] = 9
    assert (ranks(predictions, targets, np.arange(9)) == expected).all()


def test_random_embeddings_rank_as_chance() -> None:
    predictions, targets = gaussian(2000, 5), gaussian(2000, 5, seed=1)
    found = ranks(predictions, targets, np.arange(2000))
    assert abs(found.mean() - 1000.5) < 5 * 2000 / math.sqrt(12 * 2000)
    chance = metrics_of.expected_random_mrr(np.full(2000, 2000))
    deviation = 100 * math.sqrt(math.pi**2 / 6 / 2000 / 2000)  # E[1/rank²] ≈ ζ(2)/n
    assert abs(100 * float((1 / found).mean()) - chance) < 5 * deviation


# --- invariances ------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(0, 2**32 - 1))
def test_order_of_references_does_not_matter(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(case.targets))
    moved = case._replace(
        targets=case.targets[order],
        target_index=np.argsort(order)[case.target_index],
        labels=None if case.labels is None else case.labels[order],
    )
    if case.extra is not None and case.extra_labels is not None:
        # Extras of one state have one embedding, as images of it do: then which one counts cannot matter.
        table = torch.from_numpy(rng.integers(-2, 3, (20, case.extra.shape[-1]))).to(case.extra.dtype)
        extra = table[case.extra_labels + 1]
        extra_order = rng.permutation(case.extra.shape[1])
        case = case._replace(extra=extra)
        moved = moved._replace(extra=extra[:, extra_order], extra_labels=case.extra_labels[:, extra_order])
    assert ranks(*moved).tolist() == ranks(*case).tolist()


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(0, 2**32 - 1))
def test_far_or_left_out_references_change_nothing(case: Case, seed: int) -> None:
    labels = np.arange(len(case.targets)) if case.labels is None else case.labels
    case = case._replace(labels=labels)
    expected = ranks(*case).tolist()
    far = case._replace(
        targets=torch.cat([case.targets, torch.full_like(case.targets[:1], 1e3)]), labels=np.append(labels, 999)
    )
    assert ranks(*far).tolist() == expected
    # A duplicate by true state of one query's target, placed on its prediction: that query must not mind.
    query = seed % len(expected)
    spot = case.predictions[query : query + 1].to(case.targets.dtype)
    doubled = case._replace(
        targets=torch.cat([case.targets, spot]), labels=np.append(labels, labels[case.target_index[query]])
    )
    assert ranks(*doubled)[query] == expected[query]


# --- the plain function and what is refused ---------------------------------------------------------------


def test_ranks_from_distances_by_hand() -> None:
    distances = np.array([[1.0, 0.0, 1.0, 2.0], [1.0, 0.0, 1.0, 2.0], [math.nan, 0.0, math.nan, 9.0]])
    keep = np.array([[True] * 4, [True, False, False, True], [True, True, False, True]])
    assert ranks_from_distances(distances, np.array([0, 0, 0]), keep).tolist() == [2.5, 1, 3]
    assert ranks_from_distances(distances, np.array([3, 1, 1])).tolist() == [4, 1, 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target_index": np.array([0, -1])}, "one index"),
        ({"target_index": np.array([0, 3])}, "one index"),
        ({"target_index": np.array([0])}, "one index"),
        ({"labels": np.array([0, 1])}, "one label"),
        ({"labels": np.array([0, 1, PADDING])}, "one label"),
        ({"labels": None}, "need labels"),
        ({"extra": None}, "need labels"),
        ({"extra_labels": None}, "need labels"),
        ({"extra_labels": np.zeros((2, 3), dtype=int)}, "extra_labels is"),
        ({"extra": torch.zeros(1, 4, 5), "extra_labels": np.zeros((1, 4), dtype=int)}, "2 queries"),
        ({"chunk": 0}, "chunk"),
    ],
)
def test_ranks_refuses(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {
        "predictions": torch.zeros(2, 5),
        "targets": torch.zeros(3, 5),
        "target_index": np.array([0, 1]),
        "labels": np.arange(3),
        "extra": torch.zeros(2, 4, 5),
        "extra_labels": np.zeros((2, 4), dtype=int),
    }
    assert ranks(**right).shape == (2,)
    with refused(message):
        ranks(**right | wrong)


def test_ranks_from_distances_refuses() -> None:
    with refused("own target"):
        ranks_from_distances(np.zeros((1, 2)), np.array([0]), np.array([[False, True]]))
    with refused("keep"):
        ranks_from_distances(np.zeros((1, 2)), np.array([0]), np.array([[True]]))
    with refused("one index"):
        ranks_from_distances(np.zeros((1, 2)), np.array([-1]))


def test_no_queries_no_ranks() -> None:
    none = np.zeros(0, dtype=int)
    assert ranks(torch.zeros(0, 2), torch.zeros(3, 2), none).shape == (0,)
    case = Case(torch.zeros(0, 2), torch.zeros(3, 2), none, np.arange(3), torch.zeros(0, 4, 2), none.reshape(0, 4))
    assert ranks(*case).shape == (0,)


def test_gradients_and_inputs_are_left_alone() -> None:
    predictions, targets = gaussian(5, 2).requires_grad_(), gaussian(5, 2, seed=1)
    labels, index = np.arange(5), np.arange(5)
    before = targets.clone()
    ranks(predictions, targets, index, labels)
    assert torch.equal(targets, before)
    assert labels.tolist() == index.tolist() == list(range(5))
    distances = np.array([[math.nan, 1.0]])
    ranks_from_distances(distances, np.array([1]))
    assert math.isnan(distances[0, 0])


# --- summaries --------------------------------------------------------------------------------------------


def test_summary_by_hand() -> None:
    found = np.array([1, 2, 4, 5, 5.5, 10, 10.5, 20])
    metrics = summarise(found, np.arange(8), np.random.default_rng(0))
    assert (metrics.h1, metrics.h5, metrics.h10) == (12.5, 50.0, 75.0)
    assert metrics.mrr == pytest.approx(100 * sum(1 / r for r in found.tolist()) / 8)
    assert metrics.mrr_ci[0] < metrics.mrr < metrics.mrr_ci[1]
    assert Metrics(**json.loads(json.dumps(metrics.to_json())) | {"mrr_ci": metrics.mrr_ci}) == metrics


def test_bootstrap_equals_its_plain_twin() -> None:
    rng = np.random.default_rng(3)
    found, groups = rng.integers(1, 30, 200).astype(float), rng.choice([3, -5, 11, 40, 7, 8], 200)
    scenes = np.unique(groups)
    plain = np.random.default_rng(9)
    means = []
    for _ in range(300):
        drawn = scenes[plain.integers(6, size=6)]
        values = np.concatenate([1 / found[groups == scene] for scene in drawn])
        means.append(100 * values.mean())
    low, high = summarise(found, groups, np.random.default_rng(9), resamples=300).mrr_ci
    assert (low, high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), rel=1e-12)


def test_interval_is_over_scenes_not_queries() -> None:
    """Scenes that differ and queries that repeat one another: many queries must not narrow the interval."""
    per_scene = np.array([1.0, 2, 4, 8, 16, 32])
    few = summarise(per_scene, np.arange(6), np.random.default_rng(0))
    many = summarise(per_scene.repeat(500), np.arange(6).repeat(500), np.random.default_rng(0))
    assert many.mrr_ci == pytest.approx(few.mrr_ci, rel=1e-12)


def test_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        scene = rng.normal(size=40).repeat(5)
        found = 1 / np.clip(0.5 + 0.1 * scene, 0.01, 1.0)
        low, high = summarise(found, np.arange(40).repeat(5), rng, resamples=200).mrr_ci
        covered += low <= 50 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_one_scene_resamples_queries() -> None:
    found = np.array([1.0, 2, 3, 4, 100])
    one = summarise(found, np.full(5, 12), np.random.default_rng(0))
    each = summarise(found, np.arange(5), np.random.default_rng(0))
    assert one == each
    assert one.mrr_ci[0] < one.mrr_ci[1]


def test_same_generator_same_interval() -> None:
    found, groups = np.arange(1.0, 31), np.arange(30) % 7
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - to see that it is not touched
    first, second = (summarise(found, groups, np.random.default_rng(5)) for _ in range(2))
    assert first == second
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("found", "groups", "resamples", "message"),
    [
        (np.array([]), np.array([], dtype=int), 10, "one rank"),
        (np.array([1.0, 2.0]), np.array([0]), 10, "one rank"),
        (np.array([0.0, 2.0]), np.array([0, 1]), 10, "start at 1"),
        (np.array([math.nan, 2.0]), np.array([0, 1]), 10, "start at 1"),
        (np.array([1.0, 2.0]), np.array([0, 1]), 0, "resamples"),
    ],
    ids=["empty", "shapes", "zero", "nan", "resamples"],
)
def test_summary_refuses(found: np.ndarray, groups: np.ndarray, resamples: int, message: str) -> None:
    with refused(message):
        summarise(found, groups, np.random.default_rng(0), resamples)


def test_expectations_by_hand() -> None:
    sizes = np.array([1, 2, 3])
    harmonic = [Fraction(1), Fraction(3, 2), Fraction(11, 6)]
    chance = sum(h / n for h, n in zip(harmonic, [1, 2, 3], strict=True)) / 3
    assert metrics_of.expected_random_mrr(sizes) == pytest.approx(100 * float(chance), rel=1e-14)
    assert metrics_of.expected_constant_mrr(sizes) == pytest.approx(200 / 3 * (1 / 2 + 1 / 3 + 1 / 4), rel=1e-14)
    for bad in (np.array([], dtype=int), np.array([3, 0])):
        for expectation in (metrics_of.expected_random_mrr, metrics_of.expected_constant_mrr):
            with refused("its target"):
                expectation(bad)


@pytest.mark.parametrize("noise", [0.0, 1e-12, 0.01, 1.0, 100.0])
def test_the_fast_way_gives_the_ranks_of_all_distances(noise: float) -> None:
    generator = torch.Generator().manual_seed(0)
    targets = 1000 + torch.randn(300, 7, generator=generator, dtype=torch.float64)
    targets[50:60] = targets[40:50]  # equal embeddings of different states
    predictions = targets + noise * torch.randn(300, 7, generator=generator, dtype=torch.float64)
    index = np.arange(300)
    everything = ranks(predictions, targets, index, distance=lambda a, b: euclidean(a, b))
    assert np.array_equal(ranks(predictions, targets, index), everything)
