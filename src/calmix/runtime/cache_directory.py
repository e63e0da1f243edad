"""Where calmix keeps what several runs share: first stages, cached activations."""

from __future__ import annotations

import os
from pathlib import Path

from calmix.user_error import UserError

CACHE_VARIABLE = "CALMIX_CACHE"


def cache_directory() -> Path:
    """The directory that CALMIX_CACHE names, else ~/.cache/calmix."""
    named = os.environ.get(CACHE_VARIABLE)
    try:
        return Path(named) if named else Path.home() / ".cache" / "calmix"
    except RuntimeError:
        raise UserError(
            "there is no home directory to keep first stages in",
            remedy=f"name a directory in the environment variable {CACHE_VARIABLE}",
        ) from None
