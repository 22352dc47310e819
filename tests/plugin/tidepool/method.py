"""One vector for a whole picture: a method without objects."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from howm import PictureBatch, State, WorldModel, WorldSpec


@dataclass(frozen=True)
class Vector(State):
    """A state that has no slots."""

    values: Tensor


@dataclass(frozen=True)
class SingleVectorConfig:
    """What ``--set model.size=8`` sets."""

    size: int = 16
    hidden: int = 64


class SingleVector(WorldModel):
    """An encoder, a step and a decoder, all of them MLPs."""

    title = "Single vector"
    Config = SingleVectorConfig
    presets: ClassVar = {"paper": {}, "cpu": {"model": {"hidden": 32}, "train": {"steps": 200, "batch": 64}}}
    spec: WorldSpec

    def __init__(self, spec: WorldSpec, config: SingleVectorConfig) -> None:
        super().__init__(spec)
        pixels = spec.height * spec.width * 3
        self.encoder = _mlp(pixels, config.hidden, config.size)
        self.transition = _mlp(config.size + spec.actions, config.hidden, config.size)
        self.decoder = _mlp(config.size, config.hidden, pixels)

    def encode(self, pictures, privileged=None):
        return Vector(self.encoder(_unit(pictures).flatten(1)))

    def step(self, state, action):
        moves = one_hot(action, self.spec.actions).to(state.values.dtype)
        return Vector(state.values + self.transition(torch.cat([state.values, moves], dim=1)))

    def embed(self, state):
        return state.values

    def draw(self, state):
        return torch.sigmoid(self.decoder(state.values)).view(-1, self.spec.height, self.spec.width, 3)

    def forward(self, batch: PictureBatch):
        state, following, negative = (self.encode(one) for one in (batch.obs, batch.next_obs, batch.negative_obs))
        positive = (self.step(state, batch.action).values - following.values).square().sum(dim=1).mean()
        hinge = torch.relu(1 - (state.values - negative.values).square().sum(dim=1)).mean()
        drawn = (self.draw(state) - _unit(batch.obs)).square().mean()
        return positive + hinge + drawn, {"positive": positive.detach(), "hinge": hinge.detach()}


def _mlp(size: int, hidden: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, out))


def _unit(pictures: Tensor) -> Tensor:
    return pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures
