"""Which of several processes this is, as torchrun and accelerate say it."""

from __future__ import annotations

import os
import sys


def is_first_process() -> bool:
    """Whether this process is the one that writes and speaks."""
    return int(os.environ.get("RANK", "0")) == 0


def process_count() -> int:
    """How many processes the run has. Each takes batches of its own: they decide how many rows a step has."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_alone() -> bool:
    """Whether the run has one process."""
    return process_count() == 1


def destroy_process_group() -> None:
    """Leave the group of processes that torch has made: its threads abort a process that just ends."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
