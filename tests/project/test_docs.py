"""The documentation shows what works: its blocks are run, its commands exist, and what it points to is there.

That it can be built, with no warning, is shown by `make docs`, which `.ci/run` calls.
"""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import howm
from howm import METHODS
from howm.cli.main import main
from howm.config import from_plain, to_plain
from howm.experiments.plan import PAPER_METHODS, SweepConfig
from howm.worlds.object_world import ObjectWorld

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *PAGES]}
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_page(name: str) -> dict:
    """Run the blocks of a page in order, all in this process; gives what its Python has made.

    A block that begins with the name of a module is written to it, in the current folder.
    """
    made: dict = {"__name__": name}
    for language, block in BLOCK.findall(TEXTS[name]):
        if language == "python":
            if module := re.match(r"# (\w+\.py)\n", block):
                Path(module[1]).write_text(block, encoding="utf-8")
            exec(compile(block, name, "exec"), made)
        elif language == "sh":
            for line in filter(None, block.replace("\\\n", " ").splitlines()):
                words = shlex.split(line, comments=True)
                assert words[0] == "howm", f"{name} shows a command that is not tested: {line}"
                assert main(words[1:]) == 0, line
    return made


@pytest.mark.slow
def test_the_tutorial_runs_and_says_the_truth(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = run_page("tutorial.md")
    said = capsys.readouterr()
    assert "8 training scenes, 7 evaluation scenes: eval scenes are unseen in training" in said.err
    hard, found, scores = made["hard"], made["found"], made["scores"]
    assert hard["howm", "unseen"] > 90 > scores.controls["do_nothing"]["hard"]["5"].mrr
    assert abs(hard["howm", "training"] - hard["howm", "unseen"]) < 5
    assert hard["flat", "training"] - hard["flat", "unseen"] > 5
    assert scores.controls["oracle"]["hard"]["5"].mrr == 100
    assert (found.extraction, found.binding) > (99, 99)
    assert (tmp_path / "pictures" / "rollout.png").is_file()


@pytest.mark.slow
def test_bringing_your_own_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = run_page("own.md")
    for module in ("ring", "painters"):
        del sys.modules[module]
    assert made["value"] == 1.0
    assert made["split"].certificate()["violations"] == []
    assert "certificate  holds" in capsys.readouterr().out


RUNNING = sorted(
    page.name for page in PAGES if {language for language, _ in BLOCK.findall(TEXTS[page.name])} & {"sh", "python"}
)


@pytest.mark.parametrize("name", [name for name in RUNNING if name not in ("tutorial.md", "own.md")])
@pytest.mark.slow
def test_the_blocks_of_every_page_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(name)


def test_no_page_has_blocks_of_another_kind():
    for page in PAGES:
        assert not {language for language, _ in BLOCK.findall(TEXTS[page.name])} & {"bash", "console"}, page


def test_the_keys_of_a_grid_are_those_of_the_code():
    shown = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", TEXTS["sweeps.md"], flags=re.MULTILINE))
    expected = to_plain(SweepConfig())
    assert list(shown) == list(expected)
    for name, value in expected.items():
        if shown[name].startswith("`"):
            assert yaml.safe_load(shown[name].strip("`")) == (list(value) if isinstance(value, tuple) else value)
        else:
            assert value in (None, PAPER_METHODS)
    (example,) = re.findall(r"^```yaml\n(.*?)^```", TEXTS["sweeps.md"], flags=re.MULTILINE | re.DOTALL)
    assert len(from_plain(SweepConfig, yaml.safe_load(example)).runs()) == 4


def test_the_parts_of_worlds_are_those_of_the_code():
    shown = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \| .+ \|$", TEXTS["worlds.md"], flags=re.MULTILINE))
    expected = {name: value for name, value in ObjectWorld().settings().items() if name not in ("n", "seed")}
    written = {
        name: str([*value]).replace(" ", "") if isinstance(value, tuple) else str(value).lower()
        for name, value in expected.items()
    }
    assert shown == written


def test_links_and_pictures_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", TEXTS[page.name]):
            if "://" not in target:
                assert (DOCS / target).exists(), f"{page.name} points to {target}"


def test_modules_that_the_text_names_exist():
    """Written as they lie below howm/, or from the root of the repository."""
    found = 0
    for page, text in TEXTS.items():
        for target in re.findall(r"`((?:\w+/)+\w+\.py|(?:worlds|data|models|theory)/\w*/?)`", text):
            assert (ROOT / target).exists() or (ROOT / "howm" / target).exists(), f"{page} names {target}"
            found += 1
    assert found > 5


def test_every_page_is_in_the_map():
    listed = re.search(r"```\{toctree\}\n:hidden:\n\n(.*?)```", TEXTS["index.md"], flags=re.DOTALL)[1].split()
    assert sorted(listed) == sorted(page.stem for page in PAGES if page.stem != "index")
    for name in listed:
        assert f"]({name}.md)" in TEXTS["index.md"]


def test_every_command_is_shown_and_in_the_reference(reference):
    made, shown = reference.command_line(), "\n".join(TEXTS.values())
    commands = {name: parser for name, parser, _ in reference.parsers()}
    assert {"howm train", "howm data make", "howm hub push"} <= commands.keys()
    for name, parser in commands.items():
        assert f"## {name}\n" in made
        assert re.search(rf"\b{name}\b", shown), f"{name} is nowhere explained"
        for action in parser._actions:
            assert action.dest == "help" or all(f"{option}" in made for option in action.option_strings)


def test_commands_that_the_text_names_exist(reference):
    """Also those in the middle of a sentence, with their options."""
    commands = {name: parser for name, parser, _ in reference.parsers()}
    groups = {" ".join(name.split()[:2]) for name in commands if len(name.split()) == 3}
    for page, text in TEXTS.items():
        for said in re.findall(r"`(howm [a-z][^`]*)`", text.replace("\n", " ")):
            name = next((name for name in sorted(commands, reverse=True) if f"{said} ".startswith(f"{name} ")), None)
            assert name or said in groups, f"{page} names `{said}`"
            options = [word.split("=")[0] for word in said.split() if word.startswith("-") and word[1:]]
            known = commands[name]._option_string_actions if name else {}
            assert set(options) <= set(known), f"{page} names `{said}`"


def test_every_public_name_is_in_the_reference(reference):
    made = reference.public_names()
    for name in howm.__all__:
        assert name == "__version__" or f":: howm.{name}\n" in made
    for module, names in reference.MODULES.items():
        for name in names:
            assert f":: {module}.{name}\n" in made


def test_the_reference_begins_with_what_is_called_first_and_has_the_methods(reference):
    made = reference.public_names()
    assert [made.index(f":: howm.{name}\n") for name in ("load", "evaluate", "fit", "imagine")] == sorted(
        made.index(f":: howm.{name}\n") for name in ("load", "evaluate", "fit", "imagine")
    )
    assert made.index(":: howm.load\n") == made.index(":: howm.")
    for name, method in METHODS.items():
        assert f"| `{name}` | {method.title} |" in made


def test_the_configuration_reference_has_every_key_of_every_method(reference):
    made = reference.configuration()
    assert "configuration" in (DOCS / "conf.py").read_text(encoding="utf-8")
    for name in METHODS:
        section = made.split(f"### {name}\n")[1].split("### ")[0]
        for group in ("model", "represent", "train"):
            values = to_plain(howm.configure(name, "cpu"))[group] or {}
            for key, value in values.items():
                assert isinstance(value, dict) or re.search(
                    rf"`{group}\.{key}` \|.* {re.escape(str(value).lower())} \|", section
                )


def test_findings_quote_only_trials_whose_configuration_is_here():
    text = TEXTS["findings.md"]
    for words in re.findall(r"[^.]*configurations were not kept[^.]*\.", text):
        assert "no numbers are given" in words or "not quoted" in words
    assert "runs not kept" not in text
    assert "are not kept" not in text


def test_ci_builds_the_documentation():
    assert re.search(r"^make .*\bdocs\b", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), flags=re.MULTILINE)
    planned = subprocess.run(["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "sphinx -E -W" in planned
