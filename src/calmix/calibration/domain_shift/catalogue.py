"""The methods by name, and what our results say about each.

`verdicts.json` beside this file is written by results/out_of_domain/run.py: for every method the change of
the NLL and the ECE on the target against the source temperature, and whether it is better with an interval
that is corrected for the number of methods.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from calmix.user_error import UserError, argument

VERDICTS_FILE = "verdicts.json"


@dataclass(frozen=True)
class ShiftMethod:
    """A method for unlabelled rows of the target."""

    name: str
    assumption: str
    citation: str
    of_classes: bool = False
    """Whether it is about the shares of classes, which the choices of a question do not have."""


METHODS = {
    method.name: method
    for method in (
        ShiftMethod(
            "pseudocal", "mixed target rows are as hard as real ones", "Hu, Liang, Wang & Foo, ICML 2024"
        ),
        ShiftMethod(
            "transcal", "only the inputs differ, and the domains overlap", "Wang et al., NeurIPS 2020"
        ),
        ShiftMethod(
            "em-label-shift",
            "only the class shares differ",
            "Saerens, Latinne & Decaestecker, Neural Computation 2002",
            of_classes=True,
        ),
        ShiftMethod(
            "lascal",
            "only the class shares differ",
            "Popordanoska, Radevski, Tuytelaars & Blaschko, NeurIPS 2024",
            of_classes=True,
        ),
        ShiftMethod(
            "density",
            "the model errs as much on target rows as on perturbed source rows as far from the training rows",
            "Tomani, Waseda, Shen & Cremers, ICML 2023",
        ),
    )
}


@cache
def verdicts() -> dict[str, Any]:
    """What was measured, by method; empty where nothing was."""
    content = files("calmix.calibration.domain_shift").joinpath(VERDICTS_FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(content)
    return found


def verdict_lines() -> list[str]:
    """One line for every method: what it assumes, and whether it can be recommended."""
    return [f"{name}: {verdict_of(name)}; assumes that {one.assumption}" for name, one in METHODS.items()]


def verdict_of(name: str) -> str:
    """
    >>> verdict_of("no such method")
    'not measured'
    """
    found = verdicts().get("methods", {}).get(name)
    if found is None:
        return "not measured"
    word = "recommended" if found["recommended"] else "not recommended"
    reach = "" if found["nll_ci"] is None else " [{:+.3f}, {:+.3f}]".format(*found["nll_ci"])
    pairs = "1 pair" if found["pairs"] == 1 else f"{found['pairs']} pairs"
    return f"{word} (NLL {found['nll']:+.3f}{reach} against the source temperature on {pairs} of domains)"


def get_shift_method(name: str | None) -> ShiftMethod:
    """The method of this name; without one, what is known about all of them."""
    if name is None:
        raise UserError(
            "no method is known to work without labels: " + " | ".join(verdict_lines()),
            remedy=f"label some rows ({argument('labelled', 'FILE')}), or name a method with "
            f"{argument('method', 'NAME')}",
        )
    if name not in METHODS:
        raise UserError(f"unknown method {name!r}", remedy=f"choose from: {', '.join(METHODS)}")
    return METHODS[name]
