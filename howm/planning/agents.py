"""Who plans: a model that sees pictures, and references that know a part of the truth."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer, Num
from torch import Tensor

from howm.data.privileged import Privileged
from howm.errors import HowmError
from howm.models.distance import Metric
from howm.models.world_model import Logs, State, WorldModel, device_of
from howm.worlds.sizes import sized
from howm.worlds.world import Scenes, States, World


class Agent(ABC):
    """A model to plan with, and how it comes to know the state of the world."""

    model: WorldModel

    @abstractmethod
    def observe(self, scenes: Scenes, states: States) -> State:
        """The model's states of these true ones."""


class Seeing(Agent):
    """The model sees the picture, and nothing else, unless it is one that reads object ids."""

    def __init__(self, model: WorldModel, world: World) -> None:
        self.model, self.world = model, world

    def observe(self, scenes: Scenes, states: States) -> State:
        return encode_states(self.model, self.world, scenes, states)


def encode_states(model: WorldModel, world: World, scenes: Scenes, states: States) -> State:
    """True states as the model sees them."""
    pictures = torch.from_numpy(sized(world, scenes).render(scenes, states)).to(device_of(model))
    return model.encode(pictures, Privileged(torch.from_numpy(scenes)) if model.privileged else None)


@dataclass(frozen=True)
class TrueStates(State):
    """Scenes and their true states now and one step ago, and the action between them, -1 at the start."""

    scenes: Integer[Tensor, "B K"]
    now: Num[Tensor, "B K F"]
    before: Num[Tensor, "B K F"]
    action: Integer[Tensor, " B"]


class TrueDynamics(WorldModel, Agent):
    """Search with the true dynamics and the learned encoder: every imagined state is drawn and encoded.

    If this reference fails too, the encoder, the cost or the search is to blame; the learned dynamics take no part.
    """

    def __init__(self, learned: WorldModel, world: World) -> None:
        super().__init__(learned.spec)
        self.learned, self.world = learned, world

    @property
    def model(self) -> WorldModel:  # type: ignore[override]
        return self

    @property
    def metric(self) -> Metric:  # type: ignore[override]
        return self.learned.metric

    def observe(self, scenes: Scenes, states: States) -> State:
        now = torch.from_numpy(states)
        nothing = torch.full((len(scenes),), -1, dtype=torch.int64)
        return TrueStates(torch.from_numpy(scenes), now, now, nothing)

    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> State:
        raise HowmError("this reference begins with true states, which pictures do not tell; call observe")

    def step(self, state: State, action: Integer[Tensor, " B"]) -> State:
        true = _true(state)
        scenes, now = true.scenes.numpy(), true.now.numpy()
        after = sized(self.world, scenes).step(scenes, now, action.cpu().numpy())
        return TrueStates(true.scenes, torch.from_numpy(after.astype(now.dtype)), true.now, action.cpu())

    def forward(self, batch: Any) -> tuple[Tensor, Logs]:
        raise HowmError("a reference has nothing to learn")

    def latent(self, state: State) -> State:
        """The learned model's state that is compared with the goal's."""
        true = _true(state)
        return encode_states(self.learned, self.world, true.scenes.numpy(), true.now.numpy())

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        return self.learned.embed(self.latent(state))

    def objects(self, state: State) -> Float[Tensor, "B N D"] | None:
        return self.learned.objects(self.latent(state))

    def present(self, state: State) -> Bool[Tensor, "B N"] | None:
        return self.learned.present(self.latent(state))


class TrueState(TrueDynamics):
    """Search with the learned dynamics, one step at a time from the true state: errors do not add up.

    Each imagined state is the learned prediction from the encoded picture of the true state one step ago. If this
    reference fails and `TrueDynamics` does not, single predictions are wrong; if it succeeds where the model fails, the
    model's errors add up over steps.
    """

    def latent(self, state: State) -> State:
        true = _true(state)
        before = encode_states(self.learned, self.world, true.scenes.numpy(), true.before.numpy())
        first = true.action < 0
        if bool(first.all()):
            return before
        device = device_of(self.learned)
        after = self.learned.step(before, true.action.clamp_min(0).to(device))
        rows = torch.arange(len(first)) + torch.where(first, 0, len(first))
        return State.join([before, after])[rows]


def _true(state: State) -> TrueStates:
    assert isinstance(state, TrueStates)
    return state
