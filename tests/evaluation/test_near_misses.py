"""Near misses belong to their query, whatever stands beside it."""

from dataclasses import replace

import numpy as np
import pytest
from cheats import Still
from drift_world import Drift

from howm import Rollouts, make_dataset
from howm.data.dataset import Amounts
from howm.evaluation.evaluate import hard_ranks
from howm.evaluation.near_misses import NotByRowsError, RowStreams, draw_near_misses, query_keys
from howm.evaluation.pools import _Pool

AMOUNTS = Amounts(30, 2, 60, 4)


class Normal(Drift):
    """Draws what no stream of rows gives."""

    def near_misses(self, scenes, start, steps, count, moving, rng):
        noise = rng.normal(size=(len(scenes), count, *start.shape[1:]))
        return start[:, None] + np.clip(noise, -1, 1).astype(start.dtype)


class Columns(Drift):
    """Draws for all plays of a step, then for all queries: rows are the second axis."""

    def near_misses(self, scenes, start, steps, count, moving, rng):
        noise = rng.random((count, len(scenes), *start.shape[1:])).swapaxes(0, 1)
        return start[:, None] + (2 * noise - 1).astype(start.dtype)


def episodes_of(world):
    if world == "grand":  # scenes of several sizes
        return make_dataset(world, 7, "2-4", amounts=AMOUNTS, train_scenes=7).eval
    if isinstance(world, str):
        return make_dataset(world, 7, 3, amounts=AMOUNTS).eval
    return make_dataset(world(6), k=3, amounts=AMOUNTS).eval


@pytest.mark.parametrize("world", ["shapes", "rush_hour", "grand", Drift, Normal, Columns])
def test_leaving_out_and_permuting_episodes_changes_no_near_miss(world):
    episodes = episodes_of(world)
    whole = draw_near_misses(Rollouts(episodes), 3, 20, seed=0)
    assert whole.shape[:2] == (60, 20)
    for rows in (np.arange(60)[::-1], np.array([41, 3, 17]), np.array([5]), np.arange(20)):  # 20: as many as plays
        part = draw_near_misses(Rollouts(episodes.select(rows)), 3, 20, seed=0)
        assert np.array_equal(part, whole[rows])


def test_states_of_several_sizes_are_labelled_alike_however_they_are_divided(monkeypatch):
    rollouts = Rollouts(episodes_of("grand"))
    whole = _Pool.make(rollouts, 3)
    monkeypatch.setattr("howm.evaluation.pools._AT_ONCE", 4)  # few enough for one size alone
    parts = _Pool.make(rollouts, 3)
    assert np.array_equal(parts.labels, whole.labels)
    assert np.array_equal(parts.kept, whole.kept)


def test_plays_in_scenes_of_several_sizes_are_drawn_row_by_row(monkeypatch):
    """Not one after the other, which takes a hundred times as long."""
    rollouts = Rollouts(episodes_of("grand"))
    monkeypatch.setattr(np.random, "default_rng", None)  # of which each play by itself would need one
    assert draw_near_misses(rollouts, 3, 20, seed=0).shape == (60, 20, 4, 2)


@pytest.mark.parametrize("moving", [0.9, None])
def test_permuting_episodes_changes_no_rank(moving):
    episodes = replace(episodes_of("shapes"), moving=moving)
    order = np.random.default_rng(0).permutation(60)
    ranks = hard_ranks(Still(), Rollouts(episodes), 3)
    assert np.array_equal(hard_ranks(Still(), Rollouts(episodes.select(order)), 3), ranks[order])
    assert np.array_equal(hard_ranks(Still(), Rollouts(episodes), 3, chunk=7), ranks)


@pytest.mark.parametrize("sizes", [3, "2-3"])
def test_what_misses_by_less_than_a_pixel_is_left_out(sizes):
    episodes = make_dataset("free", 7, sizes, amounts=AMOUNTS, contact="slide").eval
    states = episodes.states.copy()
    states[:, 1] = states[:, 3]
    states[:, 1, 0, 0] += np.where(np.arange(60) % 2, 0.9, 1.1) / 50  # pixels
    pool = _Pool.make(Rollouts(replace(episodes, states=states)), 3)
    assert np.array_equal(pool.kept[:, 1], np.arange(60) % 2 == 0)
    world, ids, _ = episodes.state()
    ends = np.concatenate([states[:, :3], pool.ends], axis=1)
    misses = np.abs(ends - states[:, None, 3])[..., :2].max(axis=(2, 3)) * 50
    assert (misses[pool.kept] >= 1).all()
    assert not world.alike(ids, states[:, 3], states[:, 3] + 1.01 / 50).any()


def test_keys_are_told_by_all_that_a_query_is():
    episodes = episodes_of("shapes")
    rollouts = Rollouts(episodes)
    keys = query_keys(rollouts, 3, 0)
    assert len(np.unique(keys)) == 60
    assert not np.isin(query_keys(rollouts, 2, 0), keys).any()
    assert not np.isin(query_keys(rollouts, 3, 1), keys).any()
    actions = episodes.actions.copy()
    actions[:, 3] += 1  # after the query's end
    same = type(episodes)(actions, episodes.scene_ids, episodes.states, episodes.world)
    assert np.array_equal(query_keys(Rollouts(same), 3, 0), keys)
    assert not np.isin(query_keys(Rollouts(same), 4, 0), query_keys(rollouts, 4, 0)).any()


def test_streams_are_uniform_and_apart():
    streams = RowStreams(np.arange(2_000, dtype=np.uint64), 5)
    first, second = streams.random((10_000, 3)), streams.random(10_000)
    assert 0 <= first.min() < 0.001 < 0.999 < first.max() < 1
    counts = np.histogram(np.append(first.ravel(), second), 50, (0, 1))[0]
    assert np.square((counts - 800) / np.sqrt(800)).sum() < 95  # χ² of 49 degrees, 1 in 10,000
    together = np.corrcoef(np.column_stack([first, second, np.roll(second, 1)]).T)
    assert np.abs(together - np.eye(5)).max() < 0.04
    dice = streams.integers(2, 8, size=2_000)
    assert np.bincount(dice, minlength=8)[2:].min() > 260
    assert streams.integers(3, size=(2_000, 2)).max() == 2


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.random(7),
        lambda rng: rng.random(),
        lambda rng: rng.normal(size=4),
        lambda rng: rng.permutation(4),
        lambda rng: rng.choice(4),
        lambda rng: rng.integers(4),
    ],
)
def test_other_draws_are_refused(draw):
    with pytest.raises(NotByRowsError):
        draw(RowStreams(np.arange(4, dtype=np.uint64), 3))


def test_plays_are_as_random_as_those_of_one_generator():
    episodes = episodes_of("shapes").select(np.repeat(np.arange(5), 2))
    rollouts = Rollouts(episodes)
    own = draw_near_misses(rollouts, 2, 4_000, seed=0)[::2, :, :, 0]
    plain = rollouts.near_misses(2, 4_000, np.random.default_rng(0))[::2, :, :, 0]
    for one, other in zip(own, plain, strict=True):
        both = np.unique(np.concatenate([one, other]), axis=0, return_inverse=True)[1].reshape(2, -1)
        counts = np.stack([np.bincount(part, minlength=both.max() + 1) for part in both])
        often = counts[:, counts.sum(axis=0) >= 40]
        chi2 = (np.square(often[0] - often[1]) / often.sum(axis=0)).sum()
        degrees = often.shape[1] - 1
        assert chi2 < degrees + 5 * np.sqrt(2 * degrees)
