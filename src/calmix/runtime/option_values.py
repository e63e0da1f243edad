"""Options whose value is one of a few words, checked without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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


def parse_bins(value: Any) -> tuple[int, ...]:
    """Numbers of bins, each once, the main one first: from 15, "10,15,100" or a list of such.

    >>> parse_bins("10, 15,10"), parse_bins(15), parse_bins([10, "100"])
    ((10, 15), (15,), (10, 100))
    """
    counts: list[int] = []
    for part in value if isinstance(value, list | tuple) else [value]:
        for text in str(part).split(","):
            number = text.strip()
            if isinstance(part, bool) or not number.isdecimal() or int(number) < 1:
                raise UserError(
                    f"{argument('bins')}: bins must be a whole number above 0, not {number!r}",
                    remedy="give 15, or several such as 10,15,100",
                )
            counts.append(int(number))
    if not counts:
        raise UserError(f"{argument('bins')} is empty", remedy="give 15, or several such as 10,15,100")
    return tuple(dict.fromkeys(counts))


def parse_label_map(value: Any) -> dict[str, str]:
    """What a file writes -> the class, as texts. YAML reads yes and no as truth values: they need quotes.

    >>> parse_label_map({0: "bad", "1": "good"})
    {'0': 'bad', '1': 'good'}
    """
    table = {} if value is None else value
    if not isinstance(table, Mapping):
        raise UserError(f"{argument('label_map')} is {value!r}", remedy="give NAME=CLASS")
    for part in (*table, *table.values()):
        if not isinstance(part, str | int) or isinstance(part, bool) or not str(part).strip():
            remedy = "give names, in quotes where they are yes or no"
            raise UserError(f"{argument('label_map')} has {part!r}", remedy=remedy)
    return {str(name): str(label) for name, label in table.items()}
