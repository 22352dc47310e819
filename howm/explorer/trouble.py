"""Where does it break: the rollouts with the largest error among some hundred."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Num

from howm.explorer.stage import Stage
from howm.explorer.subject import Sight, plain_number
from howm.worlds.scene_set import Scene

ROLLOUTS, STEPS, AT_ONCE, KEPT = 400, 10, 10, 6


@dataclass(frozen=True)
class Trouble:
    """A rollout and the largest error of the first model in it, after ``worst`` steps."""

    scene: Scene
    start: Num[np.ndarray, "K F"]
    actions: tuple[int, ...]
    error: float
    worst: int
    truth: np.ndarray
    imagined: np.ndarray

    def plain(self, kind: str) -> dict[str, Any]:
        return {
            "kind": kind,
            "objects": list(self.scene),
            "steps": self.worst,
            "error": plain_number(self.error),
            "truth": self.truth,
            "imagined": self.imagined,
        }


def find_trouble(stage: Stage, kind: str, k: int, rng: np.random.Generator) -> Iterator[tuple[int, list[Trouble]]]:
    """How many rollouts were tried so far, and the worst of them, the worst first."""
    worst: list[Trouble] = []
    sight = stage.sights(k)[0]
    for done in range(AT_ONCE, ROLLOUTS + 1, AT_ONCE):
        drawn = [stage.draw(kind, k, rng) for _ in range(AT_ONCE)]
        worst += _try(stage, sight, drawn, rng)
        worst = sorted(worst, key=lambda trouble: -trouble.error)[:KEPT]
        yield done, worst


def _try(
    stage: Stage, sight: Sight, drawn: list[tuple[Scene, Num[np.ndarray, "K F"]]], rng: np.random.Generator
) -> list[Trouble]:
    """Random play in some scenes, and where the model was most wrong."""
    world = stage.world
    scenes, start = np.array([scene for scene, _ in drawn]), np.stack([state for _, state in drawn])
    states, actions = world.play(scenes, start, STEPS, stage.moving, rng)
    state = sight.encode(scenes, start)
    errors, pictures = [], []
    for t in range(1, STEPS + 1):
        state = sight.step(state, actions[:, t - 1])
        truth = world.render(scenes, states[:, t])
        imagined = sight.draw(state)
        pictures.append((truth, truth if imagined is None else imagined))
        if imagined is not None:
            errors.append(np.square((truth.astype(float) - imagined) / 255).mean(axis=(1, 2, 3)))
        else:
            errors.append(_latent_error(sight, state, sight.encode(scenes, states[:, t])))
    table = np.nan_to_num(np.stack(errors), nan=np.inf)
    found = []
    for row, (scene, begin) in enumerate(drawn):
        t = int(table[:, row].argmax())
        taken = tuple(int(action) for action in actions[row, : t + 1])
        truth, imagined = pictures[t]
        found.append(Trouble(scene, begin, taken, float(table[t, row]), t + 1, truth[row], imagined[row]))
    return found


def _latent_error(sight: Sight, state: Any, truth: Any) -> Float[np.ndarray, " E"]:
    """The distance to the truth, of a model that cannot draw."""
    one, other = sight.embed(state), sight.embed(truth)
    return np.array([sight.distances(one[i : i + 1], other[i : i + 1])[0, 0] for i in range(len(one))])
