"""A world of three methods gets everything that Shapes and Rush Hour have; a broken one is told where."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium as gym
import h5py
import numpy as np
import pytest
import torch
from drift_world import Drift, TellingDrift
from gymnasium.utils.env_checker import check_env

import howm
from howm import Amounts, HowmError, Rollouts, SlotState, WorldModel, check_world, evaluate, load_dataset, make_dataset
from howm.cli.main import main
from howm.data.episodes import PARTS
from howm.data.storage import save_dataset
from howm.evaluation.equivariance import equivariance_error
from howm.evaluation.pools import NEAR_MISSES, _Pool
from howm.evaluation.rewards import reward_invariance_error
from howm.evaluation.segmentation import segmentation
from howm.worlds.envs.factored import FactoredActions
from howm.worlds.envs.single import WorldEnv
from howm.worlds.envs.vector import WorldVectorEnv
from howm.worlds.registry import WORLDS, describe_world, make_world, read_world
from howm.worlds.symmetry import Replacement
from howm.worlds.world import World

AMOUNTS = Amounts(train_episodes=12, train_steps=6, eval_episodes=40, eval_steps=4)


@pytest.fixture(scope="module")
def data():
    return make_dataset(Drift(6), k=3, amounts=AMOUNTS)


class Looking(WorldModel):
    """Sees the pixels, and predicts that nothing moves."""

    def __init__(self):
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def encode(self, pictures, privileged=None):
        return SlotState(pictures.flatten(1)[:, None].float())

    def step(self, state, action):
        return state

    def masks(self, pictures):
        """One per colour, found by the brightness of pixels."""
        return torch.stack([pictures.float().mean(-1) == 0, pictures.float().mean(-1) > 0], dim=1).float()

    def forward(self, batch):
        raise NotImplementedError


# ---- data ----


def test_play_keeps_the_rule_and_the_dynamics(data):
    episodes = data.train
    assert episodes.states.shape == (12, 7, 3, 2)
    assert episodes.actions.max() < 18
    moved = (episodes.states[:, 1:] != episodes.states[:, :-1]).any(axis=(2, 3))
    acted = episodes.actions // 3
    assert (acted[..., None] == episodes.scene_ids[:, None]).any(axis=2).all()
    assert 0.7 < moved.mean() < 1
    for moving, share in ((1.0, 1.0), (0.0, 0.0)):
        sure = make_dataset(Drift(6), k=3, amounts=replace(AMOUNTS, moving=moving)).train
        assert (sure.states[:, 1:] != sure.states[:, :-1]).any(axis=(2, 3)).mean() == pytest.approx(share, abs=0.05)


def test_the_default_play_is_distributed_as_the_fast_one():
    world = make_world("rush_hour", 4, grid=(2, 3))
    scenes = np.tile([0, 1, 2], (6000, 1))
    start = np.tile(world.reset(scenes[:1], np.random.default_rng(0)), (6000, 1, 1))
    for moving in (0.9, None):
        counts = [
            np.bincount(play(scenes, start, 1, moving, np.random.default_rng(1))[1][:, 0], minlength=16)
            for play in (world.play, lambda *given: World.play(world, *given))
        ]
        assert abs(counts[0] - counts[1]).max() < 200  # six standard deviations of the most frequent one
        assert ((counts[0] > 0) == (counts[1] > 0)).all()


def test_data_are_kept_and_checked(data, tmp_path):
    assert data.certificate()["violations"] == []
    assert (data.world_name, data.spec.actions, data.cell_pixels) == ("drift_world:Drift", 18, None)
    save_dataset(data, tmp_path / "data.h5")
    again = load_dataset(tmp_path / "data.h5")
    assert (again.world, again.spec, again.split) == (data.world, data.spec, data.split)
    for part in PARTS:
        assert again.part(part).states.dtype == np.float64
        assert np.array_equal(again.part(part).states, data.part(part).states)
        assert np.array_equal(again.part(part).observe(np.arange(5), 2), data.part(part).observe(np.arange(5), 2))
    save_dataset(again, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "data.h5").read_bytes()
    states = data.eval.states.copy()
    states[3, 2, 1] += 0.1
    broken = replace(data, eval=replace(data.eval, states=states))
    assert broken.certificate()["violations"] == [
        "dynamics: 2 transitions of the part eval are not what the world does"
    ]


def test_a_dataset_says_what_does_not_fit(data):
    for wrong in ({"n": 5}, {"library_seed": 1}, {"size": 20}):
        with pytest.raises(HowmError, match="made already"):
            make_dataset(Drift(6), **{"k": 3, **wrong})
    with pytest.raises(HowmError, match="k must be in 1-6"):
        make_dataset(Drift(6), k=7)
    with pytest.raises(HowmError, match="unknown key grid"):
        make_dataset("drift_world:Drift", 6, 3, grid=4)
    with pytest.raises(HowmError, match="wrong type"):
        make_world("drift_world:Drift", 6, size="large")


# ---- evaluation ----


def test_the_hard_pool_is_complete_and_the_oracle_is_never_wrong(data):
    rollouts = Rollouts(data.eval)
    found = evaluate(Looking(), rollouts, (1, 4))
    assert found.hard_pool == "near misses"
    for pool in ("paper", "hard"):
        for steps in ("1", "4"):
            assert found.controls["oracle"][pool][steps].mrr == 100
    assert found.model["hard"]["1"].h1 < found.model["paper"]["1"].h1  # its own earlier frame is in the way
    pool = _Pool.make(rollouts, 4)
    assert pool.extra_labels.shape == (40, 4 + NEAR_MISSES)
    assert pool.ends.shape == (40, NEAR_MISSES, 3, 2)


def test_equal_labels_are_equal_pictures(data):
    pool = _Pool.make(Rollouts(data.eval), 4)
    pictures = data.eval.observe(np.arange(40), 4).reshape(40, -1)
    same = (pictures[:, None] == pictures).all(axis=2)
    assert ((pool.labels[:, None] == pool.labels) == same).all()


def test_replacement_rewards_and_masks_go_through_the_contract():
    data = make_dataset(TellingDrift(6), k=3, amounts=AMOUNTS)
    report = equivariance_error(Looking(), data.eval, np.random.default_rng(0), samples=20, replacements=4)
    assert report.decoded == 0  # it says that nothing moves, whichever the objects
    rewards = reward_invariance_error(
        lambda before, action, after: float(after["moved"]),
        data.eval,
        np.random.default_rng(0),
        samples=20,
        replacements=4,
    )
    assert rewards.expected == 0
    masked = segmentation(Looking(), data.eval, frames=20)
    assert 0 < masked.matched_iou < 100
    assert segmentation(Looking(), make_dataset(Drift(6), k=3, amounts=AMOUNTS).eval, frames=20) is None
    sigma = Replacement.from_cycles(6, (0, 4))
    assert data.world.replace_action(sigma, np.array([2, 13, 5])).tolist() == [14, 1, 5]
    known = Rollouts(data.eval).privileged(1, slice(0, 4))
    assert known.find_masks().shape == (4, 3, 30, 30)


# ---- environments ----


def test_gymnasium_has_no_complaint():
    env = WorldEnv(Drift(6), k=3)
    check_env(env, skip_render_check=True)
    assert env.action_space == gym.spaces.Discrete(18)
    assert FactoredActions(env).action_space == gym.spaces.MultiDiscrete([6, 3])
    assert FactoredActions(env).action(np.array([2, 1])) == 7
    _, info = env.reset(seed=0)
    assert "positions" not in info
    for action in range(18):
        before = info["state"]
        _, _, _, _, info = env.step(action)
        assert info["moved"] == (info["state"] != before).any()
        assert info["absent"] == (action // 3 not in info["object_ids"])


def test_the_vector_environment_is_the_single_one():
    envs, singles = WorldVectorEnv(TellingDrift(6), 3, k=2), [WorldEnv(TellingDrift(6), k=2) for _ in range(3)]
    observations, _ = envs.reset(seed=5)
    for row, env in enumerate(singles):
        assert np.array_equal(env.reset(seed=5 + row)[0], observations[row])
    rng = np.random.default_rng(0)
    for _ in range(30):
        actions = rng.integers(18, size=3)
        observations, _, _, _, infos = envs.step(actions)
        for row, env in enumerate(singles):
            picture, _, _, _, info = env.step(actions[row])
            assert np.array_equal(picture, observations[row])
            assert all(np.array_equal(infos[key][row], value) for key, value in info.items())


def test_a_reset_may_be_told_the_state():
    env = WorldEnv(Drift(6), k=2)
    _, info = env.reset(options={"scene": [4, 1], "state": [[5.0, 6.5], [20, 9]]})
    assert info["object_ids"].tolist() == [1, 4]
    assert info["state"].tolist() == [[20, 9], [5, 6.5]]
    with pytest.raises(HowmError, match="positions do not determine a state"):
        env.reset(options={"positions": [[5, 5], [9, 9]]})
    with pytest.raises(HowmError, match="float64 numbers of shape"):
        env.reset(options={"state": [[5.0, 6.5]]})
    telling = WorldEnv(TellingDrift(6), k=2).reset(options={"positions": [[5.5, 5], [9, 9]]})[1]
    assert telling["positions"].tolist() == [[5.5, 5], [9, 9]]
    on_grid = WorldEnv("shapes", n=4, k=2)
    assert on_grid.reset(options={"state": [[3], [7]]})[1]["positions"].tolist() == [[0, 3], [1, 2]]
    with pytest.raises(HowmError, match="share a cell"):
        on_grid.reset(options={"state": [[3], [3]]})


# ---- names ----


def test_worlds_have_names():
    assert WORLDS.name_of(type(make_world("shapes"))) == "shapes"
    assert WORLDS.name_of(Drift) == "drift_world:Drift"
    assert WORLDS["drift_world:Drift"] is Drift
    assert read_world("drift_world:Drift", describe_world(Drift(4, 2, 25))) == Drift(4, 2, 25)
    assert make_world("drift_world:Drift", 4, 2, size=25) == Drift(4, 2, 25)
    with pytest.raises(HowmError, match="unknown world 'cubes'; choose one of shapes, rush_hour"):
        make_world("cubes")
    with pytest.raises(HowmError, match=r"must be a subclass of howm\.World"):
        make_world("drift_world:STEPS")


def test_a_file_cannot_make_howm_import_its_world(data, tmp_path):
    """Neither by a world that exists nor by a module that would do harm."""
    (tmp_path / "harmful.py").write_text("raise SystemExit('imported')")
    path = tmp_path / "data.h5"
    for name, words in (("harmful:World", "howm.WORLDS.allow('harmful:World')"), ("cubes", "unknown world 'cubes'")):
        save_dataset(replace(data, world_name=name), path)
        code = f"import howm; howm.load_dataset({str(path)!r})"
        ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 1
        assert "HowmError" in ran.stderr.splitlines()[-1]
        assert words in ran.stderr.splitlines()[-1]
        assert str(path) in ran.stderr.splitlines()[-1]
    with h5py.File(path, "r") as file:
        assert "pictures" not in file["train"]


def test_the_command_line_takes_a_world_by_its_place(tmp_path, capsys):
    small = ["--train-episodes", "10", "--train-steps", "3", "--eval-episodes", "10", "--eval-steps", "2"]
    make = ["data", "make", "-n", "5", "-k", "3", *small]
    out = ["-o", str(tmp_path / "data.h5")]
    assert main([*make, "--world", "drift_world:TellingDrift", "--world-set", "size=20", *out]) == 0
    assert load_dataset(tmp_path / "data.h5").world == TellingDrift(5, 0, 20)
    assert main(["data", "check", str(tmp_path / "data.h5"), "--world", "drift_world:TellingDrift"]) == 0
    assert "20x20 pixels, no grid" in capsys.readouterr().out
    picture = tmp_path / "show.png"
    assert main(["data", "show", str(tmp_path / "data.h5"), "-o", str(picture)]) == 0
    assert main(["library", "show", "--world", "drift_world:Drift", "-n", "4", "-o", str(tmp_path / "n.png")]) == 0
    assert main(["check", "world", "drift_world:Drift", "-n", "4", "-k", "2"]) == 0
    assert "keeps the contract" in capsys.readouterr().out
    other = ["-o", str(tmp_path / "other.h5")]
    for wrong, words in (
        (["--world", "drift_world:Drift", "--grid", "4x4"], "unknown key grid"),
        (["--world", "drift_world:Drift", "--cell-pixels", "5"], "unknown key cell_pixels"),
        (["--world", "drift_world:Nothing"], "cannot be imported"),
        (["--world", "drift_world:Drift", "--world-set", "n=3"], "n cannot be set by --world-set"),
        (["--env", "cubes"], "unknown world 'cubes'"),
    ):
        assert main([*make, *wrong, *other]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "other.h5").exists()


def test_an_installed_package_is_known_by_name(tmp_path):
    """Without being imported before it is used: on the command line, in files and in Gymnasium."""
    (tmp_path / "drift_package.py").write_text(Path(sys.modules["drift_world"].__file__).read_text())
    info = tmp_path / "drift_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drift-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[howm.worlds]\nslow_drift = drift_package:Drift\n")
    code = """
