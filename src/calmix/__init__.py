"""calmix trains classifiers whose confidence can be trusted.

The public names are those of `__init__.pyi`, each loaded when it is first used: `import calmix` itself loads
neither torch nor transformers, and the names of calibration and dynamics never do.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from calmix.runtime.optional_packages import missing_extra

__version__ = "0.1.0"


def _read_stub() -> dict[str, str]:
    """The module of every public name, as type checkers see it."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {name.name: str(node.module) for node in imports for name in node.names}


_HOME = _read_stub()
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calmix' has no attribute {name!r}")
    try:
        home = import_module(_HOME[name])
    except ModuleNotFoundError as error:
        if line := missing_extra(error):
            raise ModuleNotFoundError(f"calmix.{name}: {line}", name=error.name) from error
        raise
    return getattr(home, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
