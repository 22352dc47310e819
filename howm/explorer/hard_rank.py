"""The rank of the truth in the hard pool, for one rollout that a person made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Integer, Num
from torch import Tensor

from howm.evaluation.pools import NEAR_MISSES
from howm.evaluation.ranking import keep_extra, ranks_from_distances
from howm.explorer.rollout import Imagination, Rollout
from howm.explorer.stage import Stage
from howm.explorer.subject import Sight, plain_number

ELSEWHERE = 200  # references in other scenes
SHOWN = 4  # of the nearest wrong references


@dataclass
class _Elsewhere:
    """Random states in other scenes of one size."""

    scenes: Integer[np.ndarray, "R K"]
    states: Num[np.ndarray, "R K F"]
    embeddings: list[Tensor]  # (R, size) each, as large as the model makes them


@dataclass
class HardPool:
    """Ranks rollouts of a stage among: the frames before, other plays from the same start, states of other scenes."""

    stage: Stage
    _elsewhere: dict[int, _Elsewhere] = field(default_factory=dict)

    def rank(self, rollout: Rollout, time: Any) -> dict[str, Any]:
        """The rank of the true frame, and the nearest wrong references as pictures, model by model."""
        time = rollout.require_time(time)
        world, k = rollout.world, len(rollout.scene)
        elsewhere = self.other_scenes(k, [mind.sight for mind in rollout.minds])
        rng = np.random.default_rng([k, time, *rollout.actions[:time]])
        start = np.array([rollout.scene])
        plays = world.near_misses(start, rollout.states[0][None], max(time, 1), NEAR_MISSES, self.stage.moving, rng)[0]
        # The truth first, then all that it is compared with.
        own = np.concatenate([np.stack([rollout.states[time], *rollout.states[:time]]), plays])
        scenes = np.concatenate([np.repeat(start, len(own), axis=0), elsewhere.scenes])
        states = np.concatenate([own, elsewhere.states])
        labels = _labels(world.state_key(scenes, states))
        keep = np.concatenate([[True], keep_extra(labels[None, 1:], labels[:1])[0]])
        texts = ["", *(f"frame {t} of this rollout" for t in range(time))]
        texts += ["another play from the same start"] * len(plays) + ["a state of another scene"] * len(
            elsewhere.scenes
        )
        found = []
        for mind, others in zip(rollout.minds, elsewhere.embeddings, strict=True):
            distances = _distances(mind, time, start, plays, others)
            rank = ranks_from_distances(distances[None], np.array([0]), keep[None])[0]
            wrong = [int(i) for i in np.argsort(distances, kind="stable") if keep[i] and i > 0][:SHOWN]
            nearest = [
                {
                    "picture": world.render(scenes[i : i + 1], states[i : i + 1])[0],
                    "distance": plain_number(float(distances[i])),
                    "text": texts[i],
                }
                for i in wrong
            ]
            own_distance = plain_number(float(distances[0]))
            found.append({"rank": float(rank), "of": int(keep.sum()), "distance": own_distance, "nearest": nearest})
        return {"models": found}

    def other_scenes(self, k: int, sights: Sequence[Sight]) -> _Elsewhere:
        if k not in self._elsewhere:
            rng = np.random.default_rng([k, 11])
            drawn = [np.sort(rng.choice(self.stage.world.n, k, replace=False)) for _ in range(ELSEWHERE)]
            scenes = np.stack(drawn).astype(np.int64)
            states = self.stage.world.reset(scenes, rng)
            embeddings = [sight.embed(sight.encode(scenes, states)) for sight in sights]
            self._elsewhere[k] = _Elsewhere(scenes, states, embeddings)
        return self._elsewhere[k]


def _distances(
    mind: Imagination, time: int, start: Integer[np.ndarray, "1 K"], plays: Num[np.ndarray, "P K F"], others: Tensor
) -> Float[np.ndarray, " R"]:
    """From what was imagined to the truth, the frames before it, other plays, and other scenes."""
    ends = mind.sight.embed(mind.sight.encode(np.repeat(start, len(plays), axis=0), plays))
    references = torch.cat([mind.encoded[time], *mind.encoded[:time], ends, others])
    return np.asarray(mind.sight.distances(mind.imagined[time], references)[0])


def _labels(keys: Integer[np.ndarray, "R words"]) -> Integer[np.ndarray, " R"]:
    """Equal numbers for equal states."""
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
