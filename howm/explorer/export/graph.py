"""A function of tensors as a plain list of operations that a page can run: `torch.export`, decomposed and written down.

Arguments of an operation are numbers, booleans, None and lists of them; a text that begins with ``%`` is what another
operation gave, one that begins with ``$`` a weight, and any other text is itself (the name of a dtype, say).
"""

import base64
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from howm.errors import HowmError, shorten
from howm.explorer.export.operations import operations

_CHECKS = ("aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_scalar.default")
_DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)
_SYMBOLS = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.floordiv: "floordiv", operator.mod: "mod",
    operator.ge: "ge", operator.le: "le", operator.gt: "gt", operator.lt: "lt", operator.eq: "eq", operator.ne: "ne",
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One operation: ``args`` as its schema lists them, with defaults put in, and nothing else."""

    name: str
    op: str
    args: list[Any]

    def to_plain(self) -> list[Any]:
        return [self.name, self.op, *self.args]


@dataclass(frozen=True)
class Graph:
    """A function: the names of its inputs, its operations in order, and what of them it gives, by name."""

    inputs: list[str]
    nodes: list[Node]
    outputs: dict[str, str]

    def to_plain(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "nodes": [node.to_plain() for node in self.nodes], "outputs": self.outputs}


class Weights:
    """The tensors of several graphs, each of them once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._places: dict[tuple[Any, ...], str] = {}

    def add(self, tensor: Tensor) -> str:
        """The name of a tensor, that of an equal one if there is one."""
        kept = tensor.detach().cpu().contiguous()
        if kept.is_floating_point():
            kept = kept.float()
        key = (kept.dtype, tuple(kept.shape), kept.numpy().tobytes())
        if key not in self._places:
            self._places[key] = f"w{len(self._places)}"
            self.tensors[self._places[key]] = kept
        return self._places[key]

    def to_plain(self) -> dict[str, Any]:
        """Numbers as base64 of their bytes, the lowest first."""
        return {
            name: {
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "data": in_base64(tensor.numpy()),
            }
            for name, tensor in self.tensors.items()
        }


def in_base64(numbers: np.ndarray) -> str:
    little = numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()


class _Function(nn.Module):
    """A function of a module's weights, as `torch.export` wants it."""

    def __init__(self, owner: nn.Module, call: Callable[..., dict[str, Tensor]]) -> None:
        super().__init__()
        self.owner, self.call = owner, call

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        return self.call(*inputs)


@torch.no_grad()
def export_graph(
    owner: nn.Module,
    call: Callable[..., dict[str, Tensor]],
    inputs: Mapping[str, Tensor],
    weights: Weights,
    what: str,
) -> Graph:
    """The graph of ``call``, a function of tensors and of the weights of ``owner``, for inputs of these shapes.

    ``what`` names the function in errors.
    """
    values = tuple(inputs.values())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = _program(_Function(owner, call), values)
    except HowmError:
        raise
    except Exception as error:  # whatever torch finds wrong with a user's model
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise HowmError(f"{what} cannot be put into a page: torch.export says {shorten(said[0], 160)!r}") from error
    return _graph(program, list(inputs), list(call(*values)), weights, what)


def _program(function: _Function, values: tuple[Tensor, ...]) -> torch.export.ExportedProgram:
    """Decomposed; derivatives within the function are traced first, for `torch.export` cannot follow them."""
    try:
        program = torch.export.export(function, values, strict=False)
    except Exception:  # several kinds, depending on where it stops
        from torch.fx.experimental.proxy_tensor import make_fx

        plain = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*values)
        program = torch.export.export(plain, values, strict=False)
    decomposed: torch.export.ExportedProgram = program.run_decompositions()
    return decomposed


def _graph(
    program: torch.export.ExportedProgram, names: list[str], results: list[str], weights: Weights, what: str
) -> Graph:
    known: dict[str, str] = {}  # what our graph calls the nodes of torch's
    given = iter(names)
    for spec in program.graph_signature.input_specs:
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            known[spec.arg.name] = f"%{next(given)}"
        elif spec.target is not None:
            tensors = program.state_dict if spec.target in program.state_dict else program.constants
            tensor = tensors[spec.target]
            assert isinstance(tensor, Tensor)
            known[spec.arg.name] = f"${weights.add(tensor)}"
    nodes: list[Node] = []
    for node in program.graph.nodes:
        if node.op != "call_function" or str(node.target) in _CHECKS:
            continue
        op = _operation(node)
        if op == "getitem":
            source, index = node.args
            known[node.name] = f"{known[source.name]}.{index}"
            continue
        number = str(len(nodes))  # no input has such a name
        arguments = _arguments(node)
        for dtype in (value for value in arguments if isinstance(value, torch.dtype)):
            if dtype not in _DTYPES:
                raise HowmError(f"{what} cannot be put into a page: it computes with {dtype}, which the page lacks")
        nodes.append(Node(number, op, [_plain(value, known) for value in arguments]))
        known[node.name] = f"%{number}"
    found = [spec.arg.name for spec in program.graph_signature.output_specs
             if spec.kind == torch.export.graph_signature.OutputKind.USER_OUTPUT]  # fmt: skip
    outputs = {result: known[name] for result, name in zip(results, found, strict=True)}
    kept = _used(nodes, list(outputs.values()))
    for one in kept:
        if one.op not in operations():
            raise HowmError(f"{what} cannot be put into a page: it uses the operation {one.op}, which the page lacks")
    return Graph(names, kept, outputs)


def _operation(node: fx.Node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    if node.target in _SYMBOLS:
        return f"sym.{_SYMBOLS[node.target]}"
    name = str(node.target).removeprefix("aten.")
    return name.removesuffix(".default")


def _arguments(node: fx.Node) -> Sequence[Any]:
    """All arguments by position, as the schema of the operation orders them."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return list(node.args)
    rest = schema.arguments[len(node.args) :]
    return [*node.args, *(node.kwargs.get(argument.name, argument.default_value) for argument in rest)]


def _plain(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, fx.Node):
        return known.get(value.name)  # tokens that keep checks in their order are unknown: checks are left out
    if isinstance(value, list | tuple):
        return [_plain(item, known) for item in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) != float("inf") else ("inf" if value > 0 else "-inf")
    return None  # layouts, devices and memory formats, which a page has not


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    return [value[1:].partition(".")[0]] if isinstance(value, str) and value.startswith("%") else []


def _used(nodes: list[Node], outputs: list[str]) -> list[Node]:
    """The nodes on which an output depends."""
    wanted = set(_references(outputs))
    kept = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted.update(_references(node.args))
    return kept[::-1]
