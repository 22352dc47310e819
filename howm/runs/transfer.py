"""A trained extractor that one run takes over from another."""

from pathlib import Path
from typing import Any

from howm.config import from_plain, to_plain
from howm.data.dataset import Dataset
from howm.errors import HowmError
from howm.models.registry import METHODS
from howm.models.world_model import WorldModel
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import RunConfig
from howm.runs.locate import load_weights
from howm.runs.record import ExtractorOrigin

_PREFIX = "extractor."  # of its weights among those of a model


def take_extractor(model: WorldModel, config: RunConfig, path: Path) -> ExtractorOrigin:
    """Give ``model`` the trained extractor of another run, and say which that was and what scenes it has seen.

    It may come from a library of another size: what an extractor sees are pictures, not names. Keys that matter at
    inference alone may differ.
    """
    checkpoint = load_checkpoint(path)
    record = checkpoint.record
    group = METHODS[config.method].represents if config.method else None
    if model.frozen_extractor is None or group is None:
        raise HowmError("this method has no extractor of its own to take over; leave out `extractor`")
    if record.method is None:
        raise HowmError(f"{path} is a model of your own, whose extractor is not known; give a run of a method")
    theirs = METHODS[record.method]
    made_with = to_plain(from_plain(theirs.model_config, record.model, "model."))
    wanted = to_plain(config.model)[group]
    free = type(model.frozen_extractor).of_inference
    if theirs.represents is None or _fixed(made_with[theirs.represents], free) != _fixed(wanted, free):
        raise HowmError(f"{path} holds no extractor with model.{group}={wanted}; train one, or set that to its own")
    weights = checkpoint.weights()
    found = {name.removeprefix(_PREFIX): value for name, value in weights.items() if name.startswith(_PREFIX)}
    made_for = f"n={record.spec.n} objects, k={record.spec.k} in a scene"
    load_weights(model.frozen_extractor, found, f"{path}, which were made for {made_for},")
    if record.extractor is not None:  # taken over itself: what counts is who trained it, and on which scenes
        return record.extractor
    last = path.with_name("last.safetensors")  # the best checkpoint may be an earlier one, which cost less
    ended = load_checkpoint(last if last.exists() else path).record.progress
    return ExtractorOrigin(record.method, record.seed, record.data.hash, record.data.train_scenes or (), ended.slots)


def _fixed(values: dict[str, Any], free: frozenset[str]) -> dict[str, Any]:
    """The keys that the weights of an extractor depend on."""
    return {key: value for key, value in values.items() if key not in free}


def refuse_seen(extractor: ExtractorOrigin, dataset: Dataset) -> None:
    """An extractor that has seen the scenes of evaluation would make them no longer unseen."""
    if dataset.split is None or dataset.n == dataset.k:
        return
    seen = {*extractor.scenes} & set(dataset.split.eval.scenes)
    if seen:
        raise HowmError(
            f"the extractor was trained on {len(seen)} of the evaluation scenes, e.g. {min(seen)}; "
            "take one that was trained with data of the same seed"
        )
