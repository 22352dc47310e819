"""Datasets: the paper's amounts, the rules that a certificate checks, seeds, and play that obeys the world."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import plain_world
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SplitRequest, seeds, split_requests, worlds

from howm.data.dataset import Amounts, Dataset, make_dataset
from howm.data.episodes import PARTS, Episodes
from howm.errors import HowmError
from howm.worlds.grid import Grid
from howm.worlds.library import KINDS
from howm.worlds.scenes import Scene
from howm.worlds.spec import WorldSpec

SMALL = Amounts(train_episodes=30, train_steps=6, eval_episodes=40, eval_steps=3)


def small_dataset(world: str = "shapes", seed: int = 0, **options: Any) -> Dataset:
    return make_dataset(world, 6, 3, seed, **{"amounts": SMALL} | options)


def episodes_by_scene(episodes: Episodes) -> Counter[Scene]:
    assert episodes.scene_ids is not None
    return Counter(tuple(ids) for ids in episodes.scene_ids.tolist())


def equal(one: Episodes, other: Episodes) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("actions", "scene_ids", "states"))


def violations(dataset: Dataset) -> list[str]:
    found: list[str] = dataset.certificate()["violations"]
    return found


def test_default_amounts_are_those_of_the_paper() -> None:
    dataset = make_dataset("shapes", 10, 5)
    assert dataset.split is not None
    assert dataset.world is not None
    assert dataset.spec == WorldSpec(10, 5, 50, 50, 10, 4)
    assert (len(dataset.train), dataset.train.steps) == (1_000, 100)
    assert episodes_by_scene(dataset.train) == dict.fromkeys(dataset.split.train.scenes, 10)
    for episodes, scenes in ((dataset.eval, dataset.split.eval), (dataset.eval_seen, dataset.split.train)):
        assert (len(episodes), episodes.steps) == (10_000, 10)
        assert episodes_by_scene(episodes) == dict.fromkeys(scenes.scenes, 100)
    assert len(dataset.split.train) == len(dataset.split.eval) == 100
    assert violations(dataset) == []


@given(split_requests(), worlds, st.integers(0, 30), st.integers(1, 60), st.integers(1, 4), st.integers(1, 3))
def test_every_dataset_keeps_the_rules(
    asked: SplitRequest, world: str, more: int, eval_episodes: int, steps: int, eval_steps: int
) -> None:
    amounts = Amounts(asked.train + more, steps, eval_episodes, eval_steps)
    dataset = make_dataset(
        world, asked.n, asked.k, asked.seed, amounts=amounts, train_scenes=asked.train, eval_scenes=asked.eval,
        grid=Grid(3, 4),
    )  # fmt: skip
    assert violations(dataset) == []
    train, unseen, seen = (episodes_by_scene(dataset.part(name)) for name in PARTS)
    assert not set(train) & set(unseen)
    assert set(seen) <= set(train)
    assert sorted(seen.values()) == sorted(unseen.values())
    for counts in (train, unseen, seen):
        assert max(counts.values()) - min(counts.values()) <= 1
    assert sum(train.values()) == asked.train + more
    assert sum(seen.values()) == sum(unseen.values()) == eval_episodes


def test_pools_have_as_many_scenes_as_the_smaller_set() -> None:
    dataset = small_dataset(train_scenes=12, eval_scenes=4)
    assert len(episodes_by_scene(dataset.train)) == 12
    assert len(episodes_by_scene(dataset.eval)) == len(episodes_by_scene(dataset.eval_seen)) == 4
    assert violations(dataset) == []


def test_consecutive_evaluation_scenes() -> None:
    dataset = small_dataset(consecutive=True)
    runs = {tuple(sorted((start + j) % 6 for j in range(3))) for start in range(6)}
    assert set(episodes_by_scene(dataset.eval)) == runs
    assert not runs & set(episodes_by_scene(dataset.train))
    assert violations(dataset) == []


@given(st.integers(1, 30), seeds)
def test_some_episodes_are_spread_over_the_scenes_in_whatever_order_they_stand(count: int, seed: int) -> None:
    episodes = small_dataset().eval
    order = np.random.default_rng(seed).permutation(len(episodes))[:30]
    some = episodes.select(order).subsample(count)
    assert len(some) == count
    found, there = episodes_by_scene(some), episodes_by_scene(episodes.select(order))
    assert found <= there
    for scene in there:
        assert abs(found[scene] - there[scene] * count / 30) < 1
    with pytest.raises(HowmError, match="episodes=31"):
        episodes.select(order).subsample(31)


def test_where_nothing_is_unseen_the_certificate_says_so() -> None:
    dataset = make_dataset("shapes", 3, 3, amounts=SMALL)
    certificate = dataset.certificate()
    assert certificate["unseen"] == "no unseen scene exists"
    assert certificate["violations"] == []
    assert small_dataset().certificate()["unseen"] == "eval scenes are unseen in training"


# --- the rules, broken one by one -----------------------------------------------------------------------------------


def changed(dataset: Dataset, part: str, **arrays: np.ndarray) -> Dataset:
    return replace(dataset, **{part: replace(dataset.part(part), **arrays)})


def assert_violates(dataset: Dataset, *words: str) -> None:
    assert [text for text in violations(dataset) if all(word in text for word in words)], violations(dataset)


@pytest.mark.parametrize(("part", "foreign"), [("train", "eval"), ("eval", "train"), ("eval_seen", "eval")])
def test_a_scene_of_the_wrong_set_is_named(part: str, foreign: str) -> None:
    dataset = small_dataset()
    ids = dataset.part(part).scene_ids.copy()
    ids[0] = dataset.part(foreign).scene_ids[0]
    broken = changed(dataset, part, scene_ids=ids)
    assert_violates(broken, "scenes", part, str(tuple(ids[0].tolist())))
    seen = "eval scenes are unseen" if part == "eval_seen" else "1 eval scenes are seen"
    assert broken.certificate()["unseen"] == f"{seen} in training"


@pytest.mark.parametrize("part", PARTS)
def test_an_altered_cell_is_named(part: str) -> None:
    dataset = small_dataset()
    states = dataset.part(part).states.copy()
    cells = states[..., 0]
    free = set(range(25)) - set(cells[4, 2].tolist())
    cells[4, 2, 1] = max(free, key=lambda cell: abs(cell - int(cells[4, 2, 1])))
    assert_violates(changed(dataset, part, states=states), "dynamics", "2 transitions", part)


@pytest.mark.parametrize("cell", ["shared", 25, 200])
def test_objects_in_one_cell_or_off_the_grid_are_named(cell: str | int) -> None:
    dataset = small_dataset()
    states = dataset.train.states.copy()
    cells = states[..., 0]
    cells[3, 1, 0] = cells[3, 1, 2] if cell == "shared" else cell
    assert_violates(
        changed(dataset, "train", states=states), "states", "train", "cell" if cell == "shared" else "outside"
    )


@pytest.mark.parametrize("part", PARTS)
def test_an_action_of_an_absent_object_is_named(part: str) -> None:
    dataset = small_dataset()
    episodes = dataset.part(part)
    absent = min(set(range(6)) - set(episodes.scene_ids[7].tolist()))
    actions = episodes.actions.copy()
    actions[7, 0] = 4 * absent
    assert_violates(changed(dataset, part, actions=actions), "actions: 1 ", part, "absent")


def test_unequal_pools_are_named() -> None:
    dataset = small_dataset()
    fewer = dataset.eval_seen.select(np.arange(39))
    shorter = replace(
        dataset.eval_seen, actions=dataset.eval_seen.actions[:, :2], states=dataset.eval_seen.states[:, :3]
    )
    lumped = dataset.eval_seen.select(np.zeros(40, dtype=int))
    for pool in (fewer, shorter, lumped):
        assert_violates(replace(dataset, eval_seen=pool), "pools")
    # Where nobody knows the objects, the pools can still be compared.
    nameless = [replace(pool, scene_ids=None) for pool in (dataset.eval_seen, fewer)]
    imported = replace(dataset, split=None, eval=replace(dataset.eval, scene_ids=None), eval_seen=nameless[0])
    assert violations(imported) == []
    assert_violates(replace(imported, eval_seen=nameless[1]), "pools")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("named", [True, False])
def test_a_part_without_data_is_named(part: str, named: bool) -> None:
    dataset = small_dataset()
    if not named:
        nameless = {name: replace(episodes, scene_ids=None) for name, episodes in dataset.parts()}
        dataset = replace(dataset, split=None, **nameless)
    episodes = dataset.part(part)
    no_steps = replace(episodes, actions=episodes.actions[:, :0], states=episodes.states[:, :1])
    for empty in (episodes.select(np.arange(0)), no_steps):
        assert_violates(replace(dataset, **{part: empty}), "emptiness", part)


def test_uneven_training_scenes_are_named() -> None:
    dataset = small_dataset()
    first = dataset.train.scene_index == dataset.train.scene_index[0]
    assert_violates(replace(dataset, train=dataset.train.select(np.flatnonzero(~first))), "1 training scenes have no")
    twice = np.concatenate([np.arange(30), np.flatnonzero(first)])
    assert_violates(replace(dataset, train=dataset.train.select(twice)), "train has more episodes in some scenes")


def test_a_broken_split_is_named() -> None:
    dataset = small_dataset()
    train = dataset.split.train
    both = replace(dataset.split.eval, scenes=(*dataset.split.eval.scenes[1:], train.scenes[0]))
    assert_violates(replace(dataset, split=replace(dataset.split, eval=both)), "disjointness", str(train.scenes[0]))
    covered = replace(train, scenes=tuple(scene for scene in train.scenes if 5 not in scene))
    assert_violates(replace(dataset, split=replace(dataset.split, train=covered)), "coverage", "[5]")


# --- seeds ----------------------------------------------------------------------------------------------------------


@given(worlds, seeds)
@settings(max_examples=20)
def test_the_same_seed_gives_the_same_data(world: str, seed: int) -> None:
    one, again, other = small_dataset(world, seed), small_dataset(world, seed), small_dataset(world, seed + 1)
    assert (one.world.library, one.split) == (again.world.library, again.split)
    assert all(equal(one.part(name), again.part(name)) for name in PARTS)
    assert one.split != other.split
    assert not any(equal(one.part(name), other.part(name)) for name in PARTS)


def test_library_and_split_have_seeds_of_their_own() -> None:
    dataset, other_library, other_seed = small_dataset(), small_dataset(library_seed=1), small_dataset(seed=1)
    assert other_library.world.library != dataset.world.library
    assert other_library.split == dataset.split
    assert all(equal(other_library.part(name), dataset.part(name)) for name in PARTS)  # Shapes: looks move nothing
    assert other_seed.world.library == dataset.world.library
    assert other_seed.split != dataset.split


def test_the_parts_have_random_streams_of_their_own() -> None:
    dataset = small_dataset()
    shorter = small_dataset(amounts=replace(SMALL, train_episodes=20, train_steps=2))
    assert equal(shorter.eval, dataset.eval)
    assert equal(shorter.eval_seen, dataset.eval_seen)
    assert not np.array_equal(dataset.eval.states, dataset.eval_seen.states)


# --- play -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", KINDS)
@pytest.mark.parametrize("grid", [Grid(5, 5), Grid(2, 3)])
def test_play_is_what_the_plain_world_does(world: str, grid: Grid) -> None:
    dataset = small_dataset(world, grid=grid)
    for name in PARTS:
        episodes = dataset.part(name)
        for row in range(0, len(episodes), 5):
            ids = episodes.scene_ids[row].tolist()
            states = [[divmod(int(cell), grid.width) for cell in cells] for cells in episodes.states[row, :, :, 0]]
            assert all(len(set(state)) == 3 for state in states)
            for time, action in enumerate(episodes.actions[row].tolist()):
                heading = dataset.world.library.objects[action // 4].heading or 0
                after, _ = plain_world.move(
                    grid.height, grid.width, states[time], ids.index(action // 4), (heading + action) % 4
                )
                assert after == states[time + 1]


@pytest.mark.parametrize("world", KINDS)
def test_nine_transitions_of_ten_move_something(world: str) -> None:
    dataset = make_dataset(world, 10, 5, amounts=Amounts(400, 50, 100, 10))
    moved = (dataset.train.states[:, 1:] != dataset.train.states[:, :-1]).any(axis=(2, 3))
    assert abs(moved.mean() - 0.9) < 5 * np.sqrt(0.9 * 0.1 / moved.size)


@pytest.mark.parametrize(("moving", "share"), [(1.0, 1.0), (0.0, 0.0)])
def test_the_moving_share_is_an_option(moving: float, share: float) -> None:
    dataset = small_dataset(amounts=replace(SMALL, moving=moving), grid=Grid(2, 3))
    assert (dataset.train.states[:, 1:] != dataset.train.states[:, :-1]).any(axis=(2, 3)).mean() == share
    assert dataset.moving == dataset.eval.moving == dataset.eval.subsample(3).moving == moving


def test_uniform_play_chooses_all_actions_equally_often() -> None:
    dataset = make_dataset("shapes", 4, 4, amounts=Amounts(500, 40, 1, 1, moving=None))
    counts = np.bincount(dataset.train.actions.ravel(), minlength=16)
    assert abs(counts / counts.sum() - 1 / 16).max() < 5 * np.sqrt(1 / 16 / counts.sum())


# --- episodes -------------------------------------------------------------------------------------------------------


def test_pictures_are_those_of_the_states() -> None:
    dataset = small_dataset("rush_hour", grid=Grid(3, 4), cell_pixels=6)
    rows, times = np.array([0, 7, 7, 29]), np.array([6, 0, 5, 1])
    pictures = dataset.train.observe(rows, times)
    assert dataset.train.picture_shape == pictures.shape[1:] == (18, 24, 3)
    for picture, row, time in zip(pictures, rows, times, strict=True):
        expected = np.zeros((18, 24, 3), dtype=np.uint8)
        for i, cell in zip(dataset.train.scene_ids[row], dataset.train.states[row, time, :, 0], strict=True):
            y, x = 6 * (int(cell) // 4), 6 * (int(cell) % 4)
            expected[y : y + 6, x : x + 6] = dataset.world.renderer.sprites[i]
        assert np.array_equal(picture, expected)
    stored = Episodes(dataset.train.actions[:2], pictures=pictures.reshape(2, 2, 18, 24, 3))
    assert stored.picture_shape == (18, 24, 3)
    assert np.array_equal(stored.observe(np.array([1, 0]), 1), pictures[[3, 1]])


def test_selected_episodes_keep_everything() -> None:
    episodes = small_dataset().train
    some = episodes.select(np.array([4, 2]))
    assert len(some) == 2
    assert some.world is episodes.world
    for name in ("actions", "scene_ids", "states"):
        assert np.array_equal(getattr(some, name), getattr(episodes, name)[[4, 2]])
    pixels = Episodes(episodes.actions, pictures=np.arange(30 * 21).reshape(30, 7, 1, 1, 3))
    assert pixels.select(np.array([9])).pictures.ravel().tolist() == list(range(189, 210))


def test_scene_index_is_equal_for_equal_scenes() -> None:
    episodes = small_dataset().train
    index = {}
    for ids, number in zip(episodes.scene_ids.tolist(), episodes.scene_index.tolist(), strict=True):
        assert index.setdefault(tuple(ids), number) == number
    assert len(set(index.values())) == len(index)
    assert Episodes(episodes.actions).scene_index.tolist() == [0] * 30


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Amounts(train_episodes=0), ["train_episodes=0"]),
        (lambda: Amounts(eval_steps=-1), ["eval_steps=-1"]),
        (lambda: Amounts(moving=1.5), ["moving", "[0, 1]", "1.5"]),
        (lambda: small_dataset(amounts=replace(SMALL, train_episodes=9)), ["train_episodes=9", "give 10 or more"]),
        (lambda: make_dataset("shapes", "10", 5), ["n='10'", "integer"]),
        (lambda: make_dataset("shapes", 10, 5.5), ["k=5.5", "integer"]),
        (lambda: make_dataset("shapes", 10, 5, "0"), ["seed='0'", "integer"]),
        (lambda: make_dataset("shapes", -5, 5), ["n=-5", "1 or more"]),
        (lambda: make_dataset("shapes", 10**23, 5), [f"n={10**23}", "13030"]),
        (lambda: Amounts(train_episodes="9"), ["train_episodes='9'", "integer"]),
        (lambda: small_dataset(grid=Grid(1, 2)), ["k=3", "1x2"]),
        (lambda: small_dataset(seed=-1), ["-1"]),
        (lambda: small_dataset("cubes"), ["cubes", "rush_hour"]),
        (lambda: small_dataset(cell_pixels=2), ["cell_pixels=2"]),
        (lambda: small_dataset().part("test"), ["test", "eval_seen"]),
        (lambda: Episodes(np.zeros((1, 1), dtype=int)).state(), ["no states"]),
    ],
)
def test_what_cannot_be_is_one_clear_error(make: Any, words: list[str]) -> None:
    with pytest.raises(HowmError) as error:
        make()
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)
