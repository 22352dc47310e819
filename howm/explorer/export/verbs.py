"""The verbs of a world model as graphs for one picture at a time."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from howm.data.privileged import Privileged
from howm.explorer.export.graph import Graph, Weights, export_graph
from howm.models.distance import euclidean, matched_distance
from howm.models.world_model import State, WorldModel, device_of, evaluating


@dataclass(frozen=True)
class Verbs:
    """What a model does with one scene size; a verb that it cannot do is left out."""

    k: int
    state: list[str]  # the tensors of a state
    graphs: dict[str, Graph]

    def to_plain(self) -> dict[str, Any]:
        return {"k": self.k, "state": self.state, "graphs": {name: g.to_plain() for name, g in self.graphs.items()}}


def export_verbs(model: WorldModel, picture: Tensor, object_ids: Tensor, weights: Weights) -> Verbs:
    """encode, step and embed, and draw, binding and masks where the model has them.

    ``picture`` (1, height, width, 3) of bytes and ``object_ids`` (1, K) are an example; any other may be given later.
    """
    device = device_of(model)
    picture, object_ids = picture.to(device), object_ids.long().to(device)
    with evaluating(model), torch.no_grad():
        scene = {"ids": object_ids} if model.privileged else {}

        def privileged(ids: tuple[Tensor, ...]) -> Privileged | None:
            return Privileged(ids[0]) if model.privileged else None

        example = model.encode(picture, privileged(tuple(scene.values())))
        names = [field.name for field in fields(example) if getattr(example, field.name) is not None]
        state = {name: getattr(example, name).clone() for name in names}  # torch.export takes one tensor for one input

        def of_state(call: Callable[[State], Tensor | None], name: str) -> Callable[..., dict[str, Tensor]]:
            def found(*tensors: Tensor) -> dict[str, Tensor]:
                result = call(_state(example, names, tensors))
                return {} if result is None else {name: result.clone()}

            return found

        def encode(pictures: Tensor, *ids: Tensor) -> dict[str, Tensor]:
            found = model.encode(pictures, privileged(ids))
            return {name: getattr(found, name).clone() for name in names}

        def step(action: Tensor, *tensors: Tensor) -> dict[str, Tensor]:
            found = model.step(_state(example, names, tensors), action)
            return {name: getattr(found, name).clone() for name in names}

        def masks(pictures: Tensor) -> dict[str, Tensor]:
            found = model.masks(pictures)
            return {} if found is None else {"masks": found.clone()}

        action = torch.zeros(1, dtype=torch.int64, device=device)
        verbs: dict[str, tuple[Callable[..., dict[str, Tensor]], dict[str, Tensor]]] = {
            "encode": (encode, {"picture": picture} | scene),
            "step": (step, {"action": action} | state),
            "embed": (of_state(model.embed, "embedding"), state),
            "draw": (of_state(model.draw, "picture"), state),
            "binding": (of_state(model.binding, "binding"), state),
            "masks": (masks, {"picture": picture}),
        }
        graphs = {
            name: export_graph(model, call, inputs, weights, f"{name} of {type(model).__name__}")
            for name, (call, inputs) in verbs.items()
            if call(*inputs.values())
        }
    return Verbs(object_ids.shape[1], names, graphs)


def _state(example: State, names: list[str], tensors: tuple[Tensor, ...]) -> State:
    return replace(example, **dict(zip(names, tensors, strict=True)))


def metric_record(model: WorldModel) -> dict[str, Any] | None:
    """How a page compares embeddings: None where only Python can."""
    pairwise = model.metric.pairwise
    if pairwise is euclidean:
        return {"kind": "euclidean"}
    if getattr(pairwise, "func", None) is matched_distance:
        return {"kind": "matched", "slots": pairwise.keywords["slots"]}  # type: ignore[attr-defined]
    return None
