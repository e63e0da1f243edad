"""Options whose value is one of a few words, checked without torch."""

from __future__ import annotations

from collections.abc import Sequence

from calmix.user_error import UserError

DEVICES = ("auto", "cpu", "cuda", "mps")
DYNAMICS = ("training", "epoch_end", "off")


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
