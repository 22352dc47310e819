"""Every operation that the executor of a page has gives what torch gives."""

import operator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from parity import needs_node, run_node
from torch import nn

from howm.explorer.export.graph import Weights, export_graph
from howm.explorer.export.operations import operations

UNARY = [
    "abs",
    "neg",
    "sign",
    "relu",
    "floor",
    "ceil",
    "trunc",
    "round",
    "exp",
    "expm1",
    "log1p",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "isnan",
    "isinf",
    "logical_not",
    "square",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "atan2",
    "logical_and",
    "logical_or",
    "remainder",
]


TENSORS_ONLY = ("maximum", "minimum", "atan2", "logical_and", "logical_or")


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
        self.batch_norm = nn.BatchNorm2d(2)
        self.batch_norm.running_mean.uniform_(-1, 1)
        self.batch_norm.running_var.uniform_(0.5, 2)
        self.linear, self.norm = nn.Linear(4, 5), nn.LayerNorm(4)
        self.embedding = nn.Embedding(7, 3)


def elements(x, y, positive):
    found = {name: getattr(torch, name)(x) for name in UNARY}
    found |= {f"{name}_2": getattr(torch, name)(x, y) for name in BINARY}
    found |= {f"{name}_1": getattr(torch, name)(x, 1.5) for name in BINARY if name not in TENSORS_ONLY}
    mask, whole = x > 0, (4 * y).long()
    return found | {
        "log": positive.log(),
        "sqrt": positive.sqrt(),
        "rsqrt": positive.rsqrt(),
        "power": positive**1.7,
        "powers": positive**x,
        "of_two": 2.0**x,
        "cube": x**3,
        "gelu": F.gelu(x),
        "gelu_tanh": F.gelu(x, approximate="tanh"),
        "elu": F.elu(x),
        "leaky": F.leaky_relu(x, 0.2),
        "hardtanh": F.hardtanh(x, -0.5, 0.7),
        "silu": F.silu(x),
        "softplus": F.softplus(x),
        "clamp": x.clamp(-0.5, 0.5),
        "clamp_above": x.clamp(max=0.1),
        "clamp_to": x.clamp(y - 1, y + 1),
        "where": torch.where(mask, x, y),
        "masked": x.masked_fill(mask, float("-inf")),
        "not": ~mask,
        "not_bits": ~whole,
        "and": mask & (y > 0),
        "or": mask | (y > 0),
        "xor": mask ^ (y > 0),
        "floor_div": whole // 3,
        "trunc_div": torch.div(x, 0.3, rounding_mode="trunc"),
        "modulo": whole % 3,
        "fmod": torch.fmod(x, 0.7),
        "rsub": 1 - x,
        "scaled": torch.add(x, y, alpha=2),
        "less": torch.sub(x, y, alpha=3),
        "bool_times": mask * x,
        "whole_half": whole * 0.5,
        "bool_plus": mask + 1,
        "cast": x.to(torch.int64),
        "double": x.double() + 1,
        "divided": whole / 3,
        "stretched": x[:, :1] + y[:1],
    }


def layout(x, y):
    part = x.clone()
    part[:, 1:] = y[:, :-1]
    other = x.clone()
    other[:, 2] = 7
    return {
        "slice": x[:, 1::2],
        "negative": x[-1:, :-1],
        "select": x[:, 1],
        "put": part,
        "put_one": other,
        "permuted": x.permute(2, 0, 1),
        "turned": x.transpose(0, 1).reshape(3, -1),
        "expanded": x[:, :, :1].expand(-1, -1, 6),
        "cat": torch.cat([x, y], dim=1),
        "stack": torch.stack([x, y], dim=-1),
        "split": x.split([1, 2], dim=1)[1],
        "unfold": x.unfold(2, 2, 1),
        "pad": F.pad(x, (1, 2, 0, 1), value=3.0),
        "cropped": F.pad(x, (-1, 1)),
        "repeat": x.repeat(2, 1, 3),
        "interleaved": x.repeat_interleave(2, dim=1),
        "flip": x.flip(0, 2),
        "arange": torch.arange(3) + x[0, :, 0],
        "halves": torch.arange(0, 2, 0.5) * x[0, 0],
        "full": torch.full((2, 2), 3.0) * x[0, 0, 0],
        "like": torch.full_like(x, 2.0) + x,
        "ones": torch.ones(2, dtype=torch.bool) & (x[:, 0, 0] > 0),
        "squeezed": x[:, :1].squeeze(1),
        "unsqueezed": x.unsqueeze(-1),
        "diagonal": torch.eye(4) @ x[0].t(),
        "scalar": torch.where(x > 0, 1.0, 0.0),
    }


