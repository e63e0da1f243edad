"""Options whose value is one of a few words, checked without torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from calmix.user_error import UserError, argument

CLOSED = ("right", "left")
DEVICES = ("auto", "cpu", "cuda", "mps")
DYNAMICS = ("training", "epoch_end", "off")
NOISES = ("gaussian",)
NONE, BALANCED, NATURAL = "none", "balanced", "natural"
SAMPLINGS = (NATURAL, BALANCED)
TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
PERTURBED = "perturbed"
"""The `calibrator` that is fitted on perturbed validation rows."""
MULTI_LABEL = "multi_label_classification"
"""The `problem_type` of a checkpoint whose labels are independent of each other."""


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


def parse_class_weights(value: Any) -> str:
    """`none`, `balanced`, or weights by the name of a class, in one spelling.

    >>> parse_class_weights("rare=20, common=1"), parse_class_weights({1: 2.5}), parse_class_weights(None)
    ('rare=20,common=1', '1=2.5', 'none')
    """
    option = argument("class_weights")
    remedy = "give balanced, none or NAME=WEIGHT,..."
    if value is None:
        return NONE
    if isinstance(value, Mapping):
        pairs = [(str(name), weight) for name, weight in value.items()]
        if any("," in name for name, _ in pairs):
            raise UserError(f"{option}: a class name holds a comma", remedy="rename it with a label map")
    elif isinstance(value, str):
        if value in (NONE, BALANCED):
            return value
        parts = [part.rpartition("=") for part in value.split(",") if part.strip()]
        if not parts or not all(equals and name.strip() for name, equals, _ in parts):
            raise UserError(f"{option} is {value!r}", remedy=remedy)
        pairs = [(name.strip(), weight) for name, _, weight in parts]
    else:
        raise UserError(f"{option} is {value!r}", remedy=remedy)
    if not pairs:
        return NONE
    named: dict[str, float] = {}
    for name, weight in pairs:
        if name in named:
            raise UserError(f"{option} names the class {name!r} twice", remedy="give one weight a class")
        named[name] = _class_weight(name, weight)
    return ",".join(f"{name}={weight:.12g}" for name, weight in named.items())


def _class_weight(name: str, value: Any) -> float:
    try:
        weight = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise UserError(
            f"{argument('class_weights')}: the weight of {name!r} is {value}",
            remedy="give a finite number above 0; a class without weight is better left out of the data",
        )
    return weight


def parse_names(value: Any) -> tuple[str, ...]:
    """Names, from one text with commas between them or from a list.

    >>> parse_names("a, b"), parse_names(["a,b", "c"]), parse_names(None)
    (('a', 'b'), ('a', 'b', 'c'), ())
    """
    several = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        raise UserError(f"names are expected, not {value!r}", remedy="give NAME,NAME,...")
    names = [name.strip() for one in several for name in one.split(",")]
    if "" in names or len(set(names)) < len(names):
        raise UserError(f"{', '.join(map(repr, names))} are no names", remedy="give every name once")
    return tuple(names)


def parse_trackers(value: Any) -> tuple[str, ...]:
    """
    >>> parse_trackers("tensorboard, mlflow"), parse_trackers("none")
    (('tensorboard', 'mlflow'), ())
    >>> parse_trackers(["paper"])
    Traceback (most recent call last):
    calmix.user_error.UserError: report_to is 'paper'; choose from tensorboard, wandb, mlflow, trackio
    """
    names = parse_names(None if value in (NONE, [NONE]) else value)
    for name in names:
        if name not in TRACKERS:
            remedy = f"choose from {', '.join(TRACKERS)}"
            raise UserError(f"{argument('report_to')} is {name!r}", remedy=remedy)
    return names
