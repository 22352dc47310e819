"""Exported graphs in node against the models in torch."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from howm.data.privileged import Privileged
from howm.explorer.export.graph import Weights, in_base64
from howm.explorer.export.operations import HERE, SOURCES
from howm.explorer.export.verbs import export_verbs

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: what a page computes cannot be run")


def run_node(script: str, job: dict, folder: Path, sources: tuple[str, ...] = SOURCES) -> dict:
    path = folder / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    command = [NODE, str(Path(__file__).with_name(script)), *(str(HERE / name) for name in sources), str(path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads(found.stdout)


def played_in_node(model, pictures, ids, actions, folder) -> tuple[list[tuple[str, np.ndarray]], dict]:
    """All tensors that a page would compute for these frames, with their names, and the milliseconds of every call."""
    weights = Weights()
    verbs = export_verbs(model, torch.from_numpy(pictures[:1]), torch.from_numpy(ids[:1]), weights)
    out = folder / "found.bin"
    job = {
        "weights": weights.to_plain(),
        "verbs": verbs.to_plain(),
        "pictures": {"shape": pictures.shape, "data": in_base64(pictures)},
        "ids": ids.tolist(),
        "actions": actions.tolist(),
        "out": str(out),
    }
    answer = run_node("run_graphs.js", job, folder)
    numbers, begin, found = np.fromfile(out, dtype="<f4"), 0, []
    for tensor in answer["tensors"]:
        size = int(np.prod(tensor["shape"]))
        found.append((tensor["name"], numbers[begin : begin + size].reshape(tensor["shape"])))
        begin += size
    assert begin == len(numbers)
    return found, answer["times"]


@torch.no_grad()
def played_in_torch(model, pictures, ids, actions) -> list[tuple[str, np.ndarray]]:
    """The same, by the model itself."""
    found = []

    def put(verb, value):
        if value is not None:
            found.append((verb, value.float().numpy()))

    def put_state(verb, state):
        for name, value in vars(state).items():
            put(f"{verb}.{name}", value)

    for picture, scene, taken in zip(torch.from_numpy(pictures), torch.from_numpy(ids), actions.tolist(), strict=True):
        state = model.encode(picture[None], Privileged(scene[None]) if model.privileged else None)
        put_state("encode", state)
        put("embed.embedding", model.embed(state))
        put("draw.picture", model.draw(state))
        put("binding.binding", model.binding(state))
        put("masks.masks", model.masks(picture[None]))
        for action in taken:
            state = model.step(state, torch.tensor([action]))
            put_state("step", state)
            put("embed.embedding", model.embed(state))
            put("draw.picture", model.draw(state))
    return found


def largest_difference(found, expected) -> dict[str, float]:
    """By tensor, the largest difference relative to the largest number of the tensor."""
    assert [name for name, _ in found] == [name for name, _ in expected]
    worst: dict[str, float] = {}
    for (name, one), (_, other) in zip(found, expected, strict=True):
        assert one.shape == other.shape, name
        apart = float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-6))
        worst[name] = max(worst.get(name, 0.0), apart)
    return worst
