"""The fast transition against its edge-list twin, and everything a transition must stand."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from edge_list_gnn import EdgeListCorrected, EdgeListGNN, by_layer
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from howm.models import gnn_cpu, mlp, product_cpu
from howm.models.mlp import MLP
from howm.models.transition import CorrectedTransition, GNNTransition, MLPTransition

# How far from the twin, relative to the largest entry.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors this small gain nothing from more threads, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def perturbed(model: nn.Module) -> nn.Module:
    """Scales and shifts of fresh LayerNorms are ones and zeros, which would hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def twins(slot_size: int, action_size: int, hidden: int, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    slow = perturbed(EdgeListGNN(slot_size, action_size, hidden)).to(dtype)
    fast = GNNTransition(slot_size, action_size, hidden).to(dtype)
    fast.load_state_dict(slow.state_dict())
    return fast, slow


def test_moves_are_corrected_as_in_the_edge_list_form():
    torch.manual_seed(1)
    slow = perturbed(EdgeListCorrected(3, 4, 24)).double()
    fast = CorrectedTransition(3, 4, 24).double()
    fast.load_state_dict(slow.state_dict())
    slots, actions = torch.randn(40, 5, 3, dtype=torch.float64), torch.rand(40, 5, 4, dtype=torch.float64)
    expected = values_and_gradients(slow, slots, actions)
    assert_same(values_and_gradients(fast, slots, actions), expected, TOLERANCE[torch.float64])
    order = torch.randperm(5)
    torch.testing.assert_close(fast(slots[:, order], actions[:, order]), fast(slots, actions)[:, order])


def values_and_gradients(model: nn.Module, slots: Tensor, actions: Tensor) -> dict[str, Tensor]:
    slots, actions = slots.clone().requires_grad_(), actions.clone().requires_grad_()
    out = model(slots, actions)
    probe = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    named = {"slots": slots, "actions": actions, **dict(model.named_parameters())}
    gradients = torch.autograd.grad((out * probe).sum() + out.square().sum(), list(named.values()))
    return {"out": out.detach(), **dict(zip(named, gradients, strict=True))}


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert actual.keys() == expected.keys()
    for name, reference in expected.items():
        far = (actual[name] - reference).abs().max().item()
        assert far <= tolerance * max(reference.abs().max().item(), 1e-3), name


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("batch", "num_slots", "hidden"),
    [
        (1, 1, 16),
        (40, 1, 16),
        (3, 2, 16),  # fewer nodes than hidden units
        (11, 2, 16),  # more
        (7, 3, 150),
        (11, 4, 150),  # sums over slots by bmm, several blocks, the last one smaller
        (64, 5, 32),
        (6, 9, 64),
    ],
)
@pytest.mark.parametrize("smallest", [0, 2**40])
def test_values_and_gradients_equal_the_edge_list(batch, num_slots, hidden, dtype, smallest, monkeypatch):
    """With the products and layers that only large tensors have, and with those of small ones."""
    monkeypatch.setattr(gnn_cpu, "_BLOCK_ELEMENTS", 10_000)
    monkeypatch.setattr(product_cpu, "_SMALL_PRODUCT", smallest)
    monkeypatch.setattr(mlp, "_SMALL_LAYER", smallest)
    fast, slow = twins(3, 4, hidden, dtype)
    slots, actions = torch.randn(batch, num_slots, 3, dtype=dtype), torch.randn(batch, num_slots, 4, dtype=dtype)
    expected = values_and_gradients(slow, slots, actions)
    assert_same(values_and_gradients(fast, slots, actions), expected, TOLERANCE[dtype])

    # The path of other devices, of autocast and of torch.compile.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_same(values_and_gradients(fast, slots, actions), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("shift", [-50.0, 50.0])
def test_dead_and_saturated_edges_equal_the_edge_list(shift):
    """No unit active, so no deviation to divide by; and all active, with a mean far larger than the deviation."""
    fast, slow = twins(2, 4, 24, torch.float64)
    for model in (fast, slow):
        nn.init.constant_(model.edge[0].bias, shift)
    slots, actions = torch.randn(9, 5, 2, dtype=torch.float64), torch.randn(9, 5, 4, dtype=torch.float64)
    expected = values_and_gradients(slow, slots, actions)
    assert_same(values_and_gradients(fast, slots, actions), expected, TOLERANCE[torch.float64])


@given(st.integers(1, 8), st.integers(1, 5), st.randoms(use_true_random=False))
def test_permuting_slots_permutes_the_change(num_slots, batch, random):
    model, _ = twins(3, 2, 16, torch.float64)
    order = random.sample(range(num_slots), num_slots)
    slots, actions = torch.randn(batch, num_slots, 3).double(), torch.randn(batch, num_slots, 2).double()
    torch.testing.assert_close(model(slots[:, order], actions[:, order]), model(slots, actions)[:, order])


def test_an_empty_batch_has_an_empty_change():
    model, _ = twins(2, 4, 8, torch.float32)
    assert model(torch.randn(0, 5, 2), torch.randn(0, 5, 4)).shape == (0, 5, 2)


def test_without_gradients_the_values_are_the_same(monkeypatch):
    monkeypatch.setattr(gnn_cpu, "_BLOCK_ELEMENTS", 1000)
    model, _ = twins(2, 4, 16, torch.float32)
    slots, actions = torch.randn(20, 5, 2), torch.randn(20, 5, 4)
    expected = model(slots, actions)
    with torch.no_grad():
        assert torch.equal(model(slots, actions), expected)
    with torch.inference_mode():
        assert torch.equal(model(slots, actions), expected)
    assert torch.equal(model.requires_grad_(False)(slots, actions), expected)


def test_frozen_weights_leave_the_gradients_of_the_state():
    model, slow = (twin.requires_grad_(False) for twin in twins(2, 4, 16, torch.float64))
    slots, actions = torch.randn(20, 5, 2).double().requires_grad_(), torch.randn(20, 5, 4).double()
    gradients = [torch.autograd.grad(twin(slots, actions).square().sum(), slots)[0] for twin in (model, slow)]
    torch.testing.assert_close(*gradients)


def test_gradients_flow_through_strided_slots_and_several_steps():
    fast, slow = twins(2, 4, 16, torch.float64)
    slots, actions = torch.randn(2, 5, 12).double().permute(2, 1, 0).requires_grad_(), torch.randn(12, 5, 4).double()
    gradients = []
    for model in (fast, slow):
        state = slots
        for _ in range(3):
            state = state + model(state, actions)
        gradients.append(torch.autograd.grad(state.square().sum(), [slots, *model.parameters()]))
    torch.testing.assert_close(*gradients)


