"""Libraries that are searched instead of listed: the same numbers as with a row for every object."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from howm import Rollouts, SlotBatch, Transitions, WorldSpec, evaluate, make_dataset
from howm.data.dataset import Amounts
from howm.evaluation.diagnosis import diagnose
from howm.evaluation.ranking import ranks
from howm.models.align import lifting
from howm.models.check import check_model
from howm.models.distance import euclidean, guarded
from howm.models.gallery import Gallery
from howm.models.object_rows import aligned, pack, union, unpack
from howm.models.registry import build_model
from howm.runs.config import configure

AMOUNTS = Amounts(train_episodes=30, train_steps=40, eval_episodes=40, eval_steps=5)
N, K = 8, 3


@pytest.fixture(scope="module")
def data():
    return make_dataset("shapes", N, K, amounts=AMOUNTS)


def built(listed=0, seed=0, **model):
    small = {"hidden": 16, "extractor": {"hidden": 16}, "listed_objects": listed, "gallery": False}
    values = {"model": small | model}
    return build_model("howm", WorldSpec(N, K), configure("howm", "cpu", values).model, seed)


@st.composite
def listed_rows(draw, states=4, slots=3, n=5, size=2):
    """Ids (-1 for none, some of them twice) and rows of some states."""
    ids = draw(st.lists(st.lists(st.integers(-1, n - 1), min_size=slots, max_size=slots), min_size=1, max_size=states))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return torch.tensor(ids), torch.from_numpy(rng.normal(size=(len(ids), slots, size)))


def written_out(ids, rows, n=5):
    """The slow twin: a row for every object of the library."""
    lift = one_hot(ids + 1, n + 1)[..., 1:].transpose(1, 2).to(rows.dtype)
    return (lift @ rows).flatten(1)


@settings(max_examples=200)
@given(listed_rows(), listed_rows())
def test_the_distance_of_listed_objects_is_that_of_all_rows(one, other):
    found = aligned(2).pairwise(pack(*one), pack(*other))
    torch.testing.assert_close(found, euclidean(written_out(*one), written_out(*other)))
    each = aligned(2).pairwise(pack(*one).unsqueeze(1), pack(*other).expand(len(one[0]), -1, -1))
    assert torch.equal(each[:, 0], found)  # every pair for itself, to the last bit
    assert torch.equal(aligned(2).pairwise(pack(*one)[:1], pack(*other)[-1:]), found[:1, -1:])


@given(listed_rows())
def test_packed_objects_can_be_read_again_in_single_precision(one):
    ids, rows = one
    found, read = unpack(pack(10_000 * ids.clamp_min(0) + ids, rows.float()), 2)
    twin = written_out(ids, rows.float())
    back = torch.where(found < 0, -1, found % 10_000)
    assert all(len(set(some[some >= 0].tolist())) == int((some >= 0).sum()) for some in back)
    torch.testing.assert_close(written_out(back, read), twin)


@given(listed_rows(), st.integers(0, 2**32 - 1))
def test_a_union_compares_rows_object_by_object(one, seed):
    ids = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(seed + i))[:3] for i in range(6)])
    rows = torch.from_numpy(np.random.default_rng(seed).normal(size=(6, 3, 2))).float()
    own, theirs = union(ids[:3], ids[3:])
    squared = (own @ rows[:3] - theirs @ rows[3:]).square().sum(dim=(1, 2))
    twin = (written_out(ids[:3], rows[:3]) - written_out(ids[3:], rows[3:])).square().sum(dim=1)
    torch.testing.assert_close(squared, twin)


def test_ranks_by_listed_objects_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    ids = torch.from_numpy(np.sort(rng.permuted(np.tile(np.arange(7), (60, 1)), axis=1)[:, :4], axis=1))
    rows = torch.from_numpy(rng.normal(size=(60, 4, 2)))
    near = rows + 1.5 * torch.from_numpy(rng.normal(size=rows.shape))
    listed = ranks(pack(ids, near), pack(ids, rows), np.arange(60), distance=guarded(aligned(2)))
    dense = ranks(written_out(ids, near, 7), written_out(ids, rows, 7), np.arange(60))
    assert np.array_equal(listed, dense)
    assert listed.max() > 1


def pictures(data, count=30):
    return torch.from_numpy(data.eval.observe(np.arange(count), 0))


def sharp(listed):
    """A model that is sure of its slots."""
    model = built(listed).eval()
    model.attention.keys.data *= 20
    return model


def test_searching_gives_the_binding_and_the_objects_of_listing(data):
    searched, listed = sharp(0), sharp(N)
    assert searched.searched
    assert not listed.searched
    one, other = (model.encode(pictures(data)) for model in (searched, listed))
    assert one.binding is None
    assert one.lift is None
    torch.testing.assert_close(searched.binding(one), listed.binding(other))
    surest = lifting(listed.attention(other.source_slots), "claims").argmax(dim=1)
    assert torch.equal(one.claimed[:, :-1], surest[:, :-1])
    for action in (0, 5, 31):
        actions = torch.full((30,), action)
        one, other = searched.step(one, actions), listed.step(other, actions)
        torch.testing.assert_close(one.slots, other.slots)
    hard = one_hot(one.claimed + 1, N + 1)[..., 1:].transpose(1, 2).float()
    twin = replace(other, lift=hard)
    torch.testing.assert_close(searched.objects(one), listed.objects(twin))
    apart = euclidean(listed.embed(twin).double(), listed.embed(twin).double())
    embedded = searched.embed(one).double()
    torch.testing.assert_close(searched.metric.pairwise(embedded, embedded), apart, atol=1e-5, rtol=1e-5)
    assert torch.equal(searched.present(one), hard.any(dim=2))


def test_the_loss_over_all_objects_that_act_is_that_over_the_library(data):
    """Where every object of the library acts in every episode, or else is a rival, nothing is left out."""
    transitions = Transitions(data.train)
    batch = transitions.load(transitions.index(np.arange(24), np.random.default_rng(0)))
    everyone = torch.arange(N).expand(24, -1)
    searched, listed = built(0), built(N)
    whole, logs = listed(batch)
    sampled, others = searched(replace(batch, actors=everyone, negative_actors=everyone))
    torch.testing.assert_close(sampled, whole)
    torch.testing.assert_close(others, logs)
    for loss in (whole, sampled):
        loss.backward()
    for one, other in zip(searched.parameters(), listed.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)


def test_no_object_that_neither_acts_nor_is_a_rival_gets_a_gradient(data):
    transitions = Transitions(data.train)
    batch = transitions.load(transitions.index(np.arange(4), np.random.default_rng(0)))
    model = built(0)
    loss, _ = model(batch)
    loss.backward()
    seen = set(batch.actors[batch.actors >= 0].tolist()) | set((batch.action // 4).tolist())
    moved = set(model.attention.keys.grad.abs().sum(dim=1).nonzero()[:, 0].tolist())
    assert moved == seen
    assert len(moved) < N


def test_actors_are_the_objects_that_act_in_an_episode(data):
    actors = Transitions(data.train).actors
    for row, actions in zip(actors, data.train.actions, strict=True):
        assert row[row >= 0].tolist() == sorted(set((actions // 4).tolist()))


def test_a_searched_model_keeps_the_contract_and_can_be_judged(data):
    model = sharp(0)
    assert not check_model(model, data.spec)
    rollouts = Rollouts(data.eval)
    scores = evaluate(model, rollouts, (1, 5)).model
    assert 0 < scores["hard"]["5"].mrr <= 100
    found = diagnose(model, rollouts, steps=3)
    assert found.hard_mrr["states_aligned_not_open_loop"] is None
    model.hard_binding()
    assert set(model.binding(model.encode(pictures(data))).unique().tolist()) == {0.0, 1.0}


def moves(count, seed=0):
    """Frames of K slots and a background, those that follow, of which one slot at most has changed, and who acted."""
    rng = np.random.default_rng(seed)
    looks = rng.normal(size=(N, 16))
    before = torch.from_numpy(rng.normal(size=(count, K + 1, 16))).float()
    after, acting, which = before.clone(), torch.from_numpy(rng.integers(N, size=count)), rng.integers(K, size=count)
    moved = torch.from_numpy(rng.random(count) < 0.8)
    rows = torch.arange(count)
    before[rows, which] = torch.from_numpy(looks[acting] + 0.1 * rng.normal(size=(count, 16))).float()
    after[rows, which] = before[rows, which] + moved.unsqueeze(1) * 5 * torch.from_numpy(rng.normal(size=16)).float()
    return before, after, acting, which, moved


def test_a_gallery_keeps_the_mean_look_of_what_moved_when_an_object_acted():
    gallery = built(0, gallery=True).attention
    assert isinstance(gallery, Gallery)
    before, after, acting, which, moved = moves(60)
    for some in torch.arange(60).split(20):
        gallery.observe(before[some], after[some], acting[some])
    for n in range(N):
        mine = [i for i in range(60) if acting[i] == n and moved[i]]
        seen = torch.stack([frame[i, which[i]] for i in mine for frame in (before, after)])
        mean = gallery.looks(seen).mean(dim=0)
        torch.testing.assert_close(gallery.keys_of(torch.tensor(n))[:-1], mean)
        assert gallery.count[n] == 2 * len(mine)
    slots = torch.randn(40, K + 1, 16)
    squared = torch.cdist(gallery.looks(slots[:, :-1]), gallery.keys[:, :-1]).square()
    assert torch.equal(gallery.retrieve(slots)[1][:, :-1], squared.argmin(dim=2))
    torch.testing.assert_close(gallery(slots).scores, torch.log_softmax(-squared / gallery.spread, dim=2))


def test_an_object_that_was_never_seen_moving_is_nobody():
    gallery = built(0, gallery=True).attention.eval()
    before, after, acting, _, _ = moves(60)
    known = acting != 3
    gallery.observe(before[known], after[known], acting[known])
    slots = torch.randn(200, K + 1, 16)
    assert 3 not in gallery.retrieve(slots)[1]
    assert torch.equal(gallery(slots).actions[:, 3, -1], torch.ones(200))  # its actions go to the background


def test_training_fills_the_gallery_and_evaluation_leaves_it_alone(data):
    before, after, acting, _, moved = moves(64)
    everyone = torch.arange(N).expand(64, -1)
    batch = SlotBatch(before, 4 * acting, after, before.flip(0), everyone, everyone)
    model = built(0, gallery=True)
    assert not check_model(model, data.spec)
    model.eval()(batch)
    assert not model.attention.count.any()
    loss, logs = model.train()(batch)
    assert loss.isfinite()
    assert "identity" not in logs
    assert torch.equal(model.attention.count.long(), 2 * torch.bincount(acting[moved], minlength=N))


def test_looks_are_the_sprites_that_are_drawn_and_their_projections():
    extractor = built(0).extractor
    slots, basis = torch.randn(7, K + 1, 16), torch.randn(300, 4)
    sprites, _ = extractor.sprite_decoder(slots)
    torch.testing.assert_close(extractor.look(slots), sprites)
    torch.testing.assert_close(extractor.look(slots, basis), sprites @ basis)
