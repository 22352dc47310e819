"""The worlds of an exported page are those of Python: the same states, and pictures equal to the byte."""

import hashlib

import numpy as np
import pytest
from parity import needs_node, run_node

from howm import HowmError, make_world
from howm.explorer.export.page import SCRIPTS
from howm.explorer.export.world_data import world_data
from howm.worlds.presets import Free

STEPS = 10_000  # in each world
WORLDS = {
    "shapes": {},
    "rush_hour": {"grid": "4x6"},
    "free": {},
    "layers": {"depth": "scene", "brightness": 0.3},
    "textured": {"textured": True},
    "push": {},
    "team": {},
    "classes": {},
    "changing": {"contact": "slide", "kind": "rush_hour", "background": "plain"},
    "grand": {"background_per": "episode"},
}
TURNING = {"kind": "rush_hour", "turn": 30, "background": "texture", "background_per": "dataset"}


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


@needs_node
@pytest.mark.parametrize("name", [*WORLDS, "turning"])
def test_states_and_pictures_are_equal(name, tmp_path):
    world = make_world("free", n=9, **TURNING) if name == "turning" else make_world(name, n=9, seed=1, **WORLDS[name])
    rng = np.random.default_rng(5)
    steps, k = 100, 4
    scenes = np.stack([np.sort(rng.choice(world.n, k, replace=False)) for _ in range(STEPS // steps)])
    start = world.reset(scenes, rng)
    actions = rng.integers(world.n * world.actions_per_object, size=(len(scenes), steps))  # also of absent objects
    present = scenes[np.arange(len(scenes))[:, None], rng.integers(k, size=actions.shape)]
    actions = np.where(rng.random(actions.shape) < 0.95, present * 4 + actions % 4, actions)
    states = [start]
    for action in actions.T:
        states.append(world.step(scenes, states[-1], action))

    episodes = [
        {"scene": scene.tolist(), "start": begin.tolist(), "actions": taken.tolist()}
        for scene, begin, taken in zip(scenes, start, actions, strict=True)
    ]
    found = run_node("run_world.js", {"world": world_data(world), "episodes": episodes}, tmp_path, SCRIPTS)

    played = np.stack(states, axis=1)
    assert np.array_equal(np.array([episode["states"] for episode in found]), played)
    assert (played[:, 1:] != played[:, :-1]).any(axis=(2, 3)).mean() > 0.2, "little has moved"
    for scene, episode, expected in zip(scenes, found, played, strict=True):
        pictures = world.render(np.repeat(scene[None], len(expected), axis=0), expected)
        assert episode["pictures"] == [digest(picture) for picture in pictures]
        assert episode["masks"] == digest(world.masks(scene[None], expected[-1:])[0].astype(np.uint8))


def test_rules_of_your_own_are_refused():
    class Slippery(Free):
        def step(self, scenes, state, action):
            return super().step(scenes, state, action)

    with pytest.raises(HowmError, match="the world Slippery cannot be put into a page"):
        world_data(Slippery(n=4))
