"""How anchors draw and refine, against the slow twins of the tests; and what a training step and a picture cost.

python benchmarks/bench_anchors.py [--rounds 20] [--json FILE]

Variants alternate in one process, on one thread; times are medians of processor time, in milliseconds.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from howm.models.extractors.anchors import Anchors, AnchorsConfig
from howm.models.extractors.placement import Patches, place
from howm.models.extractors.pursuit import refine
from howm.worlds.spec import WorldSpec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "oracles"))

import plain_drawing

SIZE, BATCH, SPRITES = (50, 50), 32, {"painted": 16, "blended": 5}


def medians(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, run in variants.items():
            start = time.process_time()
            run()
            if turn:  # the first warms up
                times[name].append(1e3 * (time.process_time() - start))
    return {name: round(statistics.median(found), 3) for name, found in times.items()}


def drawing(way: str, rounds: int) -> dict[str, float]:
    """Forward and backward of drawing a batch of pictures."""
    count = SPRITES[way]
    rgba = torch.rand(BATCH, count, 4, 14, 14, requires_grad=True)
    centre, depth = 50 * torch.rand(BATCH, count, 2), torch.randn(BATCH, count)
    background = torch.rand(BATCH, 3, *SIZE)

    def run(draw: Callable[..., torch.Tensor]) -> Callable[[], object]:
        return lambda: draw(place(rgba, centre, SIZE), background, depth).sum().backward()

    return medians({"fast": run(getattr(Patches, way)), "plain": run(getattr(plain_drawing, way))}, rounds)


def refining(by_depth: bool, rounds: int) -> dict[str, float]:
    rgba, background = torch.rand(BATCH, 5, 4, 14, 14), torch.rand(BATCH, 3, *SIZE)
    centre = 50 * torch.rand(BATCH, 5, 2)
    depth = torch.randn(BATCH, 5) if by_depth else None
    pictures = torch.rand(BATCH, 3, *SIZE)
    return medians({
        "fast": torch.no_grad()(lambda: refine(pictures, background, rgba, centre, depth, 2)),
        "plain": lambda: plain_drawing.refined(pictures, background, rgba, centre, depth, 2),
    }, rounds)  # fmt: skip


def whole(compose: str, rounds: int) -> dict[str, float]:
    """A training step of a batch, and the slots of one picture."""
    model = Anchors(WorldSpec(10, 5, *SIZE, None), AnchorsConfig(compose=compose))  # type: ignore[arg-type]
    pictures = torch.randint(255, (BATCH, *SIZE, 3), dtype=torch.uint8)
    many = pictures.repeat(4, 1, 1, 1)
    found = medians({"train": lambda: model(pictures)[0].backward(), "slots": lambda: model.slots(many)}, rounds)
    return {"training_step": found["train"], "picture": round(found["slots"] / len(many), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = {way: drawing(way, options.rounds) for way in SPRITES}
    found |= {f"refined, {name}": refining(name == "depth", options.rounds) for name in ("add", "depth")}
    found |= {f"anchors, {name}": whole(name, options.rounds) for name in ("add", "depth")}
    for name, times in found.items():
        ratio = f", {times['plain'] / times['fast']:.1f} times as fast" if "plain" in times else ""
        print(f"{name}: {times}{ratio}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
