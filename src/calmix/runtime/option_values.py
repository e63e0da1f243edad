"""Options whose value is one of a few words, checked without torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from calmix.user_error import UserError

DEVICES = ("auto", "cpu", "cuda", "mps")
DYNAMICS = ("training", "epoch_end", "off")
NOISES = ("gaussian",)


def check_device_name(device: str) -> None:
    """
    >>> check_device_name("gpu")
    Traceback (most recent call last):
    calmix.user_error.UserError: unknown device 'gpu'; choose one of auto, cpu, cuda, mps
    """
    if device not in DEVICES:
        raise UserError(f"unknown device {device!r}", remedy=f"choose one of {', '.join(DEVICES)}")


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """
    >>> check_choice("--dynamics", "on", DYNAMICS)
    Traceback (most recent call last):
    calmix.user_error.UserError: --dynamics is 'on'; choose one of training, epoch_end, off
    """
    if value not in choices:
        raise UserError(f"{option} is {value!r}", remedy=f"choose one of {', '.join(choices)}")


def check_detection(outside: Collection[Any], noise: str | None) -> None:
    """`calmix ood` has something to tell apart."""
    if noise is not None and noise not in NOISES:
        raise UserError(f"--noise is {noise!r}", remedy=f"there is {', '.join(NOISES)}")
    if not outside and noise is None:
        raise UserError("nothing to tell apart", remedy="give --out NAME=FILE or --noise gaussian")
