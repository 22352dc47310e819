"""The rooms and what they cost to enter; `lint-imports` checks the layers (see pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "howm"
HEAVY = ("torch", "h5py", "huggingface_hub", "matplotlib", "scipy", "accelerate", "minari")


def loaded_by(script: str) -> list[str]:
    """The heavy packages that a script has loaded when it ends."""
    code = f"import sys\n{script}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return eval(result.stdout.splitlines()[-1])


def test_importing_howm_is_cheap():
    assert loaded_by("import howm") == []


def test_help_is_cheap():
    assert loaded_by("from howm.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass") == []


def test_making_data_does_not_load_torch(tmp_path):
    command = ["data", "make", "--env", "shapes", "-n", "6", "-k", "3", "--train-scenes", "4", "--eval-scenes", "4"]
    command += ["--train-episodes", "4", "--eval-episodes", "4", "-o", str(tmp_path / "data.h5")]
    assert "torch" not in loaded_by(f"from howm.cli.main import main\nassert main({command!r}) == 0")


def test_rooms_have_empty_front_doors():
    doors = {path.parent.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("__init__.py")}
    assert {room for room, text in doors.items() if text} == {".", "hub"}


def test_every_file_can_be_read_in_one_sitting():
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 350} == {}
