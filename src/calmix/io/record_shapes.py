"""What the values of a record must be: a damaged or edited `metrics.json` is found where it is read, not as a
TypeError in the middle of the work.

A shape is a type, a tuple of types, `NUMBER`, `{key: shape}`, `Each(shape)` for all values of an object, or
`[shape]` for all elements of a list. A key of a shape is a name or a pattern of names. A missing key is no
flaw: `Record` names it where it is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from calmix.io.records import damaged

NOTHING = type(None)
NUMBER, MAYBE = "number", "number or null"


class Each(NamedTuple):
    """All values of an object have this shape."""

    shape: Any


TEXT = (str, NOTHING)
# All that are shown as numbers.
MEASURED = {
    "n": MAYBE, "accuracy": MAYBE, "nll": MAYBE, "brier": MAYBE, "ece": MAYBE, "ece_noise_floor": MAYBE,
    "ece_noise_floor_p95": MAYBE, "adaptive_ece": MAYBE, "classwise_ece": MAYBE, "oe": MAYBE, "mce": MAYBE,
    "aurc": MAYBE, "augrc": MAYBE, "confidence_gap": MAYBE, "confidence_follows": MAYBE, "mcc": MAYBE,
    "top5_accuracy": MAYBE, "mean_confidence": MAYBE, "ece_corrected": MAYBE, "ece_ci": [NUMBER],
    "confidence_gap_ci": [NUMBER], re.compile(r"ece_\d+_bins"): MAYBE,
}  # fmt: skip
METRICS = {
    "method": str, "model": str, "seed": int, "temperature": NUMBER, "calibrator": str,
    "seconds": NUMBER, "device": str,
    "ece_bins": int, "ece_edges": str, "task": str, "label_names": [str], "learning_rate": NUMBER,
    "epochs": int, "select_by": str, "sizes": Each(int), "effective_options": dict,
    "splits": Each({"uncalibrated": MEASURED, "calibrated": MEASURED, "perturbed": MEASURED}),
    "perturbed": {"temperature": NUMBER, "copies": int, "seed": int, "accuracy": NUMBER},
    "history": [{"epoch": int, "chosen": bool, re.compile("(?!epoch|chosen).*"): MAYBE}],
    "learning": dict,
    "data_checks": [{"severity": str, "split": str, "message": str, "count": int}],
    "files": Each({"bytes": int}),
    "pixels": dict,
    "distillation": dict,
    "multi_label": bool, "thresholds": Each(NUMBER),
    "label_scaling": {"method": str, "scale": Each(NUMBER), "bias": Each(NUMBER)},
}  # fmt: skip
CONFIG = {
    "train": str, "validation": TEXT, "test": [str], "output": str, "model": str, "method": str, "seed": int,
    "max_length": (int, NOTHING), "epochs": int, "batch_size": int, "learning_rate": NUMBER,
    "label_smoothing": NUMBER, "method_options": dict, "model_options": dict, "trainer": dict,
    "label_map": dict, "teacher": [str], "device": str, "threads": int, "train_region": str,
    **{f"{name}_column": TEXT for name in ("text", "pair", "choices", "label", "id", "image")},
}  # fmt: skip
CALIBRATION = {
    "method": str, "temperature": (float, int, NOTHING), "fitted_on": str, "n": int, "nll_before": NUMBER,
    "nll_after": NUMBER, "at_bound": TEXT, "warnings": [str], "folded": bool, "class_names": [str],
    "held_out": Each(dict), "notes": [str],
}  # fmt: skip
ARM = {"name": str, "method": str, "options": dict, "settings": dict}
COMPARED = {
    "methods": [str], "seeds": [int], "margin": NUMBER, "bins": (str, int, list), "closed": str,
    "train": str, "test": [str], "model": str, "keep_models": str, "vary": [str], "threads": (int, NOTHING),
}  # fmt: skip
PLAN = {
    "config": COMPARED, "arms": [ARM], "cells": [{"arm": str, "seed": int, "fingerprint": str}], "store": str,
}  # fmt: skip
RESULTS = {"config": COMPARED, "arms": [ARM], "failures": [{"arm": str, "seed": int, "reason": str}]}


def check_shape(record: Mapping[str, Any], shape: Any, file: Path) -> None:
    """Refuse a record with a value that is not what its key says.

    >>> check_shape({"seed": 3, "label_names": ["no", "yes"]}, METRICS, Path("metrics.json"))
    >>> check_shape({"label_names": ["no", 3]}, METRICS, Path("metrics.json"))
    Traceback (most recent call last):
    calmix.user_error.UserError: metrics.json: damaged: label_names[1] is a number; restore it, or make it
    again
    """
    problem = _flaw(record, shape, "")
    if problem is not None:
        raise damaged(file, problem)


def _flaw(value: Any, shape: Any, place: str) -> str | None:
    if shape == MAYBE and value is None:
        return None
    if shape in (NUMBER, MAYBE):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{place} is {_named(value)}"
        return None if math.isfinite(value) else f"{place} is {value}"
    if isinstance(shape, Each | dict):
        if not isinstance(value, Mapping):
            return f"{place} is {_named(value)}"
        parts = [
            (f"{place}.{key}" if place else str(key), inner, expected)
            for key, inner in value.items()
            if (expected := _shape_of(key, shape)) is not None
        ]
    elif isinstance(shape, list):
        if not isinstance(value, list | tuple):
            return f"{place} is {_named(value)}"
        parts = [(f"{place}[{number}]", inner, shape[0]) for number, inner in enumerate(value)]
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        is_kind = isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)
        return None if is_kind else f"{place} is {_named(value)}"
    return next((flaw for part in parts if (flaw := _flaw(part[1], part[2], part[0])) is not None), None)


def _shape_of(key: Any, shape: Any) -> Any:
    """What the value of a key must be; None where anything may be there.

    >>> _shape_of("ece_10_bins", MEASURED), _shape_of("ece_10", MEASURED)
    ('number or null', None)
    """
    if isinstance(shape, Each):
        return shape.shape
    patterns = (name for name in shape if isinstance(name, re.Pattern) and name.fullmatch(str(key)))
    return shape[key] if key in shape else shape.get(next(patterns, None))


def _named(value: Any) -> str:
    """
    >>> _named({}), _named([1]), _named("a"), _named(2), _named(None), _named(True)
    ('an object', 'a list', 'text', 'a number', 'null', 'a truth value')
    """
    kinds = {bool: "a truth value", int: "a number", float: "a number", str: "text", NOTHING: "null"}
    names: dict[Any, str] = {**kinds, list: "a list"}
    return names.get(type(value), "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}")
