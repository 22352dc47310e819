"""Milliseconds that an exported page takes for each verb of a shipped model, in node, and torch in the same run.

python benchmarks/bench_page.py [MODEL ...] [--frames 20] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

import howm
from howm.explorer.export.page import export_page
from howm.runs.locate import SHIPPED, shipped

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "explorer"))
from parity import played_in_node

STEPS = 10


def torch_times(model: howm.WorldModel, pictures: np.ndarray, actions: np.ndarray) -> dict[str, float]:
    """Of encoding, stepping and drawing one picture at a time."""
    times: dict[str, list[float]] = {"encode": [], "step": [], "draw": []}

    def timed(verb, call):
        begin = time.perf_counter()
        found = call()
        times[verb].append(1000 * (time.perf_counter() - begin))
        return found

    with torch.no_grad():
        for picture, taken in zip(torch.from_numpy(pictures), actions.tolist(), strict=True):
            state = timed("encode", lambda picture=picture: model.encode(picture[None]))
            for action in taken:
                state = timed("step", lambda s=state, a=action: model.step(s, torch.tensor([a])))
                timed("draw", lambda s=state: model.draw(s))
    return {verb: median(found) for verb, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", default=shipped(), metavar="MODEL", help=f"default: all of {SHIPPED.name}/"
    )
    parser.add_argument("--frames", type=int, default=20, help="pictures from which ten steps are imagined each")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = {}
    for name in arguments.models:
        model, rng = howm.load(name), np.random.default_rng(0)
        world = howm.make_world(name.split("-")[1], n=model.spec.n)
        ids = np.stack([np.sort(rng.choice(world.n, model.spec.k, replace=False)) for _ in range(arguments.frames)])
        start = world.reset(ids, rng)
        _, actions = world.play(ids, start, STEPS, 0.9, rng)
        pictures = world.render(ids, start)
        with tempfile.TemporaryDirectory() as folder:
            _, times = played_in_node(model, pictures, ids, actions, Path(folder))
            size = export_page(name, Path(folder) / "page.html").stat().st_size
        in_torch = torch_times(model, pictures, actions)
        found = {
            verb: {"page_ms": round(median(times[verb]), 2), "torch_ms": round(in_torch[verb], 2)} for verb in in_torch
        }
        figures[name] = {"page_bytes": size, **found}
        said = ", ".join(f"{verb} {one['page_ms']} ms (torch {one['torch_ms']})" for verb, one in found.items())
        print(f"{name}: page of {size / 1e6:.2f} MB; {said}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
