"""The README's commands are run, and what it says of the code is true."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from howm.runs.config import configure

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


# Everything of a kind in one process of its own, which imports torch once; `make quickstart` starts each command anew.
COMMANDS = """
import json, sys
from howm.cli.main import main
for words in json.load(sys.stdin):
    assert main(words) == 0, words
"""
EXAMPLES = """
import json, sys
for block in json.load(sys.stdin):
    exec(compile(block, block.strip().splitlines()[0], "exec"), {"__name__": "__main__"})
"""


def run(command: list[str], cwd: Path, given: object = None) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
    text = json.dumps(given)
    return subprocess.run(command, cwd=cwd, env=environment, input=text, capture_output=True, text=True, timeout=280)


def shell_lines(block: str) -> list[str]:
    """Commands of a block, with continued lines joined."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def test_shell_commands_run_in_order(tmp_path):
    commands = []
    for block in blocks("sh"):
        for line in shell_lines(block):
            words = shlex.split(line, comments=True)
            if words[0] == "make":  # what it would do; .ci/run does it
                result = run(["make", "-n", *words[1:]], ROOT)
                assert result.returncode == 0, f"{line}\n{result.stderr}"
            else:
                assert words[0] == "howm", f"the README shows a command that is not tested: {line}"
                commands.append(words[1:])
    assert commands
    result = run([sys.executable, "-c", COMMANDS], tmp_path, commands)
    assert result.returncode == 0, result.stderr


def test_python_examples_run(tmp_path):
    assert blocks("python")
    result = run([sys.executable, "-W", "error", "-c", EXAMPLES], tmp_path, blocks("python"))
    assert result.returncode == 0, result.stderr


def test_the_tables_are_those_of_the_results():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import table

    shown = {name: table.split(page.read_text(encoding="utf-8"), name)[1] for name, page in table.PAGES.items()}
    assert shown == table.blocks(ROOT / "results"), "run: python benchmarks/table.py --write"


def keys(config, group: str) -> dict[str, str]:
    """All keys of a group of a configuration, as the README writes their values."""
    from howm.config import to_plain

    def flat(values: dict, prefix: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: str(value).lower()}
        return found

    return flat(to_plain(getattr(config, group)), f"{group}.")


def test_the_tables_of_keys_are_those_of_the_presets():
    from howm import METHODS

    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `((?:model|train)\.[\w.]+)` \| (\S+) \| (\S+) \| .+ \|$", page, flags=re.MULTILINE)
    expected = []
    for one, other, groups in (
        (configure("cswm-n", "paper"), configure("cswm-n", "cpu"), ("model", "train")),
        (configure("howm-paper", "paper"), configure("howm", "cpu"), ("model",)),
        (configure("monet-bm", "paper"), configure("monet-bm", "cpu"), ("model",)),
    ):
        for group in groups:
            ours = keys(other, group)
            expected += [(key, value, ours[key]) for key, value in keys(one, group).items()]
    assert shown == expected

    def length(phase) -> str:
        return "–" if phase is None else f"{phase.steps:,} × {phase.batch:,}, {phase.lr:g}, {phase.schedule}"

    for name, method in METHODS.items():
        for preset in method.presets:
            config = configure(name, preset)
            assert f"| `{name}` | {preset} | {length(config.represent)} | {length(config.train)} |\n" in page


def test_pictures_and_links_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target
