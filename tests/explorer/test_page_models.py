"""What an exported page computes is what the model computes: every method, in node against torch."""

import json

import numpy as np
import pytest
import torch
from parity import largest_difference, needs_node, played_in_node, played_in_torch
from torch import nn

import howm
from howm import METHODS, HowmError, configure, make_world
from howm.explorer.export.graph import Weights, export_graph
from howm.explorer.export.verbs import export_verbs, metric_record
from howm.models.registry import build_model
from howm.models.world_model import SlotState, WorldModel

TOLERANCE = 1e-4  # of the largest number of a tensor
SHIPPED = {"howm-shapes-n10": "shapes", "howm-rush_hour-n20": "rush_hour"}
FREE = {"depth": {"compose": "depth"}, "infer": {"count": "infer", "max_objects": 4, "background": "picture"}}


def tiny(method: str, world, *overrides, k: int = 3):
    """A model with random weights. Its steps are short, as those of trained models are: else rounding would grow."""
    spec = world.spec(k)
    hidden = {} if method == "howm" else {"hidden": 64}
    model = build_model(method, spec, configure(method, "cpu", {"model": hidden}, *overrides, spec=spec).model, 0)
    for layer in getattr(model, "transition", nn.Module()).children():
        if isinstance(layer, nn.Sequential):
            with torch.no_grad():
                layer[-1].weight.mul_(0.1)
    return model.eval()


def frames(world, k: int, count: int, steps: int):
    rng = np.random.default_rng(3)
    ids = np.stack([np.sort(rng.choice(world.n, k, replace=False)) for _ in range(count)])
    start = world.reset(ids, rng)
    _, actions = world.play(ids, start, steps, 0.9, rng)
    return world.render(ids, start), ids, actions


def check(model, world, count, steps, folder):
    played = frames(world, model.spec.k, count, steps)
    found, _ = played_in_node(model, *played, folder)
    worst = largest_difference(found, played_in_torch(model, *played))
    assert max(worst.values()) <= TOLERANCE, worst
    return set(worst)


@needs_node
def test_the_shipped_model_computes_the_same(tmp_path):
    names = check(howm.load("howm-shapes-n10"), make_world("shapes", n=10), 10, 10, tmp_path)
    assert {"draw.picture", "binding.binding"} <= names


@needs_node
@pytest.mark.slow
def test_objects_anywhere_compute_the_same(tmp_path):
    world = make_world("free", n=5)
    fewer = {"model": {"extractor": {"kind": "anchors", "refine": 1}}}  # operations, to be exported sooner
    check(tiny("howm", world, fewer, k=2), world, 4, 5, tmp_path)


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_computes_the_same_on_many_frames(method, tmp_path):
    world = make_world("shapes", n=5)
    names = check(tiny(method, world), world, 100, 10, tmp_path)
    assert {"encode.slots", "step.slots", "embed.embedding", "masks.masks"} <= names


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_compute_the_same_on_many_frames(name, tmp_path):
    model = howm.load(name)
    check(model, make_world(SHIPPED[name], n=model.spec.n), 100, 10, tmp_path)


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", *FREE])
def test_objects_anywhere_compute_the_same_on_many_frames(kind, tmp_path):
    world = make_world("free", n=5, background="texture" if kind == "infer" else "black")
    model = tiny("howm", world, {"model": {"extractor": {"kind": "anchors", **FREE.get(kind, {})}}})
    check(model, world, 100, 10, tmp_path)


@needs_node
@pytest.mark.slow
def test_masks_of_pixels_compute_the_same(tmp_path):
    world = make_world("shapes", n=4)
    model = tiny(
        "monet-bm", world, {"model": {"monet": {"resolution": "pixels", "channels": 4, "background_slot": True}}}
    )
    check(model, world, 3, 3, tmp_path)


def test_an_operation_that_the_page_lacks_is_named():
    layer = nn.Linear(2, 2)
    with pytest.raises(
        HowmError, match=r"step of Mine cannot be put into a page: it uses the operation \w*fft"
    ) as error:
        export_graph(
            layer, lambda x: {"y": torch.fft.rfft(layer(x)).real}, {"x": torch.zeros(1, 2)}, Weights(), "step of Mine"
        )
    assert "\n" not in str(error.value)


def test_a_dtype_that_the_page_lacks_is_named():
    layer = nn.Linear(2, 2)

    def half(x):
        return {"y": layer(x).bfloat16().float()}

    with pytest.raises(HowmError, match=r"draw of Mine cannot .* it computes with torch.bfloat16"):
        export_graph(layer, half, {"x": torch.zeros(1, 2)}, Weights(), "draw of Mine")


class Peeking(WorldModel):
    """A model whose steps depend on its numbers in a way that no graph can follow."""

    def encode(self, pictures, privileged=None):
        return SlotState(pictures.float().mean(dim=(1, 2)).unsqueeze(1))

    def step(self, state, action):
        return state if state.slots.sum().item() > 3 else SlotState(state.slots + 1)

    def forward(self, batch):
        raise NotImplementedError


def test_control_flow_on_numbers_is_refused_in_one_line():
    world = make_world("shapes", n=4)
    pictures, ids, _ = frames(world, 2, 1, 1)
    model = Peeking(world.spec(2))
    with pytest.raises(HowmError, match=r"step of Peeking cannot be put into a page: torch.export says") as error:
        export_verbs(model, torch.from_numpy(pictures), torch.from_numpy(ids), Weights())
    assert "\n" not in str(error.value)


def test_graphs_are_plain_and_weights_are_stored_once():
    world = make_world("shapes", n=4)
    pictures, ids, _ = frames(world, 3, 1, 1)
    weights, model = Weights(), tiny("cswm-n", world)
    verbs = export_verbs(model, torch.from_numpy(pictures), torch.from_numpy(ids), weights)
    assert verbs.to_plain() == json.loads(json.dumps(verbs.to_plain()))
    assert set(verbs.graphs) == {"encode", "step", "embed", "masks"}  # it neither draws nor binds
    stored = sum(tensor.numel() for tensor in weights.tensors.values())
    assert stored <= sum(tensor.numel() for tensor in model.state_dict().values())
    assert metric_record(model) == {"kind": "euclidean"}
