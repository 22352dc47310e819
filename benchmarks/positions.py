"""Where Σ_N-CSWM puts each object: its embedding as a linear map of its cell.

python benchmarks/positions.py RUN            # a run of cswm-n

For each object alone in the picture, at every cell in turn: how bright its mask is in its cell and elsewhere, how much
of its embedding a linear map of row and column explains, and how that map and its mean agree with those of the first
object (cosine, and distance in steps of one cell).
"""

import argparse

import numpy as np
import torch

from howm.models.cswm import CSWMN
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint, rebuild
from howm.runs.provenance import training_world
from howm.worlds.grid_world import GridWorld


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    checkpoint = load_checkpoint(find_checkpoint(parser.parse_args().run))
    model = rebuild(checkpoint).eval()
    if not isinstance(model, CSWMN):
        parser.error("this is no run of cswm-n")
    world, _ = training_world(checkpoint.record.data)
    if not isinstance(world, GridWorld):
        parser.error("this run's world has no grid")
    renderer = world.renderer
    count, width = renderer.grid.cell_count, renderer.grid.width
    cells = np.arange(count)
    place = np.stack(np.divmod(cells, width), axis=1).astype(float)
    place -= place.mean(axis=0)
    first = None
    print("object heading   in cell elsewhere   linear   map's cosine   mean's distance")
    for number, heading in enumerate(renderer.library.headings):
        pictures = torch.from_numpy(renderer.render(np.full((count, 1), number), cells[:, None]))
        embedding = model.encode(pictures).slots[:, number].double().numpy()
        mask = model.mask_cnn(pictures)[:, number].numpy()
        own = mask[cells, cells].mean()
        elsewhere = (mask.sum() / count - own) / (count - 1)
        mean = embedding.mean(axis=0)
        linear = np.linalg.lstsq(place, embedding - mean, rcond=None)[0]
        explained = 1 - np.square(embedding - mean - place @ linear).sum() / np.square(embedding - mean).sum()
        first = (linear, mean) if first is None else first
        cosine = (linear * first[0]).sum() / (np.linalg.norm(linear) * np.linalg.norm(first[0]))
        step = np.linalg.norm(first[0], axis=1).mean()
        distance = np.linalg.norm(mean - first[1]) / step
        print(f"{number:6} {heading:7} {own:9.2f} {elsewhere:9.2f} {explained:8.3f} {cosine:14.2f} {distance:17.2f}")


if __name__ == "__main__":
    main()
