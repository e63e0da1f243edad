"""Benchmarks are run by hand and rarely: the names and arguments of calmix that they use exist today."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
FILES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")


def imported_names(tree):
    """What each name of `from calmix.x import y` stands for, imports inside functions included."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "calmix":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if hasattr(module, "__path__") and find_spec(f"{node.module}.{alias.name}"):
                    importlib.import_module(f"{node.module}.{alias.name}")
                assert hasattr(module, alias.name), f"line {node.lineno}: {node.module} has no {alias.name}"
                found[alias.asname or alias.name] = getattr(module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "calmix":
                    importlib.import_module(alias.name)
    return found


def accepted_keywords(called):
    """The keyword arguments of a function or class, those that its base classes take included; None: any."""
    names = set()
    owners = inspect.getmro(called)[:-1] if inspect.isclass(called) else (called,)
    for owner in owners:
        if inspect.isclass(owner) and "__init__" not in vars(owner):
            continue
        made = owner.__init__ if inspect.isclass(owner) else owner
        parameters = inspect.signature(made).parameters.values()
        names |= {one.name for one in parameters}
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
            return names
    return names if inspect.isclass(called) else None


def unknown_arguments(tree, names):
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        called = names.get(node.func.id)
        accepted = accepted_keywords(called) if callable(called) else None
        if accepted is not None:
            yield from (
                f"line {node.lineno}: {node.func.id} has no {keyword.arg}"
                for keyword in node.keywords
                if keyword.arg is not None and keyword.arg not in accepted
            )


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_benchmark_uses_names_and_arguments_that_exist(file):
    tree = ast.parse(file.read_text())
    assert not list(unknown_arguments(tree, imported_names(tree)))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_benchmark_can_be_imported(file, monkeypatch):
    """Peers that it compares with are imported when it runs."""
    monkeypatch.syspath_prepend(FOLDER.parent)
    before = set(sys.modules)
    importlib.import_module(f"benchmarks.{file.stem}")
    heavy = {"netcal", "probmetrics", "torchmetrics", "relplot", "calibration"} & (set(sys.modules) - before)
    assert not heavy


def test_an_argument_that_was_renamed_is_found():
    tree = ast.parse("from calmix.training.trainer import MixupTrainer\nMixupTrainer(model=m, known_rows=k)")
    assert list(unknown_arguments(tree, imported_names(tree))) == ["line 2: MixupTrainer has no known_rows"]


def test_a_name_that_was_renamed_is_found():
    with pytest.raises(AssertionError, match="has no evaluate_everything"):
        imported_names(
            ast.parse("def f():\n    from calmix.calibration.evaluation import evaluate_everything")
        )
