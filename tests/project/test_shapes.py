"""Annotations of arrays are checked in all tests: jaxtyping's import hook calls ``check_arrays`` (tests/oracles)."""

import ast
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from shape_checker import CHECKED

import howm


def test_a_wrong_shape_fails():
    world = howm.make_world("shapes", 5, 3)
    states = world.reset(np.arange(3)[None], np.random.default_rng(0))
    world.render(np.arange(3)[None], states)
    with pytest.raises(TypeCheckError, match="render"):
        world.render(np.arange(3)[None], states[0])


def test_a_wrong_shape_of_a_field_fails():
    howm.SlotState(torch.zeros(2, 3, 4))
    with pytest.raises(TypeCheckError, match="SlotState"):
        howm.SlotState(torch.zeros(3, 4))


def test_no_annotation_of_an_array_is_left_out():
    """jaxtyping says nothing where it cannot find a name of an annotation, and checks nothing."""
    annotated = set()
    for module in pkgutil.walk_packages(howm.__path__, "howm."):
        if module.name.startswith(("howm.cli.__main__", "howm.__main__")):
            continue
        path = Path(importlib.import_module(module.name).__file__)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "jaxtyping"
            for alias in node.names
        }
        annotated |= {(module.name, name) for name in _annotated(tree.body, "", kinds)}
    assert len(annotated) > 200
    assert annotated <= CHECKED, sorted(annotated - CHECKED)


def _annotated(body: list[ast.stmt], prefix: str, kinds: set[str]) -> list[str]:
    """The functions and dataclasses that have one of the kinds of array in an annotation."""
    found = []
    for node in body:
        if isinstance(node, ast.ClassDef):
            inside = f"{prefix}{node.name}."
            found += _annotated(node.body, inside, kinds)
            fields = [field.annotation for field in node.body if isinstance(field, ast.AnnAssign)]
            if _names_one(fields, kinds) and any("dataclass" in ast.unparse(mark) for mark in node.decorator_list):
                found.append(f"{inside}__init__")
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            hints = [argument.annotation for argument in arguments] + [node.returns]
            if _names_one([hint for hint in hints if hint is not None], kinds):
                found.append(prefix + node.name)
    return found


def _names_one(hints: list[ast.expr], kinds: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in kinds for hint in hints for node in ast.walk(hint))
