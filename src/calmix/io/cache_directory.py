"""Where calmix keeps what several runs share: first stages, cached activations."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "CALMIX_CACHE"


def cache_directory() -> Path:
    """The directory that CALMIX_CACHE names, else ~/.cache/calmix."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "calmix"
