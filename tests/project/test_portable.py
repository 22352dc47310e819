"""What runs without the modules that only Unix has."""

import subprocess
import sys

BLOCKED = """
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource"):
            raise ImportError(f"{name} is blocked")


for name in ("fcntl", "resource"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocker())
"""


def without_unix(code: str, cwd) -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_data_is_made_and_a_model_evaluated(tmp_path):
    """Training is left out: accelerate asks for psutil, which itself imports resource on Linux."""
    without_unix(
        """
import howm
from howm.cli.main import main

small = "--train-episodes 40 --train-steps 5 --eval-episodes 40 --eval-steps 2".split()
assert main(["data", "make", "--world", "shapes", "-n", "6", "-k", "3", "-o", "data.h5", *small]) == 0
assert main(["data", "check", "data.h5"]) == 0
assert main(["eval", "howm-shapes-n10", "--fresh-seed", "1", "--episodes", "20", "--steps", "1"]) == 0
assert howm.load("howm-shapes-n10") is not None
assert not {"fcntl", "resource"} & sys.modules.keys()
""",
        tmp_path,
    )
