"""Whether the Hugging Face hub can be reached: asked once, so that nobody waits for retries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

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
