"""Packages that `pip install calmix` alone does not install: training, networks, other runtimes."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from calmix.user_error import UserError, argument

# By the name that is imported: the extra that brings it.
EXTRAS = {
    **dict.fromkeys(
        ("torch", "transformers", "accelerate", "datasets", "PIL", "huggingface_hub", "tokenizers", "xxhash"),
        "train",
    ),
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "onnx"),
    "matplotlib": "figures",
    "tensorboard": "tensorboard",
}


def missing_extra(error: ImportError) -> str | None:
    """One line for an import that failed because an extra is not installed; None for any other.

    >>> missing_extra(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "this needs torch, which is not installed; pip install 'calmix[train]'"
    >>> missing_extra(ModuleNotFoundError("No module named 'reviews'", name="reviews")) is None
    True
    """
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in EXTRAS:
        return None
    return f"this needs {package}, which is not installed; pip install 'calmix[{EXTRAS[package]}]'"


def check_trackers(names: Iterable[str]) -> None:
    """Refuse a tracker that is not installed. A directory of its name, such as wandb makes, is no package."""
    for name in names:
        found = find_spec(name)
        if found is None or found.origin is None:
            wanted = f"'calmix[{EXTRAS[name]}]'" if name in EXTRAS else name
            raise UserError(
                f"{argument('report_to')}: {name} is not installed", remedy=f"pip install {wanted}"
            )
