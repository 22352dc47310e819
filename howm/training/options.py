"""How a run proceeds."""

from dataclasses import dataclass

from howm.runs.record import ExtractorOrigin


@dataclass(frozen=True)
class FitOptions:
    """How a run proceeds, and what its record says about its data; none of this changes the weights."""

    resume: bool = False  # from the last checkpoint
    minutes: float | None = None  # after which to stop, for a later call to resume
    tensorboard: bool = False
    represent_only: bool = False  # stop when the extractor is trained
    data_path: str | None = None
    data_hash: str | None = None
    extractor: ExtractorOrigin | None = None  # of a trained extractor that the model was given
