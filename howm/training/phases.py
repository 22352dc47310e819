"""The phases of training: first an extractor, where one is to be frozen, then the model on its slots."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from howm.models.world_model import WorldModel
from howm.runs.config import RunConfig, TrainConfig, refuse_contradiction
from howm.training.adam import FusedAdam


@dataclass(frozen=True)
class Phase:
    """A part of training: what is fitted, how, and the steps of the run before it."""

    name: str
    module: nn.Module
    config: TrainConfig
    begin: int

    @property
    def end(self) -> int:
        return self.begin + self.config.steps


def plan_phases(model: WorldModel, config: RunConfig) -> list[Phase]:
    """Without ``config.represent``, an extractor is taken as it is."""
    if config.represent is None or model.frozen_extractor is None:
        return [Phase("train", model, config.train, 0)]
    refuse_contradiction(config.represent, config.train)
    first = Phase("represent", model.frozen_extractor, config.represent, 0)
    return [first, Phase("train", model, config.train, first.end)]


def make_optimizer(phase: Phase, plain: bool = False) -> torch.optim.Optimizer:
    """``plain``: of weights that stay on the CPU, at full precision, in one process."""
    weights = [parameter for parameter in phase.module.parameters() if parameter.requires_grad]
    if phase.config.optimizer == "rmsprop":
        return torch.optim.RMSprop(weights, lr=phase.config.lr)
    lean = plain and all(weight.dtype == torch.float32 for weight in weights)
    adam = FusedAdam if lean else partial(torch.optim.Adam, fused=True)
    return adam(weights, lr=phase.config.lr, betas=(0.9, phase.config.beta2))
