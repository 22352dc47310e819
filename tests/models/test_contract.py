"""The contract of world models: states, checked inputs, imagination, registries and validated configurations."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import howm
from howm import SlotState, State, TrainConfig, WorldModel, WorldSpec, configure, imagine
from howm.errors import HowmError
from howm.models.cswm import CSWMConfig
from howm.models.cswm_slots import CSWMSlotsConfig
from howm.models.extractors.cells import ExtractorConfig
from howm.models.extractors.monet import MONetConfig
from howm.models.howm_config import HOWMConfig
from howm.models.registry import METHODS, build_model

SPEC = WorldSpec(n=6, k=3)
PICTURES = np.random.default_rng(0).integers(0, 256, (4, 50, 50, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def model():
    return build_model("cswm-n", SPEC, CSWMConfig(hidden=8), 0).eval()


def test_states_are_indexed_repeated_and_mapped():
    @dataclass(frozen=True)
    class Two(State):
        mean: torch.Tensor
        spread: torch.Tensor | None = None

    state = Two(torch.arange(6.0).view(3, 2), torch.arange(3.0))
    assert len(state) == 3
    assert torch.equal(state[1].mean, torch.tensor([[2.0, 3.0]]))
    assert torch.equal(state[-1].spread, torch.tensor([2.0]))
    assert torch.equal(state[1:].mean, state.mean[1:])
    assert torch.equal(state[torch.tensor([True, False, True])].spread, torch.tensor([0.0, 2.0]))
    assert torch.equal(state[torch.tensor([2, 0])].spread, torch.tensor([2.0, 0.0]))
    assert torch.equal(state.repeat(2).spread, torch.tensor([0.0, 0, 1, 1, 2, 2]))
    assert torch.equal(state.map(lambda tensor: 2 * tensor).spread, 2 * state.spread)
    assert state.to("meta").mean.device.type == "meta"
    assert [row.spread.item() for row in state] == [0.0, 1.0, 2.0]
    assert Two(torch.zeros(2, 1)).repeat(3).spread is None


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        (PICTURES[0], r"got \(50, 50, 3\); add a batch axis"),
        (PICTURES.astype(np.float32), "float pictures must be in 0-1, got 0 to 255; divide by 255"),
        (PICTURES.astype(np.int64), "must be uint8, or floats in 0-1, got torch.int64"),
        (PICTURES[:, :40], "must have 50x50 pixels, got 40x50"),
        (PICTURES.transpose(0, 3, 1, 2), r"must be \(batch, height, width, 3\), got \(4, 3, 50, 50\)"),
        (np.full((1, 50, 50, 3), np.nan), "must be finite"),
        ([[1.0]], "must be a tensor or a NumPy array of numbers, got list"),
        (np.array([[None]]), "got object array"),
    ],
)
def test_pictures_are_checked_with_one_line(model, pictures, words):
    with pytest.raises(HowmError, match=words) as raised:
        model.encode(pictures)
    assert "\n" not in str(raised.value)
    if isinstance(pictures, np.ndarray) and pictures.dtype != object:
        with pytest.raises(HowmError, match=words):
            model.encode(torch.from_numpy(pictures.copy()))


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (np.array([0, -1, 2, 3]), "actions must be in 0-23, got -1"),
        (np.array([0, 24, 2, 3]), "actions must be in 0-23, got 24"),
        (np.array([0.0, 1, 2, 3]), "actions must be integers, got torch.float64"),
        (np.array([True] * 4), "actions must be integers, got torch.bool"),
        (np.arange(3), r"must have the shape \(4,\), one for each state, got \(3,\)"),
        (3, "must be a tensor or a NumPy array of numbers, got int"),
    ],
)
def test_actions_are_checked_with_one_line(model, action, words):
    state = model.encode(PICTURES)
    with pytest.raises(HowmError, match=words):
        model.step(state, action)


def test_numpy_and_torch_bytes_and_floats_are_one(model):
    expected = model.encode(torch.from_numpy(PICTURES)).slots
    assert torch.equal(model.encode(PICTURES).slots, expected)
    assert torch.allclose(model.encode(PICTURES / 255.0).slots, expected, atol=1e-6)
    state = model.encode(PICTURES)
    one, other = (model.step(state, actions).slots for actions in (np.arange(4, dtype=np.int16), torch.arange(4)))
    assert torch.equal(one, other)


def test_a_step_needs_a_state(model):
    with pytest.raises(HowmError, match="step needs a State, got Tensor"):
        model.step(torch.zeros(4, 6, 2), np.arange(4))


@pytest.mark.parametrize("name", ["howm", "cswm-n"])
def test_imagination_is_encode_and_steps(name):
    model = build_model(name, SPEC, configure(name, "cpu", {"model": {"hidden": 8}}).model, 0)
    found = imagine(model, PICTURES, [3, 1])
    assert model.training  # as it was
    model.eval()
    with torch.no_grad():
        state = model.encode(PICTURES)
        for action in (3, 1):
            state = model.step(state, torch.full((4,), action))
    assert torch.equal(model.embed(found.states[2]), model.embed(state))
    assert len(found.states) == 3
    if name == "howm":
        assert found.pictures.shape == (4, 3, 50, 50, 3)
        assert torch.equal(found.pictures[:, 2], model.draw(state))
    else:
        assert found.pictures is None
    alone = imagine(model, PICTURES[2], np.array([3, 1]))
    assert torch.allclose(model.embed(alone.states[2]), model.embed(state)[2:3], atol=1e-5)
    each = imagine(model, torch.from_numpy(PICTURES) / 255, torch.tensor([[3, 1]] * 4))
    assert torch.allclose(model.embed(each.states[2]), model.embed(state), atol=1e-5)
    assert len(imagine(model, PICTURES, []).states) == 1
    with pytest.raises(HowmError, match=r"actions must be \(steps,\) or \(4, steps\)"):
        imagine(model, PICTURES, np.zeros((3, 2), dtype=int))
    with pytest.raises(HowmError, match="got -1"):
        imagine(model, PICTURES, [-1])


def test_what_a_model_cannot_do_is_said_in_one_line(model):
    state = model.encode(PICTURES)
    assert model.extractor is model.draw(state) is model.binding(state) is None
    with pytest.raises(HowmError, match="CSWMN was made for scenes of 3 objects and cannot see 4"):
        model.for_scene_size(4)
    with pytest.raises(HowmError, match="CSWMN has no soft binding"):
        model.hard_binding()


def test_other_scene_sizes_keep_the_weights():
    model = build_model("howm", SPEC, configure("howm", "cpu", {"model": {"hidden": 8}}).model, 0).eval()
    other = model.for_scene_size(4)
    assert other.spec == WorldSpec(6, 4)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert other.encode(PICTURES).slots.shape[1] == 5


def test_a_loaded_model_knows_its_training_scenes():
    model = howm.load("howm-shapes-n10")
    drawn = howm.unseen_scenes(model, 20, seed=1)
    assert len(model.training_scenes) > 0
    assert len(drawn) == 20
    assert not set(drawn.scenes) & set(model.training_scenes.scenes)
    assert drawn == howm.unseen_scenes(model, 20, seed=1) != howm.unseen_scenes(model, 20, seed=2)
    fresh = build_model("cswm-n", SPEC, CSWMConfig(hidden=8), 0)
    with pytest.raises(HowmError, match="training scenes of this model are not known"):
        howm.unseen_scenes(fresh, 3)


@pytest.mark.parametrize(
    ("config", "values", "words"),
    [
        (TrainConfig, {"optimizer": "adamw"}, "optimizer='adamw' is not one of adam, rmsprop"),
        (TrainConfig, {"steps": True}, "steps=True is of the wrong type; it should be int"),
        (TrainConfig, {"steps": 1.5}, "steps=1.5 is of the wrong type"),
        (TrainConfig, {"steps": 0}, "steps must be 1 or more, got 0"),
        (TrainConfig, {"lr": float("nan")}, "lr must be a finite number, got nan"),
        (TrainConfig, {"compile": 1}, "compile=1 is of the wrong type"),
        (TrainConfig, {"same_scene": 2}, r"same_scene must be in \[0, 1\], got 2"),
        (CSWMConfig, {"hidden": "big"}, "hidden='big' is of the wrong type"),
        (CSWMSlotsConfig, {"matching": "yes"}, "matching='yes' is of the wrong type"),
        (HOWMConfig, {"maps": "round"}, "maps='round' is not one of linear, mlp"),
        (ExtractorConfig, {"kind": "magic"}, "unknown extractor 'magic'; choose one of slot_attention"),
        (ExtractorConfig, {"slot": 2}, "slot must be 3 or more, got 2"),
        (MONetConfig, {"beta": -1}, "beta must be 0 or more, got -1"),
    ],
)
def test_configurations_check_themselves(config, values, words):
    with pytest.raises(HowmError, match=words):
        config(**values)


def test_numbers_are_taken_as_the_command_line_takes_them():
    config = TrainConfig(steps=np.int64(7), lr=1)
    assert (config.steps, type(config.steps)) == (7, int)
    assert (config.lr, type(config.lr)) == (1.0, float)


class Own(WorldModel):
    """A model of one's own. More is said below."""

    @dataclass(frozen=True)
    class Config:
        size: int = 3

    def __init__(self, spec, config):
        super().__init__()
        self.linear = torch.nn.Linear(7500, config.size)

    def encode(self, pictures):
        return SlotState(self.linear(pictures.flatten(1).float() / 255)[:, None])

    def step(self, state, action):
        return state

    def forward(self, batch):
        return self.encode(batch.obs).slots.square().mean(), {}


def test_the_class_of_a_model_is_a_method():
    config = configure("test_contract:Own", "cpu", {"model": {"size": 5}})
    method = METHODS["test_contract:Own"]
    assert (method.title, method.summary, method.presets) == (
        "Own",
        "A model of one's own. More is said below.",
        {"paper": {}, "cpu": {}},
    )
    model = build_model("test_contract:Own", SPEC, config.model, 0)
    assert model.embed(model.encode(PICTURES)).shape == (4, 5)
    with pytest.raises(HowmError, match="in 0-23, got -1"):  # the registry tells a model its spec
        model.step(model.encode(PICTURES), np.full(4, -1))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("magic", "unknown method 'magic'; choose one of cswm-n"),
        ("no_such_package:Model", "cannot be imported from no_such_package:Model"),
        ("dataclasses:dataclass", "must be a howm Method or a subclass of howm.WorldModel"),
    ],
)
def test_what_is_not_a_method_is_refused(name, words):
    with pytest.raises(HowmError, match=words):
        configure(name, "cpu")


def test_names_are_listed_without_torch():
    code = (
        "import sys; from howm.models.registry import METHODS; "
        "from howm.models.extractors.registry import EXTRACTORS; print(*METHODS, *EXTRACTORS, 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "howm-paper howm slot_attention balanced proposals" in result.stdout
    assert result.stdout.split()[-1] == "False"
