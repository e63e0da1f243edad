"""Whether the Hugging Face hub can be reached: asked once, so that nobody waits for retries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

TIMEOUT_SECONDS = 5.0


@lru_cache(maxsize=1)
def is_reachable() -> bool:
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=TIMEOUT_SECONDS)
    except Exception:  # Of whatever kind: each release of the HTTP library names them differently.
        return False
    return True


def is_available(model: str) -> bool:
    """Whether a model can be had: from the cache, or from a hub that can be reached."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(model, "config.json"), str) or is_reachable()


def is_dataset_available(name: str) -> bool:
    """The same for a dataset, `[OWNER/]NAME`. A trace in a cache is enough: the library then decides."""
    from huggingface_hub import constants

    home = os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets"
    traces = (
        Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}",
        Path(home) / name.replace("/", "___"),
    )
    return any(trace.exists() for trace in traces) or is_reachable()


@contextmanager
def offline_if_unreachable() -> Iterator[None]:
    """Without a connection the libraries look in their cache alone, instead of retrying for a minute."""
    if is_reachable():
        yield
        return
    from huggingface_hub import constants

    switches = [constants] + ([sys.modules["datasets"].config] if "datasets" in sys.modules else [])
    before = [switch.HF_HUB_OFFLINE for switch in switches]
    for switch in switches:
        switch.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.HF_HUB_OFFLINE = value
