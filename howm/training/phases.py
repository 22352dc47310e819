"""The phases of training: first an extractor, where one is to be frozen, then the model on its slots."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from howm.errors import HowmError
from howm.models.registry import build_model
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
        return self.begin + self.config.steps * self.config.starts

    def trained(self, step: int) -> int:
        """How many steps of its present start have been taken at a step of the run; 0 where one begins."""
        return (step - self.begin) % self.config.steps

    def start(self, step: int) -> int:
        """Which of its starts a step belongs to, from 0 on."""
        return (step - self.begin) // self.config.steps


def plan_phases(model: WorldModel, config: RunConfig) -> list[Phase]:
    """Without ``config.represent``, an extractor is taken as it is."""
    starts = max(part.starts for part in (config.train, config.represent) if part is not None)
    if config.method is None and starts > 1:
        raise HowmError(f"starts={starts} needs a method, which can be built anew; give starts=1 with a model")
    if config.represent is None or model.frozen_extractor is None:
        return [Phase("train", model, config.train, 0)]
    refuse_contradiction(config.represent, config.train)
    first = Phase("represent", model.frozen_extractor, config.represent, 0)
    return [first, Phase("train", model, config.train, first.end)]


def renew(model: WorldModel, phase: Phase, method: str, model_config: Any, seed: int) -> None:
    """Give what a phase fits new weights; a frozen extractor keeps its own in later phases."""
    assert model.spec is not None
    fresh = build_model(method, model.spec, model_config, seed)
    if phase.module is not model:
        assert fresh.frozen_extractor is not None
        phase.module.load_state_dict(fresh.frozen_extractor.state_dict())
        return
    if model.frozen_extractor is not None and fresh.frozen_extractor is not None:
        fresh.frozen_extractor.load_state_dict(model.frozen_extractor.state_dict())
    model.load_state_dict(fresh.state_dict())


def make_optimizer(phase: Phase, plain: bool = False) -> torch.optim.Optimizer:
    """``plain``: of weights that stay on the CPU, at full precision, in one process."""
    weights = [parameter for parameter in phase.module.parameters() if parameter.requires_grad]
    if phase.config.optimizer == "rmsprop":
        return torch.optim.RMSprop(weights, lr=phase.config.lr)
    lean = plain and all(weight.dtype == torch.float32 for weight in weights)
    adam = FusedAdam if lean else partial(torch.optim.Adam, fused=True)
    return adam(weights, lr=phase.config.lr, betas=(0.9, phase.config.beta2))