def test_backward_needs_little_more_than_one_number_per_edge_and_hidden_unit():
    batch, num_slots, hidden = 32, 12, 64
    model, _ = twins(2, 4, hidden, torch.float32)
    stored: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        stored[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(torch.randn(batch, num_slots, 2), torch.randn(batch, num_slots, 4))
    assert sum(stored.values()) < 2 * 4 * batch * num_slots * (num_slots - 1) * hidden


def test_autocast_is_as_close_to_full_precision_as_the_edge_list():
    slots, actions = torch.randn(100, 5, 2), torch.randn(100, 5, 4)
    errors = []
    for model in twins(2, 4, 32, torch.float32):
        full = values_and_gradients(model, slots, actions)
        with torch.autocast("cpu", torch.bfloat16):
            low = values_and_gradients(model, slots, actions)
        assert low["out"].dtype == torch.bfloat16
        errors.append({name: ((low[name] - full[name]).norm() / full[name].norm()).item() for name in full})
    of_fast, of_slow = errors
    assert all(of_fast[name] < 1.5 * of_slow[name] + 0.01 for name in of_slow), errors


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_weights(dtype):
    model, _ = twins(2, 4, 32, torch.float32)
    slots, actions = torch.randn(20, 5, 2), torch.randn(20, 5, 4)
    full = model(slots, actions)
    low = copy.deepcopy(model).to(dtype)(slots.to(dtype), actions.to(dtype))
    assert low.dtype == dtype
    assert (low - full).abs().max() < 0.05 * full.abs().max()


def test_compiled_in_one_graph():
    """In a process whose functions are as users have them: those that check their annotations cannot be compiled."""
    code = f"import sys; sys.path += {sys.path}; from test_transition import check_one_graph; check_one_graph()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def check_one_graph():
    model, _ = twins(2, 4, 16, torch.float64)
    slots, actions = torch.randn(8, 5, 2).double(), torch.randn(8, 5, 4).double()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    prefixed = {k.removeprefix("_orig_mod."): v for k, v in values_and_gradients(compiled, slots, actions).items()}
    assert_same(prefixed, values_and_gradients(model, slots, actions), TOLERANCE[torch.float64])


@pytest.mark.parametrize("num_slots", [1, 5])
def test_data_parallel_reaches_every_parameter(num_slots, tmp_path: Path):
    """DistributedDataParallel waits for ever for a parameter that takes no part, as edges of one slot might not."""
    model, _ = twins(2, 4, 16, torch.float32)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        parallel = nn.parallel.DistributedDataParallel(model)
        for _ in range(2):
            parallel(torch.randn(6, num_slots, 2), torch.randn(6, num_slots, 4)).sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        del parallel  # before its group: the last to hold a group waits for its threads, and may do so for ever
    finally:
        torch.distributed.destroy_process_group()


def test_messages_are_silent_then_fade_in_until_the_transition_is_the_papers():
    model, _ = twins(2, 4, 16, torch.float64)
    fading = GNNTransition(2, 4, 16, message_warmup=3).double()
    fading.load_state_dict(model.state_dict(), strict=False)
    slots, actions = torch.randn(8, 5, 2).double(), torch.randn(8, 5, 4).double()
    silent = model.node(torch.cat([slots, actions, torch.zeros(8, 5, 16).double()], dim=2))
    full = model(slots, actions)
    changes = [fading(slots, actions) for _ in range(8)]
    assert all(torch.allclose(change, silent) for change in changes[:4])
    assert all(not torch.allclose(change, other) for change in changes[4:6] for other in (silent, full))
    assert all(torch.allclose(change, full) for change in changes[6:])
    resumed = GNNTransition(2, 4, 16, message_warmup=3).double()
    fading.trained.fill_(4)
    resumed.load_state_dict(fading.state_dict())
    assert torch.equal(resumed(slots, actions), changes[4])
    resumed.load_state_dict(fading.state_dict())
    assert torch.equal(resumed.eval()(slots, actions), changes[4])  # evaluation is as trained, and counts no step
    assert torch.equal(resumed.train()(slots, actions), changes[4])


def test_scaled_messages_are_those_of_a_scaled_last_layer():
    model, _ = twins(2, 4, 16, torch.float64)
    scaled = GNNTransition(2, 4, 16, message_scale=0.25).double()
    scaled.load_state_dict(model.state_dict())
    slots, actions = torch.randn(8, 5, 2).double(), torch.randn(8, 5, 4).double()
    with torch.no_grad():
        for parameter in model.edge[-1].parameters():
            parameter.mul_(0.25)
    torch.testing.assert_close(scaled(slots, actions), model(slots, actions))


def test_flat_transition_is_one_mlp_over_everything_in_order():
    model = MLPTransition(num_slots=3, slot_size=2, action_total=12, hidden=8)
    slots, actions = torch.randn(5, 3, 2), torch.randn(5, 3, 4)
    expected = model.mlp(torch.cat([slots.reshape(5, 6), actions.reshape(5, 12)], dim=1))
    assert torch.equal(model(slots, actions), expected.reshape(5, 3, 2))


def test_mlp_has_the_form_of_the_tables():
    model = MLP(3, 8, 2)
    wanted = [nn.Linear, nn.ReLU, nn.LayerNorm, nn.Linear, nn.ReLU, nn.LayerNorm, nn.Linear]
    assert [type(layer) for layer in model] == wanted
    assert model(torch.randn(100, 3)).min() < 0


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(200, 25), (40, 5, 25), (0, 25)])
def test_mlp_equals_its_layers_one_by_one(shape, dtype, monkeypatch):
    monkeypatch.setattr(mlp, "_SMALL_LAYER", 0)
    monkeypatch.setattr(product_cpu, "_SMALL_PRODUCT", 0)
    torch.manual_seed(0)
    model = perturbed(MLP(25, 48, 4)).to(dtype)
    found = []
    for function in (model, lambda x: by_layer(model, x)):
        x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
        out = function(x)
        gradients = torch.autograd.grad(out.square().sum() + out.sum(), [x, *model.parameters()])
        found.append(dict(enumerate([out.detach(), *gradients])))
    if 0 in shape:
        assert found[0][0].shape == (0, 4)
    else:
        assert_same(*found, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(200, 25), (40, 5, 25), (25,), (0, 25)])
def test_a_fast_linear_layer_is_a_linear_layer(shape, bias, dtype, monkeypatch):
    monkeypatch.setattr(product_cpu, "_SMALL_PRODUCT", 0)
    torch.manual_seed(0)
    fast, plain = product_cpu.Linear(25, 9, bias).to(dtype), nn.Linear(25, 9, bias).to(dtype)
    plain.load_state_dict(fast.state_dict())
    found = []
    for layer in (fast, plain):
        x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
        out = layer(x)
        gradients = torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])
        found.append([out.detach(), *gradients])
    for ours, reference in zip(*found, strict=True):
        torch.testing.assert_close(ours, reference, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_gradients_are_those_of_finite_differences(monkeypatch):
    monkeypatch.setattr(mlp, "_SMALL_LAYER", 0)
    monkeypatch.setattr(gnn_cpu, "_BLOCK_ELEMENTS", 100)
    model, _ = twins(2, 3, 6, torch.float64)
    slots, actions = torch.randn(3, 4, 2).double().requires_grad_(), torch.randn(3, 4, 3).double().requires_grad_()
    weights = dict(model.named_parameters())

    def change(slots: Tensor, actions: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(weights, values, strict=True)), (slots, actions))

    assert torch.autograd.gradcheck(change, (slots, actions, *weights.values()))
