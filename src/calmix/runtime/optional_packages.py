"""What `pip install calmix` alone does not bring: training, and the networks it needs."""

from __future__ import annotations

# By the name that is imported; the extra `train` brings them all.
TRAINING_PACKAGES = (
    "torch", "transformers", "accelerate", "datasets", "PIL", "huggingface_hub", "tokenizers", "xxhash",
)  # fmt: skip


def missing_extra(error: ImportError) -> str | None:
    """One line for an import that failed because the `train` extra is not installed; None for any other.

    >>> missing_extra(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "this needs torch, which is not installed; pip install 'calmix[train]'"
    >>> missing_extra(ModuleNotFoundError("No module named 'reviews'", name="reviews")) is None
    True
    """
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in TRAINING_PACKAGES:
        return None
    return f"this needs {package}, which is not installed; pip install 'calmix[train]'"
