"""The commit of a run is read from the repository, in which nothing changes."""

import os
import subprocess

import pytest

from howm.runs import provenance


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "howm/runs").mkdir(parents=True)
    (tmp_path / "howm/code.py").write_text("one")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "One")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "howm/runs/provenance.py"))
    return tmp_path


def test_the_commit_says_whether_the_code_was_changed(repository):
    clean = provenance.versions()["commit"]
    assert len(clean) == 40
    (repository / "howm/code.py").write_text("another")
    assert provenance.versions()["commit"] == f"{clean}-dirty"


def test_git_takes_no_lock_that_a_kill_could_leave(repository):
    """With a lock, git would write the new time of the file into its index."""
    os.utime(repository / "howm/code.py", (1e9, 1e9))
    before = (repository / ".git/index").read_bytes()
    assert not provenance.versions()["commit"].endswith("-dirty")
    assert (repository / ".git/index").read_bytes() == before