def lookups(x, index, mask):
    placed = x.clone()
    placed[torch.arange(2), index[:, 0, 0]] = 5.0
    added = x.index_put((index[0, 0] % 2,), x[0, :1], accumulate=True)
    values, places = x.topk(2, dim=2)
    ordered = x.sort(dim=1, descending=True)
    return {
        "gather": x.gather(1, index),
        "scatter": x.scatter(1, index, x + 1),
        "scatter_value": x.scatter(1, index, 2.0),
        "scatter_add": x.scatter_add(1, index, x),
        "index": x[:, index[0, 0]],
        "apart": x[torch.arange(2), :, index[:, 0, 1]],
        "rows": x[mask],
        "placed": placed,
        "added": added,
        "selected": x.index_select(1, index[0, 0]),
        "index_add": torch.zeros(2, 3, 4).index_add(1, index[0, 0, :3], x),
        "nonzero": (x > 0).nonzero(),
        "top": values,
        "top_places": places,
        "ordered": ordered.values,
        "order": ordered.indices,
        "stable": x.sort(dim=0, stable=True).indices,
        "max": x.max(dim=1).values,
        "min": x.min(dim=2).indices,
        "argmax": x.argmax(dim=2),
        "argmax_all": x.argmax(),
        "argmin": x.argmin(dim=0, keepdim=True),
        "cumsum": x.cumsum(1),
        "count": (x > 0).cumsum(0),
        "cumprod": x.cumprod(2),
        "larger": F.interpolate(x[None], scale_factor=2.0),
        "smaller": F.interpolate(x[None], size=(2, 3)),
        "bicubic": F.interpolate(x[None], size=(5, 7), mode="bicubic", align_corners=True),
    }


def linear(layers, x, pictures, ids):
    square = torch.eye(3) * 3 + x[:, :, :3]
    return {
        "linear": layers.linear(x),
        "norm": layers.norm(x),
        "plain_norm": F.layer_norm(x, (3, 4)),
        "product": x @ x.transpose(1, 2),
        "matrix": x[0] @ x[1].t(),
        "convolution": layers.convolution(pictures),
        "batch_norm": layers.batch_norm(pictures),
        "embedding": layers.embedding(ids),
        "sum": x.sum(dim=(0, 2)),
        "sum_all": x.sum(),
        "count": (x > 0).sum(dim=1),
        "mean": x.mean(dim=1, keepdim=True),
        "mean_all": x.mean(),
        "var": x.var(dim=1),
        "std": x.std(dim=(1, 2), correction=0),
        "amax": x.amax(dim=(0, 1)),
        "amin": x.amin(dim=2),
        "greatest": x.max(),
        "least": x.min(),
        "product_along": x.prod(dim=1),
        "any": (x > 1).any(),
        "any_of": (x > 1).any(dim=1),
        "all": (x > -1).all(dim=2),
        "softmax": x.softmax(1),
        "log_softmax": x.log_softmax(-1),
        "logsumexp": x.logsumexp(dim=2),
        "solve": torch.linalg.solve(square, x),
        "solve_right": torch.linalg.solve(square, x.transpose(1, 2), left=False),
        "solve_vector": torch.linalg.solve(square, x[..., :1]),
        "distances": torch.cdist(x, x + 1, compute_mode="donot_use_mm_for_euclid_dist"),
        "einsum": torch.einsum("bij,bkj->ik", x, x),
    }


