"""The layout of the packages: data flows one way, and each `__init__` is a table of contents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "calmix"
PACKAGES = sorted(file.parent for file in SOURCES.rglob("__init__.py") if file.parent != SOURCES)
# From top to bottom: a package imports those below it alone, in functions too.
LAYERS = (
    ("cli",),
    ("workflows",),
    ("report",),
    ("reproduction",),
    ("experiments",),
    ("training",),
    ("inference",),
    ("mixing", "models"),
    ("data", "dynamics", "calibration"),
    ("io",),
    ("runtime",),
    ("user_error",),
    ("printable",),
)


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def modules() -> dict[str, Path]:
    found = {}
    for file in SOURCES.rglob("*.py"):
        parts = file.relative_to(SOURCES.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(file: Path, known: dict[str, Path], *, lazy: bool) -> Iterator[str]:
    """The modules of calmix that a file imports; with `lazy` those inside functions too, never those that
    stand under TYPE_CHECKING."""

    def walk(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("calmix"):
                for name in child.names:
                    full = f"{child.module}.{name.name}"
                    yield full if full in known else str(child.module)
            if isinstance(child, ast.Import):
                yield from (name.name for name in child.names if name.name.startswith("calmix"))
            yield from walk(child)

    return walk(parsed(file))


@pytest.mark.slow
def test_no_module_imports_itself_by_a_detour_imports_in_functions_included():
    known = modules()
    graph = {name: set(imports(file, known, lazy=True)) - {name} for name, file in known.items()}
    graph = {name: {target for target in targets if target in known} for name, targets in graph.items()}
    graph["calmix"] = set()  # the public names, loaded lazily
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_packages_import_those_below_them_alone_in_functions_too():
    known = modules()
    level = {package: number for number, layer in enumerate(LAYERS) for package in layer}
    upward = []
    for name, file in known.items():
        own = name.split(".")[1] if "." in name else ""
        if own not in level:
            continue
        for target in imports(file, known, lazy=True):
            other = target.split(".")[1] if "." in target else ""
            if other in level and other != own and level[other] <= level[own]:
                upward.append(f"{name} -> {target}")
    assert not upward


def test_private_attributes_of_other_libraries_are_used_in_hf_compat_alone():
    trees = {file: parsed(file) for file in modules().values()}
    own = {"_replace", "_exit", "_Hash"}  # of the standard library, and documented or only a type
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.id if isinstance(node, ast.Name) else node.attr)
    own.discard("_created_lr_scheduler")  # of the Trainer, and set by us
    internal = ("transformers.trainer_utils", "transformers.trainer_pt_utils")
    foreign = []
    for file, tree in trees.items():
        for node in ast.walk(tree) if file.name != "hf_compat.py" else ():
            name = getattr(node, "attr", None) or getattr(node, "arg", None) or ""
            is_private = isinstance(node, ast.Attribute | ast.keyword) and re.match("_[^_]", name)
            is_internal = isinstance(node, ast.ImportFrom) and node.module in internal
            if (is_private and name not in own) or is_internal:
                foreign.append(f"{file.relative_to(SOURCES)}:{node.lineno}")
    assert not foreign


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_the_docstring_of_a_package_lists_what_is_in_it(package):
    contents = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    listed = {line.split()[0].rstrip("/") for line in contents.splitlines()[1:] if line.strip()}
    inside = {file.stem for file in package.glob("*.py")} - {"__init__"}
    inside |= {folder.name for folder in package.iterdir() if (folder / "__init__.py").is_file()}
    assert listed == inside


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_package_has_grown_out_of_a_page(package):
    assert len(list(package.glob("*.py"))) <= 20
