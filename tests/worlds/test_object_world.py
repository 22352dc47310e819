"""Worlds composed of parts, against the plain twin, and what every combination must keep."""

import numpy as np
import plain_boxes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howm.errors import HowmError
from howm.worlds.object_world import ObjectWorld
from howm.worlds.traits import CLASSES

CONTACTS = ("block", "slide", "overlap", "push", "team")


@st.composite
def worlds(draw: st.DrawFn) -> ObjectWorld:
    """Any space, contact and classes, with any objects."""
    return ObjectWorld(
        n=draw(st.integers(2, 8)),
        seed=draw(st.integers(0, 3)),
        kind=draw(st.sampled_from(("shapes", "rush_hour"))),
        space=draw(st.sampled_from(("grid", "free"))),
        contact=draw(st.sampled_from(CONTACTS)),
        classes=draw(st.sampled_from(("none", "hidden", "visible"))),
        step_size=draw(st.sampled_from((0.1, 0.05, 0.23))),
    )


def scenes_of(world: ObjectWorld, episodes: int, rng: np.random.Generator) -> np.ndarray:
    k = int(rng.integers(1, min(world.n, 6) + 1))
    return np.sort(rng.random((episodes, world.n)).argsort(axis=1)[:, :k], axis=1)


def boxes_of(world: ObjectWorld, scene: np.ndarray, state: np.ndarray) -> list[plain_boxes.Box]:
    shift = 0.5 if world.space == "grid" else 0.0
    return [
        plain_boxes.Box(
            float(row) + shift, float(column) + shift, float(world.half[i]), CLASSES[world.object_classes[i]],
            int(world.object_teams[i]),
        )
        for i, (row, column) in zip(scene, state[:, :2], strict=True)
    ]  # fmt: skip


