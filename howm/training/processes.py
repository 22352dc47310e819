"""One process or several under ``torchrun``, which take shares of a batch and decide alike."""

from typing import Any

import torch

from howm.errors import HowmError
from howm.runs.config import TrainConfig


def make_accelerator(config: TrainConfig) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    if config.precision == "fp16" and not torch.cuda.is_available():
        raise HowmError("train.precision=fp16 needs a GPU; use bf16 or fp32")
    AcceleratorState._reset_state()  # else a second fit in one process could not choose its own precision
    precision = "no" if config.precision == "fp32" else config.precision
    return Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=precision)


def prepare(accelerator: Any, module: Any, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
    """What the accelerator makes of both; where it is `alone` they stay as they are: what it imports takes seconds."""
    if alone(accelerator):
        return module, optimizer
    prepared: tuple[Any, Any] = accelerator.prepare(module, optimizer)
    return prepared


def release(accelerator: Any, module: Any) -> None:
    """Take off what `prepare` put around a module."""
    if not alone(accelerator):
        accelerator.unwrap_model(module, keep_fp32_wrapper=False)


def alone(accelerator: Any) -> bool:
    """Whether this is one process on the CPU, at full precision."""
    cpu = accelerator.device.type == "cpu" and accelerator.mixed_precision == "no"
    return bool(cpu and accelerator.num_processes == 1)


def seed_all(seed: int, device: torch.device) -> None:
    """`torch.manual_seed`, which on the CPU alone need not look for other devices."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def any_process(accelerator: Any, flag: bool) -> bool:
    """Whether the flag is set in any process."""
    if accelerator.num_processes == 1:
        return flag
    total = accelerator.reduce(torch.tensor(float(flag), device=accelerator.device), reduction="sum")
    return bool(total.item() > 0)


def mean_over_processes(accelerator: Any, number: float) -> float:
    """Statistics of batches differ between processes; by their mean all decide alike."""
    if accelerator.num_processes == 1:
        return number
    total = torch.tensor(number, dtype=torch.float64, device=accelerator.device)
    return float(accelerator.reduce(total, reduction="mean"))