import sys; sys.path.insert(0, sys.argv[1])
import gymnasium, howm
assert list(howm.WORLDS)[-1] == "slow_drift"
assert "howm/SlowDrift-v0" in gymnasium.registry and "drift_package" not in sys.modules
env = gymnasium.make("howm/SlowDrift-v0", n=5, k=2, size=24)
assert env.reset(seed=0)[0].shape == (24, 24, 3)
envs = gymnasium.make_vec("howm/SlowDrift-v0", num_envs=2, vectorization_mode="vector_entry_point", n=5, k=2)
assert envs.reset(seed=0)[0].shape == (2, 30, 30, 3)
data = howm.make_dataset("slow_drift", 5, 3, amounts=howm.Amounts(10, 2, 10, 2))
howm.save_dataset(data, sys.argv[1] + "/data.h5")
assert howm.load_dataset(sys.argv[1] + "/data.h5").world_name == "slow_drift"
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    with pytest.raises(HowmError, match="unknown world 'slow_drift'"):
        load_dataset(tmp_path / "data.h5")


# ---- the checker ----


@pytest.mark.parametrize("world", ["shapes", "rush_hour", Drift(6), TellingDrift(4)])
def test_good_worlds_are_clean(world):
    assert check_world(world) == []
    assert check_world(world, k=1) == []


