"""The one door to the Hugging Face Hub: files up, files down, and every failure as one clear line.

A repository holds a model or a dataset under fixed names; nothing else is fetched, and nothing that is run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from howm.errors import HowmError
from howm.version import __version__

Kind = Literal["model", "dataset"]

PREFIX = "hf:"  # of a model that is named by its repository
MODEL, DATASET = "model.safetensors", "dataset.h5"
FILES: dict[str, tuple[str, ...]] = {
    "model": (MODEL, "results.json", "config.yaml", "README.md"),
    "dataset": (DATASET, "certificate.txt", "README.md"),
}


def upload(folder: Path, repo_id: str, kind: Kind, private: bool = False) -> str:
    """Make the repository if there is none, put the files of a folder into it, and give its address."""
    with _hub(repo_id, kind) as api:
        # None leaves it to the owner's own default, which may be private.
        address = api.create_repo(repo_id, repo_type=kind, private=private or None, exist_ok=True)
        if private and not api.repo_info(repo_id, repo_type=kind).private:
            raise HowmError(f"{repo_id} exists already and is public; choose another name, or make it private first")
        said = f"Upload with howm {__version__}"
        api.upload_folder(repo_id=repo_id, folder_path=str(folder), repo_type=kind, commit_message=said)
        return str(address)


def download(repo_id: str, kind: Kind, folder: Path) -> None:
    """Put the files of a repository, and the Hub's own notes, into a folder."""
    with _hub(repo_id, kind) as api:
        api.snapshot_download(repo_id, repo_type=kind, local_dir=str(folder), allow_patterns=list(FILES[kind]))


def cached_model(name: str | os.PathLike[str]) -> Path:
    """The checkpoint of ``hf:owner/name``, fetched once and kept in the Hub's own cache."""
    repo_id = str(name).removeprefix(PREFIX)
    with _hub(repo_id, "model") as api:
        return Path(api.hf_hub_download(repo_id, MODEL))


@contextmanager
def _hub(repo_id: str, kind: Kind) -> Iterator[Any]:
    """The Hub's client."""
    try:
        from huggingface_hub import HfApi, errors
    except ImportError as error:
        raise HowmError(f"the Hugging Face Hub cannot be used ({error}); pip install 'howm[hub]'") from error
    if repo_id.count("/") != 1:
        raise HowmError(f"{repo_id!r} names no repository of the Hub; give owner/name")
    # Of the HTTP library that this version of the Hub uses.
    http_error: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    try:
        yield HfApi(library_name="howm", library_version=__version__)
    except (http_error, errors.EntryNotFoundError, errors.HFValidationError, OSError) as error:
        raise HowmError(_explain(error, repo_id, kind)) from error


def _explain(error: Exception, repo_id: str, kind: Kind) -> str:
    """What went wrong and what to do, in one line."""
    from huggingface_hub import errors

    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    status = getattr(getattr(error, "response", None), "status_code", None)
    match error:
        case errors.LocalEntryNotFoundError():  # first: it is an EntryNotFoundError, too
            return f"the Hub cannot be reached for {repo_id}, and nothing of it is kept here; are you online?"
        case errors.EntryNotFoundError():
            return f"the {kind} {repo_id} on the Hub was not made by howm: it has no {FILES[kind][0]}"
        case errors.GatedRepoError():
            return f"access to the {kind} {repo_id} must first be asked for on its page on the Hub"
        case errors.RepositoryNotFoundError():
            return f"there is no {kind} {repo_id} on the Hub, or it is private; check the name, or run `hf auth login`"
        case errors.HFValidationError():
            return f"{repo_id!r} names no repository of the Hub: {first_line}"
    if isinstance(error, errors.LocalTokenNotFoundError) or status == 401:
        return "the Hub does not know you; run `hf auth login`, or set HF_TOKEN"
    if status == 403:
        return f"the Hub does not let you change {repo_id}; run `hf auth login` with a token that may write there"
    return f"the Hub cannot be used for {repo_id}: {first_line}"