@settings(max_examples=150)
@given(worlds(), st.integers(0, 2**32 - 1))
def test_steps_are_those_of_the_plain_twin(world, seed):
    rng = np.random.default_rng(seed)
    scenes = scenes_of(world, 4, rng)
    state = world.reset(scenes, rng)
    height, width = world.cells if world.space == "grid" else (1.0, 1.0)
    shift, stride = (0.5, 1.0) if world.space == "grid" else (0.0, world.step_size)
    rule = plain_boxes.RULES[world.contact]
    for _ in range(6):
        action = rng.integers(4 * world.n, size=len(scenes))
        after = world.step(scenes, state, action)
        for e, (scene, i) in enumerate(zip(scenes, action // 4, strict=True)):
            boxes = boxes_of(world, scene, state[e])
            if i in scene:
                direction = (int(world.library.headings[i]) + int(action[e]) % 4) % 4
                boxes = rule(boxes, scene.tolist().index(i), direction, stride, height, width)
            expected = [(box.row - shift, box.column - shift) for box in boxes]
            np.testing.assert_allclose(after[e], expected, atol=1e-12)
        assert world.violations(scenes, after) == []
        state = after


@settings(max_examples=60)
@given(worlds(), st.integers(0, 2**32 - 1), st.sampled_from((None, 0.0, 0.9, 1.0)))
def test_play_is_made_of_steps(world, seed, moving):
    rng = np.random.default_rng(seed)
    scenes = scenes_of(world, 3, rng)
    states, actions = world.play(scenes, world.reset(scenes, rng), 5, moving, rng)
    for t in range(5):
        np.testing.assert_array_equal(world.step(scenes, states[:, t], actions[:, t]), states[:, t + 1])
        assert (scenes == actions[:, t, None] // 4).any(axis=1).all()


@pytest.mark.parametrize("contact", CONTACTS)
@pytest.mark.parametrize("space", ["grid", "free"])
def test_nine_of_ten_steps_move_something(space, contact):
    world = ObjectWorld(space=space, contact=contact)
    rng = np.random.default_rng(0)
    scenes = np.sort(rng.random((300, world.n)).argsort(axis=1)[:, :5], axis=1)
    states, _ = world.play(scenes, world.reset(scenes, rng), 20, 0.9, rng)
    moved = (states[:, 1:] != states[:, :-1]).any(axis=(2, 3)).mean()
    assert -0.015 < moved - 0.9 < (0.05 if contact == "slide" else 0.015)  # what slides is seldom blocked


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(("free", "grid")), st.sampled_from((30, 50)))
def test_pictures_are_those_of_the_plain_twin(seed, space, side):
    world = ObjectWorld(n=6, space=space, contact="overlap", size=(side, side), background="plain")
    rng = np.random.default_rng(seed)
    scenes = scenes_of(world, 1, rng)
    state = world.reset(scenes, rng)
    picture = world.render(scenes, state)[0]
    canvas = [[tuple(int(c) for c in (70, 76, 84))] * side for _ in range(side)]
    centres = (state[0, :, :2] + 0.5 * (space == "grid")) * world._unit
    for j in reversed(range(scenes.shape[1])):  # the smaller index is nearer
        item = world.library.objects[scenes[0, j]]
        sprite = world.sprites.alpha[scenes[0, j], 0, 1:-1, 1:-1].tolist()
        plain_boxes.draw(canvas, sprite, item.colour, *centres[j])
    assert np.abs(picture.astype(int) - np.array(canvas)).max() <= 1  # a coverage at a tie may round either way


def test_aligned_pictures_are_those_of_the_grid():
    """At the centres of cells antialiasing has nothing to do."""
    from howm.worlds.grid import Grid
    from howm.worlds.render import Renderer

    world = ObjectWorld(space="grid", contact="push")
    rng = np.random.default_rng(0)
    scenes = np.sort(rng.random((50, world.n)).argsort(axis=1)[:, :5], axis=1)
    state = world.reset(scenes, rng)
    cells = state[..., 0] * 5 + state[..., 1]
    np.testing.assert_array_equal(
        world.render(scenes, state), Renderer(world.library, Grid(5, 5)).render(scenes, cells)
    )


def test_nearer_objects_hide_farther_ones():
    world = ObjectWorld(contact="overlap")
    scenes = np.array([[0, 1]])
    state = np.array([[[0.5, 0.5], [0.5, 0.5]]])
    masks, shares = world.masks(scenes, state), world.visible(scenes, state)
    assert shares[0, 0] == 1
    assert shares[0, 1] < 1
    assert not (masks[0, 0] & masks[0, 1]).any()


def test_depth_by_scene_is_another_order_in_some_scenes():
    world = ObjectWorld(contact="overlap", depth="scene")
    rng = np.random.default_rng(0)
    scenes = np.sort(rng.random((40, world.n)).argsort(axis=1)[:, :3], axis=1)
    state = np.full((40, 3, 2), 0.5)
    nearest = world.visible(scenes, state).argmax(axis=1)
    assert set(nearest) == {0, 1, 2}
    np.testing.assert_array_equal(nearest, world.visible(scenes[::-1], state).argmax(axis=1)[::-1])


def test_a_push_moves_a_chain_and_a_heavy_object_stops_it():
    world = ObjectWorld(space="grid", contact="push")
    row = np.array([[[0, 0], [0, 1], [0, 2]]])
    scenes = np.array([[0, 1, 2]])
    east = np.array([1])
    assert world.step(scenes, row, east)[0, :, 1].tolist() == [1, 2, 3]
    assert world.step(scenes, row + np.array([0, 2]), east)[0, :, 1].tolist() == [2, 3, 4]  # the border stops it


def test_ghosts_pass_and_fixed_objects_stay():
    world = ObjectWorld(n=30, space="grid", contact="push", classes="hidden")
    of = {name: int(np.flatnonzero(world.object_classes == kind)[0]) for kind, name in enumerate(CLASSES)}

    def east(mover, other):
        ids = sorted((of[mover], of[other]))
        state = np.array([[[0, 0 if i == of[mover] else 1] for i in ids]])
        after = world.step(np.array([ids]), state, np.array([4 * of[mover] + 1]))
        return {name: int(after[0, ids.index(of[name]), 1]) for name in (mover, other)}

    assert east("movable", "ghost") == {"movable": 1, "ghost": 1}
    assert east("ghost", "movable") == {"ghost": 1, "movable": 1}
    assert east("movable", "heavy") == {"movable": 0, "heavy": 1}
    assert east("heavy", "movable") == {"heavy": 1, "movable": 2}
    assert east("fixed", "ghost") == {"fixed": 0, "ghost": 1}


def test_cars_turn_and_drive_where_they_face():
    world = ObjectWorld(n=4, kind="rush_hour", turn=90)
    car = int(np.flatnonzero(world.library.headings == 0)[0])
    scenes, state = np.array([[car]]), np.array([[[0.5, 0.5, 0.0]]])
    right = world.step(scenes, state, np.array([4 * car + 1]))
    assert right.tolist() == [[[0.5, 0.5, 1.0]]]
    np.testing.assert_allclose(world.step(scenes, right, np.array([4 * car])), [[[0.5, 0.6, 1.0]]])
    left = world.step(scenes, state, np.array([4 * car + 3]))
    assert left[0, 0, 2] == 3
    facing = world.render(scenes, right)[0]
    np.testing.assert_array_equal(facing, np.rot90(world.render(scenes, state)[0], -1))


@pytest.mark.parametrize("per", ["dataset", "scene", "episode"])
def test_textures_belong_to_what_they_are_said_to(per):
    world = ObjectWorld(background="texture", background_per=per)
    rng = np.random.default_rng(0)
    scenes = np.array([[0, 1], [0, 1], [2, 3]])
    state = world.reset(scenes, rng)
    state[..., :2] = 0.1  # all objects into a corner
    corner = world.render(scenes, state)[:, -10:, -10:]
    assert (corner[0] == corner[1]).all() == (per != "episode")
    assert (corner[0] == corner[2]).all() == (per == "dataset")


def test_noise_depends_on_the_state_alone():
    world = ObjectWorld(noise=0.05, background="plain")
    rng = np.random.default_rng(0)
    scenes = np.sort(rng.random((8, world.n)).argsort(axis=1)[:, :3], axis=1)
    state = world.reset(scenes, rng)
    pictures = world.render(scenes, state)
    np.testing.assert_array_equal(pictures[3:5], world.render(scenes[3:5], state[3:5]))
    other = state.copy()
    other[:, 0] += 1e-4
    assert (pictures != world.render(scenes, other)).mean() > 0.5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": (50, 51)}, "multiple of cells"),
        ({"cells": (5, 10)}, "square"),
        ({"noise": 2.0}, "noise must be in"),
        ({"step_size": 0.0}, "step_size"),
        ({"turn": 90}, "turn"),
        ({"turn": 50, "kind": "rush_hour"}, "turn"),
        ({"turn": 30, "kind": "rush_hour", "contact": "push"}, "contact=push"),
    ],
)
def test_impossible_settings_are_one_line(setting, message):
    with pytest.raises(HowmError, match=message):
        ObjectWorld(**setting)


def test_a_scene_without_room_is_one_line():
    with pytest.raises(HowmError, match="no room was found for k=30"):
        ObjectWorld(n=30).reset(np.arange(30)[None], np.random.default_rng(0))
