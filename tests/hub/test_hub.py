"""What is shared on the Hub is what a run holds, comes back as it was, and failures are one line. No network here."""

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
import yaml
from huggingface_hub import errors

import howm
from howm import Amounts, make_dataset, save_dataset
from howm.cli.main import main
from howm.errors import HowmError
from howm.evaluation.run import evaluate_run
from howm.files import file_hash
from howm.runs.config import configure
from howm.runs.result import read_result, write_result
from howm.training.run import train_run

REPO = "someone/a-model"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "shapes.h5"
    amounts = Amounts(train_episodes=40, train_steps=8, eval_episodes=60, eval_steps=5)
    save_dataset(make_dataset("shapes", 6, 3, amounts=amounts), path)
    return path


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A trained and evaluated model; nobody may change it."""
    out = tmp_path_factory.mktemp("runs") / "cswm"
    short = {"model": {"hidden": 8}, "train": {"steps": 4, "batch": 8, "check_every": 2, "log_every": 2}}
    config = configure("cswm-n", "cpu", short)
    train_run(config, howm.load_dataset(data), out, 3, data_path=str(data), data_hash=file_hash(data))
    evaluate_run(out, out=out / "results.json", steps=(1, 5))
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


class Hub:
    """Records what is asked of the client, and serves the files of a folder."""

    def __init__(self, folder: Path | None = None, failure: Exception | None = None, public: bool = False) -> None:
        self.folder, self.failure, self.public, self.asked, self.uploaded = folder, failure, public, [], {}

    def __call__(self, **about: str) -> "Hub":
        assert about["library_name"] == "howm"
        return self

    def _answer(self, verb: str, repo_id: str, **options: object) -> None:
        self.asked.append((verb, repo_id, options))
        if self.failure is not None:
            raise self.failure

    def create_repo(self, repo_id: str, **options: object) -> str:
        self._answer("create_repo", repo_id, **options)
        return f"https://hub/{repo_id}"

    def repo_info(self, repo_id: str, **options: object) -> SimpleNamespace:
        self._answer("repo_info", repo_id, **options)
        return SimpleNamespace(private=not self.public)

    def upload_folder(self, *, repo_id: str, folder_path: str, **options: object) -> None:
        self._answer("upload_folder", repo_id, **options)
        self.uploaded = files(Path(folder_path))

    def snapshot_download(self, repo_id: str, *, local_dir: str, allow_patterns: list[str], **options: object) -> None:
        self._answer("snapshot_download", repo_id, **options)
        for name, content in files(self.folder).items():
            if name in allow_patterns:
                Path(local_dir, name).write_bytes(content)
        notes = Path(local_dir, ".cache", "huggingface")
        notes.mkdir(parents=True)
        (notes / "notes").write_text("of the Hub")

    def hf_hub_download(self, repo_id: str, filename: str, **options: object) -> str:
        self._answer("hf_hub_download", repo_id, filename=filename, **options)
        return str(self.folder / filename)


@pytest.fixture
def hub(monkeypatch):
    def install(**how: object) -> Hub:
        made = Hub(**how)
        monkeypatch.setattr(huggingface_hub, "HfApi", made)
        return made

    return install


def test_the_stand_in_is_asked_what_the_client_knows(run, hub, tmp_path):
    """Else the tests here would prove nothing."""
    known = {
        verb: set(inspect.signature(getattr(huggingface_hub.HfApi, verb)).parameters)
        for verb in ("create_repo", "repo_info", "upload_folder", "snapshot_download", "hf_hub_download")
    }
    howm.hub.push(run, REPO, dry_run=tmp_path / "up")
    client = hub(folder=tmp_path / "up")
    howm.hub.push(run, REPO, private=True)
    howm.hub.pull(REPO, tmp_path / "back")
    howm.load(f"hf:{REPO}")
    assert {verb for verb, _, _ in client.asked} == set(known)
    for verb, _, options in client.asked:
        named = set(inspect.signature(getattr(Hub, verb)).parameters) - {"options"}
        assert named | set(options) <= known[verb]


def test_a_model_is_its_checkpoint_its_results_and_a_card(run, tmp_path):
    folder = tmp_path / "new" / "up"
    assert howm.hub.push(run, REPO, dry_run=folder) == str(folder)
    assert sorted(files(folder)) == ["README.md", "config.yaml", "model.safetensors", "results.json"]
    assert (folder / "model.safetensors").read_bytes() == (run / "best.safetensors").read_bytes()
    assert (folder / "results.json").read_bytes() == (run / "results.json").read_bytes()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["up"]


def test_a_model_is_loaded_from_such_a_folder(run, tmp_path):
    howm.hub.push(run, REPO, dry_run=tmp_path / "up")
    assert equal(howm.load(tmp_path / "up"), howm.load(run))
    assert main(["eval", str(tmp_path / "up"), "--fresh-seed", "1", "--episodes", "20", "--steps", "1"]) == 0


def test_nothing_tells_where_the_data_lies_on_this_machine(run, data, tmp_path):
    howm.hub.push(run, REPO, dry_run=tmp_path / "up")
    assert str(data) in (run / "config.yaml").read_text()
    assert not [name for name, content in files(tmp_path / "up").items() if str(data.parent).encode() in content]
    config = yaml.safe_load((tmp_path / "up" / "config.yaml").read_text())
    kept = yaml.safe_load((run / "config.yaml").read_text())
    assert config == {key: value for key, value in kept.items() if key != "data"}


def test_the_card_says_what_is_known_and_no_more(run, tmp_path):
    howm.hub.push(run, REPO, dry_run=tmp_path / "up")
    card = (tmp_path / "up" / "README.md").read_text()
    head, body = re.fullmatch(r"---\n(.*?)---\n(.*)", card, flags=re.DOTALL).groups()
    metadata = yaml.safe_load(head)
    assert metadata["library_name"] == "howm"
    assert "pipeline_tag" not in metadata
    results = read_result(run / "results.json")
    for words in ("Σ_N-CSWM on Shapes, N=6, K=3", "| training scenes | 10 |", "| seed of training | 3 |", REPO):
        assert words in body
    assert results.versions["torch"] in body
    for scores in (*results.scores.values(), *results.controls.values()):
        for pool in ("paper", "hard"):
            for k in ("1", "5"):
                assert f"{scores[pool][k].mrr:.2f} (" in body
    assert f'howm.load("hf:{REPO}")' in body
    huggingface_hub.ModelCard(card)  # the Hub reads it


def test_a_model_that_was_not_evaluated_says_so(tmp_path):
    howm.hub.push("howm-shapes-n10", REPO, dry_run=tmp_path / "up")
    assert sorted(files(tmp_path / "up")) == ["README.md", "config.yaml", "model.safetensors"]
    card = (tmp_path / "up" / "README.md").read_text()
    assert "has not been evaluated" in card
    assert "MRR" not in card


def test_results_of_another_checkpoint_are_refused(run, tmp_path):
    stale = tmp_path / "stale"
    stale.mkdir()
    for name, content in files(run).items():
        (stale / name).write_bytes(content)
    write_result(replace(read_result(stale / "results.json"), best_step=1), stale / "results.json")
    with pytest.raises(HowmError, match="another checkpoint"):
        howm.hub.push(stale, REPO, dry_run=tmp_path / "up")
    assert not (tmp_path / "up").exists()


def test_a_dataset_is_its_file_its_certificate_and_a_card(data, tmp_path, capsys):
    howm.hub.push(data, "someone/shapes", dry_run=tmp_path / "up")
    assert sorted(files(tmp_path / "up")) == ["README.md", "certificate.txt", "dataset.h5"]
    assert (tmp_path / "up" / "dataset.h5").read_bytes() == data.read_bytes()
    assert main(["data", "check", str(tmp_path / "up" / "dataset.h5")]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "up" / "certificate.txt").read_text() == printed
    card = (tmp_path / "up" / "README.md").read_text()
    assert printed.strip() in card
    assert file_hash(data) in card
    huggingface_hub.DatasetCard(card)


def test_data_whose_certificate_is_violated_is_not_shared(data, tmp_path):
    dataset = howm.load_dataset(data)
    save_dataset(replace(dataset, eval=dataset.eval_seen), tmp_path / "broken.h5")
    with pytest.raises(HowmError, match="violated"):
        howm.hub.push(tmp_path / "broken.h5", "someone/shapes", dry_run=tmp_path / "up")


def test_a_model_of_ones_own_is_not_shared(data, tmp_path):
    """Nobody could load it again."""
    from howm.models.registry import build_model

    dataset = howm.load_dataset(data)
    model = build_model("cswm-n", howm.WorldSpec(6, 3), configure("cswm-n", "cpu").model, 0)
    howm.fit(model, dataset, howm.TrainConfig(steps=2, batch=8, check_every=2, log_every=2), tmp_path / "own")
    with pytest.raises(HowmError, match="model of your own"):
        howm.hub.push(tmp_path / "own", REPO, dry_run=tmp_path / "up")


@pytest.mark.parametrize(("private", "flags"), [(False, []), (True, ["--private"])])
def test_push_uploads_what_a_dry_run_writes(run, hub, private, flags, tmp_path, capsys):
    client = hub()
    assert main(["hub", "push", str(run), REPO, *flags]) == 0
    assert capsys.readouterr().out == f"https://hub/{REPO}\n"
    assert main(["hub", "push", str(run), REPO, "--dry-run", str(tmp_path / "up")]) == 0
    assert client.uploaded == files(tmp_path / "up")
    (created, _, how), *_, (uploaded, repo, what) = client.asked
    assert (created, how) == ("create_repo", {"repo_type": "model", "private": private or None, "exist_ok": True})
    assert (uploaded, repo, what["repo_type"]) == ("upload_folder", REPO, "model")


def test_what_should_be_private_does_not_go_to_a_public_repository(run, hub, capsys):
    client = hub(public=True)
    assert main(["hub", "push", str(run), REPO, "--private"]) == 2
    assert "is public" in capsys.readouterr().err
    assert client.uploaded == {}


def test_datasets_go_to_the_datasets(data, hub):
    client = hub()
    assert main(["hub", "push", str(data), "someone/shapes"]) == 0
    assert [options["repo_type"] for _, _, options in client.asked] == ["dataset", "dataset"]


def test_pull_brings_back_what_was_pushed(run, data, hub, tmp_path, capsys):
    for source, flags in ((run, []), (data, ["--dataset"])):
        up, back = tmp_path / f"up-{source.name}", tmp_path / f"back-{source.name}"
        howm.hub.push(source, REPO, dry_run=up)
        hub(folder=up)
        assert main(["hub", "pull", REPO, *flags, "-o", str(back)]) == 0
        assert capsys.readouterr().out == f"{back}\n"
        assert files(back) == files(up)  # and none of the Hub's own notes
    assert equal(howm.load(tmp_path / "back-cswm"), howm.load(run))


def test_a_model_is_loaded_by_its_name_on_the_hub(run, hub, tmp_path, capsys):
    howm.hub.push(run, REPO, dry_run=tmp_path / "up")
    client = hub(folder=tmp_path / "up")
    assert equal(howm.load(f"hf:{REPO}"), howm.load(run))
    assert client.asked == [("hf_hub_download", REPO, {"filename": "model.safetensors"})]
    assert main(["eval", f"hf:{REPO}", "--fresh-seed", "1", "--episodes", "20", "--steps", "1"]) == 0
    assert main(["eval", f"hf:{REPO}"]) == 2
    assert "--fresh-seed" in capsys.readouterr().err


@pytest.mark.parametrize("content", [{}, {"model.safetensors": b"no weights"}, {"model.bin": b"a pickle"}])
def test_what_howm_cannot_read_leaves_nothing(content, hub, tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    for name, text in content.items():
        (served / name).write_bytes(text)
    hub(folder=served)
    with pytest.raises(HowmError, match=r"model\.safetensors"):
        howm.hub.pull(REPO, tmp_path / "back")
    assert [path.name for path in tmp_path.iterdir()] == ["served"]


def test_folders_that_exist_are_left_alone(run, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    assert main(["hub", "push", str(run), REPO, "--dry-run", str(tmp_path / "mine")]) == 2
    assert main(["hub", "pull", REPO, "-o", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr().err.count("exists already") == 2
    assert list((tmp_path / "mine").iterdir()) == []


def answered(kind: type[Exception], status: int) -> Exception:
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None)
    return kind("no", response=response)


FAILURES = [
    (errors.LocalTokenNotFoundError("no token"), ["hf auth login", "HF_TOKEN"]),
    (answered(errors.HfHubHTTPError, 401), ["hf auth login", "HF_TOKEN"]),
    (answered(errors.HfHubHTTPError, 403), [REPO, "may write"]),
    (answered(errors.HfHubHTTPError, 500), [REPO]),
    (answered(errors.RepositoryNotFoundError, 404), ["there is no model", REPO]),
    (answered(errors.GatedRepoError, 403), [REPO, "asked for"]),
    (answered(errors.RemoteEntryNotFoundError, 404), [REPO, "model.safetensors"]),
    (errors.LocalEntryNotFoundError("offline\nor so"), ["online"]),
    (errors.OfflineModeIsEnabled("offline mode is enabled"), ["offline mode"]),
    (errors.HFValidationError("bad name"), ["bad name", "names no repository"]),
    (errors.HTTPError("Name or service not known"), ["Name or service not known"]),
    (OSError(28, "No space left on device"), ["No space left"]),
]


@pytest.mark.parametrize(("failure", "words"), FAILURES, ids=lambda value: type(value).__name__)
def test_failures_are_one_line_and_leave_nothing(failure, words, run, hub, tmp_path, capsys):
    hub(failure=failure)
    for command in (["push", str(run), REPO], ["pull", REPO, "-o", str(tmp_path / "back")]):
        assert main(["hub", *command]) == 2
        said = capsys.readouterr().err
        assert len(said.strip().splitlines()) == 1
        for word in words:
            assert word in said
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HowmError):
        howm.load(f"hf:{REPO}")


@pytest.mark.parametrize("name", ["model", "a/b/c", ""])
def test_a_repository_has_an_owner_and_a_name(name, run, hub, tmp_path):
    client = hub()
    for ask, arguments in (
        (howm.hub.push, (run, name)),
        (howm.hub.pull, (name, tmp_path / "x")),
        (howm.load, (f"hf:{name}",)),
    ):
        with pytest.raises(HowmError, match="owner/name"):
            ask(*arguments)
    assert client.asked == []


def test_without_the_client_there_is_a_hint(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["hub", "push", str(run), REPO]) == 2
    assert "howm[hub]" in capsys.readouterr().err


def test_what_is_no_model_is_refused(tmp_path, capsys):
    assert main(["hub", "push", str(tmp_path / "nowhere"), REPO, "--dry-run", str(tmp_path / "up")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
