"""The wheel and the source distribution install and run where nothing of this repository is (`make test-slow`)."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both, from a copy of what is tracked: building leaves files beside the sources."""
    folder = tmp_path_factory.mktemp("package")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if name.startswith(("howm/", "tests/", "pyproject.toml", "README.md", "LICENSE")) and (ROOT / name).is_file():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(folder / "source"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """howm of a folder, from another folder, with nothing of this repository on its path."""
    environment = os.environ | {"PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}
    whose = "import sys, howm; assert howm.__file__.startswith(sys.argv.pop(1))"
    code = f"{whose}; from howm.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, str(place), *arguments]
    return subprocess.run(command, cwd=place.parent, env=environment, capture_output=True, text=True, timeout=280)


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_and_evaluates_a_shipped_model(kind, built, tmp_path):
    (file,) = (built / "dist").glob(kind)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site")]
    done = subprocess.run([sys.executable, "-m", "pip", "install", *options, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert run(tmp_path / "site", "--version").stdout.startswith("howm ")
    said = run(tmp_path / "site", "eval", "howm-shapes-n10", "--fresh-seed", "1", "--episodes", "20", "--steps", "1")
    assert said.returncode == 0, said.stderr
    assert "hard pool" in said.stderr
    made = run(tmp_path / "site", "report", str(ROOT / "results"), "-o", str(tmp_path / "report.html"))
    assert made.returncode == 0, made.stderr


def test_the_files_that_are_not_code_are_inside(built):
    (wheel,) = (built / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for path in (ROOT / "howm").rglob("*"):
        if path.suffix in (".safetensors", ".html", ".css", ".typed"):
            assert path.relative_to(ROOT).as_posix() in names
    assert not [name for name in names if name.startswith("tests")]
    (source,) = (built / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert any(name.endswith("howm/trained/howm-shapes-n10.safetensors") for name in archive.getnames())
