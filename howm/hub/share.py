"""Share trained models and datasets on the Hugging Face Hub, and take them from it.

What is uploaded is a folder of a few files, the same that ``dry_run`` leaves on the disk; a model in it is a checkpoint
as a run has it, and is rebuilt in the one way that there is.
"""

import os
import shutil
import tempfile
from pathlib import Path

import h5py

from howm.config import to_yaml
from howm.data.describe import certificate_text
from howm.data.storage import load_certified, load_dataset
from howm.errors import HowmError
from howm.files import atomic_folder, file_hash
from howm.hub.cards import dataset_card, model_card
from howm.remote import DATASET, FILES, MODEL, Kind, download, upload
from howm.runs.checkpoint import load_checkpoint
from howm.runs.locate import find_checkpoint, rebuild
from howm.runs.result import RunResult, read_result, write_result

Source = str | os.PathLike[str]


def push(source: Source, repo_id: str, *, private: bool = False, dry_run: Source | None = None) -> str:
    """Upload a run, a trained model or a dataset file with its card, and give the address of the repository.

    With ``dry_run``, write into that new folder what would be uploaded, and give the folder.
    """
    if dry_run is not None:
        with atomic_folder(Path(dry_run)) as folder:
            _fill(folder, source, repo_id)
        return str(dry_run)
    with tempfile.TemporaryDirectory() as scratch:
        kind = _fill(Path(scratch), source, repo_id)
        return upload(Path(scratch), repo_id, kind, private)


def pull(repo_id: str, folder: Source, kind: Kind = "model") -> Path:
    """Download a model or a dataset into a new folder; what howm cannot read is refused and leaves nothing."""
    with atomic_folder(Path(folder)) as whole, tempfile.TemporaryDirectory(dir=whole.parent) as scratch:
        download(repo_id, kind, Path(scratch))
        for name in FILES[kind]:
            if Path(scratch, name).is_file():
                Path(scratch, name).rename(whole / name)
        if not (whole / FILES[kind][0]).is_file():
            raise HowmError(f"the {kind} {repo_id} on the Hub was not made by howm: it has no {FILES[kind][0]}")
        if kind == "dataset":
            load_dataset(whole / DATASET)
        else:
            rebuild(load_checkpoint(whole / MODEL))
    return Path(folder)


def _fill(folder: Path, source: Source, repo_id: str) -> Kind:
    """Write what is uploaded into a folder, and say what it is."""
    if os.path.isfile(source) and h5py.is_hdf5(source):
        _fill_dataset(folder, Path(source), repo_id)
        return "dataset"
    _fill_model(folder, source, repo_id)
    return "model"


def _fill_model(folder: Path, run: Source, repo_id: str) -> None:
    path = find_checkpoint(run)
    checkpoint = load_checkpoint(path)
    rebuild(checkpoint)  # refuses what could not be loaded again
    record = checkpoint.record
    shutil.copyfile(path, folder / MODEL)
    # From the checkpoint, not from the run's file, which also tells where on this machine the data lies.
    config = {"data_hash": record.data.hash} | record.configuration()
    (folder / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    results = _results_of(Path(run), checkpoint.step)
    if results is not None:
        write_result(results, folder / "results.json")
    (folder / "README.md").write_text(model_card(record, results, repo_id), encoding="utf-8")


def _results_of(run: Path, step: int) -> RunResult | None:
    """The results.json of a run, if it has one; one of an earlier checkpoint would say what is not true of this."""
    path = run / "results.json"
    if not path.is_file():
        return None
    result = read_result(path)
    if result.best_step != step:
        raise HowmError(f"{path} belongs to another checkpoint than the best one; make it again with `howm eval {run}`")
    return result


def _fill_dataset(folder: Path, path: Path, repo_id: str) -> None:
    dataset = load_certified(path)
    text = certificate_text(dataset, dataset.certificate())
    shutil.copyfile(path, folder / DATASET)
    (folder / "certificate.txt").write_text(text + "\n", encoding="utf-8")
    (folder / "README.md").write_text(dataset_card(dataset, text, file_hash(path), repo_id), encoding="utf-8")