def broken(name, method):
    """A world with one method replaced."""
    return dataclass(frozen=True)(type(name, (TellingDrift,), {name: method}))()


def in_place(self, scenes, state, action):
    state += 0
    state[:] = Drift.step(self, scenes, state, action)
    return state


class Remembering:
    """State that is kept between calls."""

    calls = 0

    def step(self, world, scenes, state, action):
        self.calls += 1
        return state + self.calls * (world.absent(scenes, action)[:, None, None] == 0)


noise = np.random.default_rng(0)
kept = Remembering()
BROKEN = {
    "reset: must return": ("reset", lambda self, scenes, rng: rng.random(scenes.shape)),
    "reset: raises ZeroDivisionError": ("reset", lambda self, scenes, rng: 1 / 0),
    "reset: gives something else": ("reset", lambda self, scenes, rng: noise.uniform(9, 20, (*scenes.shape, 2))),
    "reset: returns numbers that are not finite": ("reset", lambda self, s, rng: np.full((*s.shape, 2), np.nan)),
    "step: must return": ("step", lambda self, scenes, state, action: state[:, :1]),
    "step: returns float32, but reset": ("step", lambda self, s, state, a: Drift.step(self, s, state, a).astype("f4")),
    "step: changes an argument": ("step", in_place),
    "step: gives something else": ("step", lambda *given: kept.step(*given)),
    "step: depends on the order": ("step", lambda self, s, state, a: state + np.arange(len(s))[:, None, None]),
    "step: a row depends on the other rows": ("step", lambda self, s, state, a: state + state.mean(axis=0).round(1)),
    "of an absent object changes the state": ("step", lambda self, s, state, a: state * 0.9),
    "step: no action changes": ("step", lambda self, s, state, a: state.copy()),
    "render: must return uint8": ("render", lambda self, s, state: Drift.render(self, s, state) / 255),
    "render: must return uint8 of shape": ("render", lambda self, s, state: Drift.render(self, s, state)[:, 1:]),
    "render: a row depends": ("render", lambda self, s, state: Drift.render(self, s, state) // np.uint8(len(s))),
    "state_key: must return integers": ("state_key", lambda self, s, state: state[:, 0]),
    "state_key: two states that look different": ("state_key", lambda self, s, state: s),
    "masks: must return bools": ("masks", lambda self, s, state: self.discs(state).astype(float)),
    "positions: must return": ("positions", lambda self, s, state: state[..., :1]),
    "state_at: gives states with other": ("state_at", lambda self, positions: positions + 1),
    "info['time']: must return": ("info", lambda self, s, state: {"time": np.zeros(3)}),
    "violations: of a state of reset": ("violations", lambda self, s, state: ["it is wrong"]),
    "to_record: from_record cannot read": ("to_record", lambda self: {"colour": "red"}),
    "to_record: from_record makes another": ("to_record", lambda self: {"n": self.n + 1}),
    "replace_action: gives actions of another": ("replace_action", lambda self, sigma, actions: actions),
    "play: takes an action of an absent": (
        "play",
        lambda self, s, start, steps, m, rng: (World.play(self, s, start, steps, m, rng)[0], np.zeros((8, 6), int)),
    ),
    "play: its states are not": (
        "play",
        lambda self, s, start, steps, m, rng: (
            np.stack([start] * (steps + 1), axis=1),
            World.play(self, s, start, steps, m, rng)[1],
        ),
    ),
    "near_misses: must return": ("near_misses", lambda self, s, start, steps, count, m, rng: start),
    "spec: width": ("width", 0),
}


@pytest.mark.parametrize("said", BROKEN)
def test_broken_worlds_are_caught(said):
    found = check_world(broken(*BROKEN[said]))
    assert any(said in line for line in found), found
    assert all("\n" not in line for line in found)


def test_settings_that_are_no_fields_are_caught(capsys):
    class Undecorated(Drift):
        speed: float = 2.0

    assert any(line.startswith("settings: speed") for line in check_world(Undecorated(5)))
    assert main(["check", "world", "cubes"]) == 2
    assert main(["check", "world", "shapes", "-n", "4", "-k", "5"]) == 2
    assert "k must be in 1-4" in capsys.readouterr().err
    assert main(["check", "world", "shapes", "--world-set", "grid=1x2"]) == 1
    assert "VIOLATED  spec: k=3 objects do not fit" in capsys.readouterr().out


def test_public_names_are_there():
    assert (howm.World, howm.check_world, howm.make_world) == (World, check_world, make_world)
    assert json.loads(json.dumps(make_world("shapes", 3).to_record()))["grid"] == [5, 5]
