"""Batches: every transition once a pass, honest negatives, true pictures; and the paths that evaluation asks about."""

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import plain_world
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from howm.data.dataset import Amounts, make_dataset
from howm.data.episodes import Episodes
from howm.data.rollouts import Rollouts
from howm.data.transitions import FrameIndex, PictureBatch, Transitions, hold_out
from howm.errors import HowmError
from howm.worlds.grid import Grid
from howm.worlds.registry import make_world

WORLD = make_world("rush_hour", 6, grid=(2, 3), cell_pixels=5)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def play(scenes: list[list[int]], steps: int, seed: int = 0) -> Episodes:
    """One episode per scene; what the actions do is of no concern here."""
    ids = np.array(scenes)
    states = WORLD.reset(np.repeat(ids, steps + 1, axis=0), rng(seed)).reshape(len(ids), steps + 1, -1, 1)
    return Episodes(rng(seed).integers(24, size=(len(ids), steps)), ids, states, WORLD)


def as_pixels(episodes: Episodes) -> Episodes:
    """The same episodes as pictures."""
    rows, times = np.divmod(np.arange(len(episodes) * (episodes.steps + 1)), episodes.steps + 1)
    pictures = episodes.observe(rows, times).reshape(len(episodes), episodes.steps + 1, *episodes.picture_shape)
    return Episodes(episodes.actions, episodes.scene_ids, pictures=pictures)


