"""Options whose value is one of a few words, checked without torch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from calmix.user_error import UserError, argument

CLOSED = ("right", "left")
DEVICES = ("auto", "cpu", "cuda", "mps")
DYNAMICS = ("training", "epoch_end", "off")
NOISES = ("gaussian",)


def check_device_name(device: str) -> None:
    """
    >>> check_device_name("gpu")
    Traceback (most recent call last):
    calmix.user_error.UserError: device is 'gpu'; choose one of auto, cpu, cuda, mps
    """
    if device not in DEVICES:
        raise UserError(f"{argument('device')} is {device!r}", remedy=f"choose one of {', '.join(DEVICES)}")


def check_detection(outside: Collection[Any], noise: str | None) -> None:
    """`calmix ood` has something to compare."""
    if noise is not None and noise not in NOISES:
        raise UserError(f"{argument('noise')} is {noise!r}", remedy=f"there is {', '.join(NOISES)}")
    if not outside and noise is None:
        raise UserError(
            "nothing to compare",
            remedy=f"give {argument('out', 'NAME=FILE')} or {argument('noise', 'gaussian')}",
        )
