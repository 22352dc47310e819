"""A warning: what a model that matches slots would seem to score if only the true pair were matched.

python benchmarks/inflated.py RUN            # a run of monet-bm, or of cswm-slots with model.matching=true

A prediction whose slots are put into the order of the truth, and then compared in that order with all references, is
nearest to the truth even where it predicts nothing: all others had no such help.
"""

import argparse

import torch

from howm.data.rollouts import Rollouts
from howm.evaluation.episodes import fresh_episodes
from howm.evaluation.evaluate import hard_ranks
from howm.models.align import matched_to
from howm.models.distance import EUCLIDEAN
from howm.models.world_model import SlotState
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint, rebuild


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=500)
    options = parser.parse_args()
    checkpoint = load_checkpoint(find_checkpoint(options.run))
    model = rebuild(checkpoint)
    metric = model.metric
    chosen = fresh_episodes(checkpoint, options.steps, 0, options.episodes)
    rollouts, everything = Rollouts(chosen.unseen), slice(0, options.episodes)
    state = first = model.encode(rollouts.observe(0, everything))
    for action in rollouts.actions(options.steps).T:
        state = model.step(state, action)
    truth = model.encode(rollouts.observe(options.steps, everything)).slots
    print(f"MRR in the hard pool after {options.steps} steps, {options.episodes} references, unseen scenes")
    for name, slots in (("model", state.slots), ("predicting no change", first.slots)):
        model.metric = metric
        fair = 100 * (1 / hard_ranks(model, rollouts, options.steps, model.embed(SlotState(slots)))).mean()
        model.metric = EUCLIDEAN  # without matching
        helped = model.embed(SlotState(matched_to(truth, slots)))
        flattered = 100 * (1 / hard_ranks(model, rollouts, options.steps, helped)).mean()
        print(f"{name}: {fair:.1f} with every pair matched, {flattered:.1f} with the true pair alone")


if __name__ == "__main__":
    main()
