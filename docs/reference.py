"""The references that are read off the code: the command line from its parsers, the public names from the package."""

import argparse
from collections.abc import Iterator
from importlib import import_module

import howm
from howm.cli.main import _parser

MODULES = {  # those that the guides speak of, beside the public names
    "howm.hub": ("push", "pull"),
    "howm.runs.checkpoint": ("load_checkpoint",),
    "howm.evaluation.run": ("evaluate_run",),
    "howm.experiments.plan": ("SweepConfig", "Variant"),
    "howm.experiments.folder": ("Sweep",),
    "howm.experiments.engines": ("run_local", "run_on_ray"),
    "howm.report.results_folder": ("read_results",),
    "howm.report.page": ("write_report",),
    "howm.evaluation.diagnosis": ("diagnose", "Diagnosis"),
    "howm.evaluation.equivariance": ("equivariance_error",),
    "howm.data.formats.cswm": ("import_cswm", "export_cswm"),
    "howm.data.formats.minari": ("export_minari",),
    "howm.draw.figures": ("figures", "save_figure"),
    "howm.draw.plan": ("carry_out", "film_strip"),
    "howm.planning.act": ("act", "Outcome"),
    "howm.planning.agents": ("Seeing", "TrueDynamics", "TrueState"),
    "howm.worlds.envs.single": ("WorldEnv",),
    "howm.worlds.envs.vector": ("WorldVectorEnv",),
    "howm.worlds.envs.factored": ("FactoredActions", "FactoredVectorActions"),
    "howm.theory.proposition": ("check_proposition",),
}


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Every command that can be given, with its parser and the line that says what it does."""

    def below(parser: argparse.ArgumentParser, text: str) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not groups:
            yield parser.prog, parser, text
        for group in groups:
            said = {choice.dest: choice.help or "" for choice in group._choices_actions}
            for name, child in group.choices.items():
                yield from below(child, said[name])

    return below(_parser(), "")


def command_line() -> str:
    """One section for each command: what it does, how it is called, and its options."""
    return "\n".join(_command(*found) for found in parsers())


def _command(name: str, parser: argparse.ArgumentParser, text: str) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    lines = [f"## {name}", "", f"{text[:1].upper()}{text[1:]}.", "", f"```text\n{usage}\n```", ""]
    for action in parser._actions:
        if action.dest == "help":
            continue
        named = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = f" {action.metavar or action.dest.upper()}" if action.option_strings and action.nargs != 0 else ""
        chosen = f" One of {', '.join(map(str, action.choices))}." if action.choices else ""
        needed = " Required." if action.option_strings and action.required else ""
        said = f": {action.help}." if action.help else "."
        lines.append(f"- `{named}{value}`{said}{chosen}{needed}")
    return "\n".join(lines) + "\n"


def public_names() -> str:
    """Everything that `howm` exports, and the main functions of other modules."""
    lines = ["## Names of `howm`", "", *(_documented("howm", name) for name in howm._PUBLIC)]
    lines += ["## Names of its modules", ""]
    lines += [_documented(module, name) for module, names in MODULES.items() for name in names]
    return "\n".join(lines)


def _documented(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    if isinstance(value, type):
        directive = "autoexception" if issubclass(value, BaseException) else "autoclass"
        text = f".. {directive}:: {module}.{name}\n   :members:"
    elif callable(value):
        text = f".. autofunction:: {module}.{name}"
    else:  # a table, which has no docstring but that of its module
        said = (import_module(f"howm.{howm._PUBLIC[name]}").__doc__ or "").splitlines()[0]
        text = f".. py:data:: {module}.{name}\n\n   {said}"
    return f"```{{eval-rst}}\n{text}\n```\n"