class Drawn(NamedTuple):
    episodes: Episodes
    index: FrameIndex

    @property
    def frames(self) -> int:
        return self.episodes.steps + 1

    def scene(self, frames: np.ndarray) -> np.ndarray:
        return self.episodes.scene_ids[frames // self.frames]


@st.composite
def drawn_transitions(draw: st.DrawFn, same_scene: float | None = None) -> Drawn:
    """Some transitions of any data, down to the two frames of one episode of one step."""
    scenes = draw(st.lists(st.sampled_from([[0, 1], [0, 2], [3, 5]]), min_size=1, max_size=6))
    episodes = play(scenes, draw(st.integers(1, 4)))
    transitions = Transitions(episodes, draw(st.floats(0, 1)) if same_scene is None else same_scene)
    chosen = draw(st.lists(st.integers(0, len(transitions) - 1), min_size=1, max_size=50))
    return Drawn(episodes, transitions.index(np.array(chosen), rng(draw(seeds))))


# --- negatives ------------------------------------------------------------------------------------------------------


@given(drawn_transitions())
def test_a_negative_is_a_frame_and_never_the_frame_itself(drawn: Drawn) -> None:
    negative = drawn.index.negative_obs
    assert (negative != drawn.index.obs).all()
    assert ((negative >= 0) & (negative < len(drawn.episodes) * drawn.frames)).all()


def test_two_frames_are_each_others_negatives() -> None:
    transitions = Transitions(play([[0, 1]], 1))
    index = transitions.index(np.zeros(100, dtype=int), rng())
    assert set(index.obs) == {0}
    assert set(index.negative_obs) == {1}


@given(drawn_transitions(same_scene=1.0))
def test_at_one_all_negatives_are_of_the_same_scene(drawn: Drawn) -> None:
    assert (drawn.scene(drawn.index.negative_obs) == drawn.scene(drawn.index.obs)).all()


@given(drawn_transitions(same_scene=0.0))
def test_at_zero_all_negatives_are_of_other_scenes_where_there_are_others(drawn: Drawn) -> None:
    others = len(np.unique(drawn.episodes.scene_index)) > 1
    same = (drawn.scene(drawn.index.negative_obs) == drawn.scene(drawn.index.obs)).all(axis=1)
    assert (same != others).all()


def test_the_share_of_the_same_scene_is_as_asked() -> None:
    episodes = play([[0, 1], [0, 2], [0, 1], [3, 5]], 3)
    for share in (0.2, 0.5):
        drawn = Drawn(episodes, Transitions(episodes, share).index(rng(1).integers(12, size=20_000), rng()))
        same = (drawn.scene(drawn.index.negative_obs) == drawn.scene(drawn.index.obs)).all(axis=1)
        assert abs(same.mean() - share) < 5 * np.sqrt(share * (1 - share) / 20_000)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_negatives_are_uniform_over_the_eligible_frames(share: float) -> None:
    scenes = [[0, 1], [3, 5], [0, 1], [0, 2]]
    transitions = Transitions(play(scenes, 2), share)
    frames = list(product(range(4), range(3)))  # (episode, time)
    draws = 4_000
    for number, (episode, time) in enumerate(product(range(4), range(2))):
        same = [other for other in frames if scenes[other[0]] == scenes[episode] and other != (episode, time)]
        different = [other for other in frames if scenes[other[0]] != scenes[episode]]
        expected = {other: share / len(same) for other in same} | {
            other: (1 - share) / len(different) for other in different
        }
        index = transitions.index(np.full(draws, number), rng(number))
        found = Counter(divmod(int(negative), 3) for negative in index.negative_obs)
        assert set(found) == {other for other, chance in expected.items() if chance > 0}
        for other, chance in expected.items():
            assert abs(found[other] / draws - chance) <= 5 * np.sqrt(chance * (1 - chance) / draws)


def test_without_ids_all_other_frames_are_eligible() -> None:
    episodes = Episodes(np.zeros((2, 1), dtype=int), pictures=np.zeros((2, 2, 1, 1, 3), dtype=np.uint8))
    for share in (0.0, 0.5, 1.0):
        index = Transitions(episodes, share).index(np.full(500, 1), rng())
        assert set(index.negative_obs) == {0, 1, 3}


# --- batches --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 25), seeds)
def test_a_pass_has_every_transition_once(episodes: int, steps: int, size: int, seed: int) -> None:
    transitions = Transitions(play([[0, 1]] * episodes, steps))
    batches = list(transitions.batches(size, rng(seed)))
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert 1 <= len(batches[-1]) <= size
    obs = np.concatenate([batch.obs for batch in batches])
    expected = [episode * (steps + 1) + time for episode in range(episodes) for time in range(steps)]
    assert sorted(obs) == expected
    assert len(transitions) == len(expected)
    for batch in batches:
        assert (batch.next_obs == batch.obs + 1).all()
        episode, time = np.divmod(batch.obs, steps + 1)
        assert (batch.action == transitions.episodes.actions[episode, time]).all()


def test_passes_are_seeded_and_in_random_order() -> None:
    transitions = Transitions(play([[0, 1], [0, 2]] * 5, 4))
    (first,), (again,), (other,) = (list(transitions.batches(100, rng(seed))) for seed in (0, 0, 1))
    assert (first.obs == again.obs).all()
    assert (first.negative_obs == again.negative_obs).all()
    assert (first.obs != other.obs).any()
    assert (np.diff(first.obs) < 0).any()


def test_a_batch_shows_what_happened() -> None:
    dataset = make_dataset("rush_hour", 6, 3, grid=Grid(3, 4), cell_pixels=5, amounts=Amounts(20, 4, 10, 2))
    transitions = Transitions(dataset.train)
    index = next(transitions.batches(30, rng()))
    batch = transitions.load(index)
    assert len(batch) == len(index) == 30
    assert batch.action.dtype == torch.int64
    ids, cells = dataset.train.scene_ids, dataset.train.states[..., 0]
    for name in ("obs", "next_obs", "negative_obs"):
        pictures = getattr(batch, name)
        assert pictures.dtype == torch.uint8
        assert pictures.shape == (30, 15, 20, 3)
        for picture, frame in zip(pictures, getattr(index, name), strict=True):
            episode, time = divmod(int(frame), 5)
            by_hand = dataset.world.renderer.render(ids[[episode]], cells[episode, [time]])[0]
            assert np.array_equal(picture.numpy(), by_hand)
    for row in range(30):
        episode, time = divmod(int(index.obs[row]), 5)
        action = int(batch.action[row])
        heading = dataset.world.library.objects[action // 4].heading
        before = [divmod(int(cell), 4) for cell in cells[episode, time]]
        slot = ids[episode].tolist().index(action // 4)
        after, _ = plain_world.move(3, 4, before, slot, (heading + action) % 4)
        shown = dataset.world.renderer.render(ids[[episode]], np.array([[4 * y + x for y, x in after]]))
        assert np.array_equal(batch.next_obs[row].numpy(), shown[0])


def test_privileged_ids_are_those_of_each_frames_own_scene() -> None:
    episodes = play([[0, 1], [0, 2], [3, 5]] * 3, 3)
    transitions = Transitions(episodes, 0.3)
    index = next(transitions.batches(27, rng()))
    batch = transitions.load(index)
    assert np.array_equal(batch.privileged.object_ids.numpy(), episodes.scene_ids[index.obs // 4])
    assert np.array_equal(batch.negative_privileged.object_ids.numpy(), episodes.scene_ids[index.negative_obs // 4])
    assert batch.privileged.object_ids.dtype == torch.int64
    pictures, privileged = batch.together()
    assert torch.equal(pictures[len(batch) :][: len(batch)], batch.next_obs)
    assert torch.equal(privileged.object_ids[2 * len(batch) :], batch.negative_privileged.object_ids)
    assert batch.without_privileged().together()[1] is None
    nameless = Episodes(episodes.actions, pictures=as_pixels(episodes).pictures)
    assert Transitions(nameless).load(index).privileged is None


def all_tensors(batch: PictureBatch) -> list[torch.Tensor]:
    assert batch.privileged is not None
    assert batch.negative_privileged is not None
    ids = [batch.privileged.object_ids, batch.negative_privileged.object_ids]
    return [batch.obs, batch.action, batch.next_obs, batch.negative_obs, *ids]


def test_imported_pictures_serve_like_states() -> None:
    dataset = make_dataset("shapes", 6, 3, cell_pixels=5, amounts=Amounts(20, 4, 10, 2))
    states, pixels = Transitions(dataset.train, 0.4), Transitions(as_pixels(dataset.train), 0.4)
    assert pixels.episodes.states is None
    for one, other in zip(states.batches(30, rng(5)), pixels.batches(30, rng(5)), strict=True):
        for a, b in zip(all_tensors(states.load(one)), all_tensors(pixels.load(other)), strict=True):
            assert torch.equal(a, b)
    one, other = Rollouts(dataset.eval), Rollouts(as_pixels(dataset.eval))
    assert torch.equal(one.observe(2, slice(3, 9)), other.observe(2, slice(3, 9)))
    assert torch.equal(one.actions(2), other.actions(2))
    assert np.array_equal(one.scene_index, other.scene_index)
    assert np.array_equal(one.picture_labels(2), other.picture_labels(2))


def test_a_batch_moves_to_a_device_whole() -> None:
    transitions = Transitions(play([[0, 1]], 3))
    batch = transitions.load(next(transitions.batches(3, rng())))
    assert {tensor.device.type for tensor in all_tensors(batch)} == {"cpu"}
    assert {tensor.device.type for tensor in all_tensors(batch.to("meta"))} == {"meta"}
    nameless = PictureBatch(batch.obs, batch.action, batch.next_obs, batch.negative_obs)
    assert nameless.to("meta").privileged is None


# --- episodes to choose the best checkpoint by ----------------------------------------------------------------------


@given(st.integers(2, 40), st.floats(0.01, 0.5), seeds)
def test_held_out_episodes_are_apart(count: int, share: float, seed: int) -> None:
    episodes = play([[0, 1]] * count, 1)
    numbered = Episodes(np.arange(count)[:, None], episodes.scene_ids, episodes.states, WORLD)
    kept, held = hold_out(numbered, share, rng(seed))
    assert sorted([*kept.actions.ravel(), *held.actions.ravel()]) == list(range(count))
    assert len(held) == max(1, round(share * count))
    assert len(kept) >= 1
    again = hold_out(numbered, share, rng(seed))
    assert np.array_equal(again[0].actions, kept.actions)
    assert np.array_equal(again[1].actions, held.actions)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.floats(0.01, 0.9), seeds)
def test_every_scene_keeps_an_episode_to_learn_from(sizes: list[int], share: float, seed: int) -> None:
    pairs = [[i, j] for i in range(5) for j in range(i + 1, 5)]
    episodes = play([scene for scene, size in zip(pairs, sizes, strict=False) for _ in range(size)], 1)
    if max(sizes) == 1:
        with pytest.raises(HowmError, match="one episode only" if sum(sizes) > 1 else "leaves none"):
            hold_out(episodes, share, rng(seed))
        return
    count = max(1, round(share * len(episodes)))
    if count == len(episodes):
        return
    kept, held = hold_out(episodes, share, rng(seed))
    assert kept.scenes == episodes.scenes >= held.scenes
    assert len(held) == min(count, len(episodes) - len(sizes))


def test_held_out_episodes_depend_on_the_seed() -> None:
    episodes = Episodes(np.arange(50)[:, None])
    assert not np.array_equal(hold_out(episodes, 0.3, rng(0))[1].actions, hold_out(episodes, 0.3, rng(1))[1].actions)


# --- paths for evaluation -------------------------------------------------------------------------------------------


def test_rollouts_are_the_episodes_from_their_beginning() -> None:
    episodes = play([[0, 1], [0, 2], [3, 5]], 4)
    rollouts = Rollouts(episodes)
    assert (len(rollouts), rollouts.steps) == (3, 4)
    actions = rollouts.actions(2)
    assert actions.dtype == torch.int64
    assert np.array_equal(actions.numpy(), episodes.actions[:, :2])
    for time in range(5):
        shown = rollouts.observe(time, slice(1, 3))
        assert np.array_equal(shown.numpy(), WORLD.render(episodes.scene_ids[1:], episodes.states[1:, time]))
        known = rollouts.privileged(time, slice(1, 3))
        assert np.array_equal(known.object_ids.numpy(), episodes.scene_ids[1:])
        masks = WORLD.masks(episodes.scene_ids[1:], episodes.states[1:, time])
        assert np.array_equal(known.find_masks().numpy(), masks)
        assert np.array_equal(known[1:].find_masks().numpy(), masks[1:])
    assert rollouts.privileged(0, slice(1, 3)).to("meta").object_ids.device.type == "meta"
    assert Rollouts(as_pixels(episodes)).privileged(0, slice(1, 3)).find_masks is None
    assert Rollouts(Episodes(episodes.actions)).privileged(0, slice(1, 3)) is None


def test_equal_labels_are_equal_pictures() -> None:
    episodes = play([[0, 1], [0, 2], [0, 1], [1, 2]] * 3, 3)
    labels = Rollouts(episodes).picture_labels(2)
    assert labels.shape == (12, 3)
    states = [
        (tuple(episodes.scene_ids[row]), tuple(episodes.states[row, time, :, 0]))
        for row in range(12)
        for time in range(3)
    ]
    label_of = dict(zip(states, labels.ravel().tolist(), strict=True))
    assert [label_of[state] for state in states] == labels.ravel().tolist()
    assert len(set(label_of.values())) == len(label_of) < len(states)


def reachable(start: list[tuple[int, int]], steps: int) -> set[tuple[tuple[int, int], ...]]:
    """Where any sequence of actions may end on the small grid."""
    states = {tuple(start)}
    for _ in range(steps):
        states = {
            tuple(plain_world.move(2, 3, list(state), slot, direction)[0])
            for state in states
            for slot, direction in product(range(len(start)), range(4))
        }
    return states


@pytest.mark.parametrize("moving", [None, 0.9])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_counterfactual_ends_can_be_reached(moving: float | None, steps: int) -> None:
    episodes = play([[0, 1], [2, 3]], 4)
    ends = Rollouts(replace(episodes, moving=moving)).near_misses(steps, 200, rng())[..., 0]
    assert ends.shape == (2, 200, 2)
    for row in range(2):
        start = [divmod(int(cell), 3) for cell in episodes.states[row, 0, :, 0]]
        found = {tuple(divmod(int(cell), 3) for cell in cells) for cells in ends[row]}
        assert found <= reachable(start, steps)
        assert len(found) > 1
        assert (ends[row, :, 0] != ends[row, :, 1]).all()


def test_counterfactuals_are_seeded_and_near() -> None:
    dataset = make_dataset("rush_hour", 10, 5, amounts=Amounts(100, 2, 100, 6))
    rollouts = Rollouts(dataset.eval)
    ends = rollouts.near_misses(4, 20, rng(3))
    assert np.array_equal(ends, rollouts.near_misses(4, 20, rng(3)))
    assert not np.array_equal(ends, rollouts.near_misses(4, 20, rng(4)))
    positions = dataset.world.board.positions
    start = dataset.eval.states[:, :1]
    moved = abs(positions(ends.astype(int)) - positions(start.astype(int))).sum(axis=(2, 3, 4))
    assert moved.max() <= 4  # one cell a step


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Transitions(play([[0, 1]], 1), 1.1), ["same_scene must be in [0, 1], got 1.1"]),
        (lambda: Transitions(play([[0, 1]], 1), -0.1), ["same_scene", "got -0.1"]),
        (lambda: hold_out(play([[0, 1]] * 4, 1), 0.0, rng()), ["hold_out", "got 0.0"]),
        (lambda: hold_out(play([[0, 1]] * 4, 1), 1.0, rng()), ["1.0"]),
        (lambda: hold_out(play([[0, 1]], 1), 0.1, rng()), ["of 1 training episodes"]),
        (lambda: Rollouts(as_pixels(play([[0, 1]], 1))).near_misses(1, 2, rng()), ["no states"]),
    ],
)
def test_what_cannot_be_is_one_clear_error(make: object, words: list[str]) -> None:
    with pytest.raises(HowmError) as error:
        make()  # type: ignore[operator]
    assert all(word in str(error.value) for word in words)
