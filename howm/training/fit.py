"""fit(): any world model, by its own loss, on any dataset; a killed run resumes where it stopped.

A model that has an extractor to freeze is fitted in two phases: first the extractor, which is then frozen, and the
rest on the slots that it makes of the pictures, computed once.
"""

from pathlib import Path

from howm.data.dataset import Dataset
from howm.models.world_model import WorldModel
from howm.runs.config import RunConfig, TrainConfig
from howm.runs.directory import RunDirectory
from howm.training.loop import Trainer
from howm.training.options import FitOptions


def fit(
    model: WorldModel,
    dataset: Dataset,
    config: TrainConfig | RunConfig,
    out: str | Path,
    seed: int = 0,
    options: FitOptions | None = None,
) -> bool:
    """Fit ``model``, leave checkpoints and metrics in ``out``, and, when finished, the best weights in ``model``.

    True when it is finished, False when time ran out. A RunConfig also says how to fit the model's extractor first;
    without that, the extractor is taken as it is. Under ``torchrun`` each process takes its share of a batch of
    (processes x batch). The best checkpoint is chosen by held-out *training* episodes.
    """
    config = RunConfig(config) if isinstance(config, TrainConfig) else config
    options = options or FitOptions()
    directory = RunDirectory(Path(out), options.resume)
    with directory.held():
        return Trainer(model, dataset, config, directory, seed, options).run()
