"""A rollout that a person makes: true states, and what each model imagines from the first frame alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Num, UInt8
from torch import Tensor

from howm.errors import HowmError, short
from howm.explorer.places import places
from howm.explorer.subject import Matrix, Sight, plain_matrix, plain_number
from howm.models.world_model import State
from howm.worlds.scene_set import Scene
from howm.worlds.world import World

MAX_STEPS = 500
REFERENCES = 100  # random states of the scene, of which the nearest is shown for a model that cannot draw


@dataclass
class Imagination:
    """What one model imagines: a latent state, and the embedding of it and of the true frame, for every time."""

    sight: Sight
    states: list[State] = field(default_factory=list)
    imagined: list[Float[Tensor, "1 size"]] = field(default_factory=list)
    encoded: list[Float[Tensor, "1 size"]] = field(default_factory=list)
    references: tuple[Num[np.ndarray, "R K F"], Float[Tensor, "R size"]] | None = None

    def cut(self, length: int) -> None:
        for kept in (self.states, self.imagined, self.encoded):
            del kept[length:]


class Rollout:
    """One scene that is played; frame 0 is the start, frame t + 1 follows from action t."""

    def __init__(self, world: World, sights: Sequence[Sight], scene: Scene, start: Num[np.ndarray, "K F"]) -> None:
        self.world, self.scene = world, scene
        self._ids = np.array([scene])
        self.states, self.actions = [start], list[int]()
        self.minds = [Imagination(sight) for sight in sights]
        for mind in self.minds:
            self._look(mind, mind.sight.encode(self._ids, start[None]))

    def _look(self, mind: Imagination, state: State) -> None:
        """Add an imagined state, and the encoding of the last true frame beside it."""
        mind.states.append(state)
        mind.imagined.append(mind.sight.embed(state))
        mind.encoded.append(mind.sight.embed(mind.sight.encode(self._ids, self.states[-1][None])))

    @property
    def time(self) -> int:
        return len(self.actions)

    def require_time(self, time: Any) -> int:
        if type(time) is not int or not 0 <= time <= self.time:
            raise HowmError(f"time must be an integer from 0 to {self.time}, got {short(time)}")
        return time

    def require_action(self, action: Any) -> int:
        each = self.world.actions_per_object
        if type(action) is not int or not 0 <= action < self.world.n * each:
            raise HowmError(f"action must be an integer from 0 to {self.world.n * each - 1}, got {short(action)}")
        return action

    def step(self, action: Any) -> None:
        action = self.require_action(action)
        if self.time >= MAX_STEPS:
            raise HowmError(f"this rollout has {MAX_STEPS} steps already; undo some or start again")
        taken = np.array([action])
        following = self.world.step(self._ids, self.states[-1][None], taken)[0]
        imagined = [mind.sight.step(mind.states[-1], taken) for mind in self.minds]
        self.states.append(following)
        self.actions.append(action)
        for mind, state in zip(self.minds, imagined, strict=True):
            self._look(mind, state)

    def rewind(self, time: Any) -> None:
        """Forget all frames after that of ``time``."""
        time = self.require_time(time)
        del self.states[time + 1 :], self.actions[time:]
        for mind in self.minds:
            mind.cut(time + 1)

    def picture(self, time: int) -> UInt8[np.ndarray, "height width 3"]:
        return np.asarray(self.world.render(self._ids, self.states[time][None])[0])

    def frame(self, time: int) -> dict[str, Any]:
        """What a page shows of one time; pictures are arrays."""
        before = self.states[max(0, time - 1)]
        return {
            "time": time,
            "action": self.actions[time - 1] if time else None,
            "truth": self.picture(time),
            "places": places(self.world, self._ids[0], self.states[time]),
            "changed": bool((self.states[time] != before).any()),
            "models": [self._imagined(mind, time) for mind in self.minds],
        }

    def _imagined(self, mind: Imagination, time: int) -> dict[str, Any]:
        drawn = mind.sight.draw(mind.states[time])
        distance = mind.sight.distances(mind.imagined[time], mind.encoded[time])
        return {
            "imagined": self._nearest(mind, time) if drawn is None else drawn[0],
            "nearest": drawn is None,
            "distance": plain_number(float(distance[0, 0])),
        }

    def _nearest(self, mind: Imagination, time: int) -> UInt8[np.ndarray, "height width 3"]:
        """The picture whose encoding is nearest: among random states of the scene, all frames of this rollout, and the
        states one action away from the truth."""
        if mind.references is None:
            many = np.repeat(self._ids, REFERENCES, axis=0)
            states = self.world.reset(many, np.random.default_rng(0))
            mind.references = states, mind.sight.embed(mind.sight.encode(many, states))
        offered = self.world.offered_actions(self._ids)[0]
        many = np.repeat(self._ids, len(offered), axis=0)
        aside = self.world.step(many, np.repeat(self.states[time][None], len(offered), axis=0), offered)
        states = np.concatenate([np.stack(self.states[: time + 1]), aside, mind.references[0]])
        embeddings = [*mind.encoded[: time + 1], mind.sight.embed(mind.sight.encode(many, aside)), mind.references[1]]
        distances = mind.sight.distances(mind.imagined[time], torch.cat(embeddings))[0]
        best = int(np.where(np.isfinite(distances), distances, np.inf).argmin())
        return np.asarray(self.world.render(self._ids, states[best][None])[0])

    def inspect(self, time: Any) -> dict[str, Any]:
        """Slots, bindings and embeddings of one time, model by model."""
        time = self.require_time(time)
        return {"models": [self._inspect(mind, time) for mind in self.minds]}

    def _inspect(self, mind: Imagination, time: int) -> dict[str, Any]:
        slots, binding = self._slots(mind, time)
        rows, count = mind.sight.rows(mind.states[time])
        embeddings = {"imagined": mind.imagined[time], "truth": mind.encoded[time]}
        shown = {name: plain_matrix(embedding.view(count, -1)) for name, embedding in embeddings.items()}
        return {"slots": slots, "binding": binding, "embedding": {"rows": rows, **shown}}

    def _slots(self, mind: Imagination, time: int) -> tuple[list[np.ndarray] | None, Matrix | None]:
        """The slots of a true frame as pictures, and its binding."""
        state = self.states[time][None]
        slots = mind.sight.slots(self._ids, state)
        return None if slots is None else list(slots), mind.sight.binding(mind.sight.encode(self._ids, state))

    def suggest(self, count: Any, moving: float | None, rng: np.random.Generator) -> list[int]:
        """Actions of random play from the last frame."""
        if type(count) is not int or not 1 <= count <= MAX_STEPS:
            raise HowmError(f"count must be an integer from 1 to {MAX_STEPS}, got {short(count)}")
        _, actions = self.world.play(self._ids, self.states[-1][None], count, moving, rng)
        return [int(action) for action in actions[0]]
