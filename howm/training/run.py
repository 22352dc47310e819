"""Train a method of the table in a run directory."""

import ctypes
from dataclasses import replace
from pathlib import Path

from howm.data.dataset import Dataset
from howm.errors import HowmError
from howm.models.registry import build_model
from howm.runs.config import RunConfig
from howm.runs.locate import find_checkpoint
from howm.runs.transfer import refuse_seen, take_extractor
from howm.training.fit import fit
from howm.training.options import FitOptions


def train_run(
    config: RunConfig, dataset: Dataset, out: str | Path, seed: int = 0, *, data_path: str | None = None,
    data_hash: str | None = None, extractor: str | None = None, represent_only: bool = False, resume: bool = False,
    minutes: float | None = None, tensorboard: bool = False,
) -> bool:  # fmt: skip
    """Train a method of the table in a run directory; True when it is finished, False when time ran out.

    ``extractor`` names a run whose trained extractor is taken over; ``represent_only`` trains one for others to take
    over, and a call without it resumes from there.
    """
    if not 0 <= seed < 2**63:  # what torch takes
        raise HowmError(f"seed must be an integer from 0 to 2**63 - 1, got {seed}")
    if config.method is None:
        raise HowmError("this configuration names no method; make it with howm.configure, or call howm.fit")
    model = build_model(config.method, dataset.spec, config.model, seed)
    origin = None
    if extractor is not None:
        origin = take_extractor(model, config, find_checkpoint(extractor))
        refuse_seen(origin, dataset)
        config = replace(config, represent=None)
    if represent_only and (config.represent is None or model.frozen_extractor is None):
        raise HowmError("there are no slots to train first in this run; leave out `represent_only`")
    options = FitOptions(resume, minutes, tensorboard, represent_only, data_path, data_hash, origin)
    return fit(model, dataset, config, out, seed, options)


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks: tensors of a training step are then not zeroed page by page by the system anew."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # another C library has its own habits
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    mallopt(mmap_threshold, 2**30)
    mallopt(trim_threshold, 2**31 - 1)