# Operations that other versions of torch, or other models, decompose into, with their arguments.
BY_HAND = {
    "_unsafe_index.Tensor": ("%x", [None, "%ids"]),
    "_unsafe_index_put": ("%x", [None, "%ids"], "%y"),
    "_unsafe_view": ("%x", [6, 4]),
    "add.Scalar": ("%x", 2.5, 2),
    "alias": ("%x",),
    "any.dims": ("%mask", [1], True),
    "detach": ("%x",),
    "div.Scalar": ("%x", 3),
    "index_add": ("%x", 1, "%ids", "%y"),
    "masked_fill.Scalar": ("%x", "%mask", 5.0),
    "mul.Scalar": ("%x", 1.5),
    "rsub.Scalar": ("%x", 1, 2),
    "select_scatter": ("%x", "%row", 1, -1),
    "squeeze.dim": ("%one", 1),
    "sub.Scalar": ("%x", 1.5, 2),
    "sum": ("%x",),
    "sym_size.int": ("%x", 1),
    "sym.add": (2, 3),
    "sym.floordiv": (7, 2),
    "sym.mod": (7, 4),
    "sym.mul": (2, 3),
    "sym.sub": (7, 3),
}


def plain(tensors) -> dict:
    weights = Weights()
    names = {name: weights.add(value) for name, value in tensors.items()}
    return {name: weights.to_plain()[found] for name, found in names.items()}


def check(found, expected) -> None:
    for name, value in expected.items():
        numbers = np.array([float(number) for number in found[name]["data"]]).reshape(found[name]["shape"])
        assert numbers.shape == tuple(value.shape), name
        np.testing.assert_allclose(numbers, value.double().numpy(), rtol=2e-5, atol=1e-5, err_msg=name)
        assert found[name]["dtype"] == str(value.dtype).removeprefix("torch."), name


def compare(owner, call, inputs, folder) -> set[str]:
    """Export, run in node, compare; gives the operations that were used."""
    weights = Weights()
    graph = export_graph(owner, call, inputs, weights, "the test")
    job = {"weights": weights.to_plain(), "graph": graph.to_plain(), "inputs": plain(inputs)}
    with torch.no_grad():
        check(run_node("run_graph.js", job, folder), call(*inputs.values()))
    return {node.op for node in graph.nodes}


def compare_by_hand(inputs, folder) -> set[str]:
    def given(value):
        if isinstance(value, list):
            return [given(item) for item in value]
        return inputs[value[1:]] if isinstance(value, str) else value

    expected, nodes = {}, []
    for number, (op, arguments) in enumerate(BY_HAND.items()):
        nodes.append([str(number), op, *arguments])
        if op.startswith("sym."):
            found = getattr(operator, op.removeprefix("sym."))(*arguments)
        else:
            packet, _, overload = op.partition(".")
            found = getattr(getattr(torch.ops.aten, packet), overload or "default")(*map(given, arguments))
        expected[op] = found
    tensors = {op: str(number) for number, op in enumerate(BY_HAND) if isinstance(expected[op], torch.Tensor)}
    sizes = [op for op in BY_HAND if op not in tensors]
    nodes.append(["sizes", "full", [f"%{list(BY_HAND).index(op)}" for op in sizes], 1.0, None])
    graph = {"inputs": list(inputs), "nodes": nodes, "outputs": {op: f"%{name}" for op, name in tensors.items()}}
    graph["outputs"]["sizes"] = "%sizes"
    found = run_node("run_graph.js", {"weights": {}, "graph": graph, "inputs": plain(inputs)}, folder)
    check(found, {op: expected[op] for op in tensors} | {"sizes": torch.ones([expected[op] for op in sizes])})
    return set(BY_HAND)


@needs_node
def test_every_operation_is_that_of_torch(tmp_path):
    torch.manual_seed(0)
    layers = Layers().eval()
    x, y, positive = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.rand(2, 3, 4) + 0.1
    index, mask = torch.randint(3, (2, 3, 4)), torch.tensor([[True, False, True], [False, False, True]])
    pictures, ids = torch.randn(2, 2, 6, 7), torch.tensor([2, 0, 1])
    used = compare(layers, elements, {"x": x, "y": y, "positive": positive}, tmp_path)
    used |= compare(layers, layout, {"x": x, "y": y}, tmp_path)
    used |= compare(layers, lookups, {"x": x, "index": index, "mask": mask}, tmp_path)
    used |= compare(layers, lambda *given: linear(layers, *given), {"x": x, "pictures": pictures, "ids": ids}, tmp_path)
    used |= compare_by_hand(
        {"x": x, "y": y, "mask": x > 0, "ids": ids, "row": y[:, 0].clone(), "one": x[:, :1].clone()}, tmp_path
    )
    assert sorted(operations() - used) == []
