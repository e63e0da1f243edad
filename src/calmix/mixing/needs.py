"""What a method must know about the training rows before its first step, declared in one place.

A method lists what it needs by default (`needs = ("data map", "threshold pass")`); options may change it
(`Method.needed`). The table of methods, the checks before training and the stages of a run follow from that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    plain_run_epochs: int
    """Epochs of the plain run that must come first; 0: none."""
    text: str


AUM = "aum"
DATA_MAP = "data map"
THRESHOLD_PASS = "threshold pass"
PREVIOUS_EPOCH = "previous epoch"

NEEDS = {
    AUM: Need(1, "AUM of a plain run"),
    # The variability of one epoch is 0.
    DATA_MAP: Need(2, "data map of a plain run"),
    THRESHOLD_PASS: Need(0, "a threshold pass"),
    PREVIOUS_EPOCH: Need(0, "logits of the previous epoch"),
}


def plain_run_epochs(needed: Collection[str]) -> int:
    """The epochs of the plain run that must come before; 0 if none must.

    >>> plain_run_epochs([]), plain_run_epochs([AUM]), plain_run_epochs([DATA_MAP, THRESHOLD_PASS])
    (0, 1, 2)
    """
    return max((NEEDS[need].plain_run_epochs for need in needed), default=0)


def describe(needed: Collection[str]) -> str:
    """
    >>> describe([DATA_MAP, THRESHOLD_PASS]), describe([])
    ('data map of a plain run; a threshold pass', '–')
    """
    return "; ".join(NEEDS[need].text for need in needed) or "–"
