"""What `--optimizer` and `--schedule` may say, checked without torch: a wrong name is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calmix.training.specification import parse_specification
from calmix.user_error import UserError, argument

OPTIMIZER_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.0},
    "adadelta": {"rho": 0.95, "eps": 1e-6, "weight_decay": 0.0},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "step": {"epochs": None, "factor": 0.5, "warmup": 0},
    "constant": {"warmup": 0},
    "linear": {"warmup": 0},
}
STEP_SHARES = (0.3, 0.6, 0.8)


def parse_optimizer(text: str) -> tuple[str, dict[str, Any]]:
    """The name of an optimiser and all its options.

    >>> parse_optimizer("sgd:momentum=0.5")
    ('sgd', {'momentum': 0.5, 'nesterov': True, 'weight_decay': 0.0})
    """
    name, given = parse_specification(text, argument("optimizer"))
    if name not in OPTIMIZER_DEFAULTS:
        raise UserError(
            f"{argument('optimizer')}: no such optimiser {name!r}", remedy=_listed(OPTIMIZER_DEFAULTS)
        )
    defaults = OPTIMIZER_DEFAULTS[name]
    _check_known(argument("optimizer"), name, given, defaults)
    return name, {**defaults, **given}


def read_schedule(text: str) -> Callable[[float, float], float]:
    """A schedule as a function of (epochs done, all epochs): what the learning rate is multiplied by.

    >>> halved = read_schedule("step:epochs=[60,120,160]:factor=0.5")
    >>> [halved(epoch, 200) for epoch in (0, 59.9, 60, 120, 160)]
    [1.0, 1.0, 0.5, 0.25, 0.125]
    >>> [read_schedule("step")(epoch, 200) for epoch in (59.9, 60, 120, 160)]
    [1.0, 0.5, 0.25, 0.125]
    >>> [read_schedule("constant:warmup=5")(epoch, 200) for epoch in (0, 1, 5, 6)]
    [0.0, 0.2, 1.0, 1.0]
    """
    name, given = parse_specification(text, argument("schedule"))
    if name not in SCHEDULES:
        raise UserError(f"{argument('schedule')}: no such schedule {name!r}", remedy=_listed(SCHEDULES))
    _check_known(argument("schedule"), name, given, SCHEDULES[name])
    options = {**SCHEDULES[name], **given}
    warmup = options["warmup"]
    if isinstance(warmup, bool | str) or not isinstance(warmup, int | float) or warmup < 0:
        raise UserError(argument("schedule", text), remedy="give warmup in epochs, such as warmup=5")
    after = _after_warmup(name, text, options)
    if not warmup:
        return after
    return lambda done, total: min(done / warmup, 1.0) * after(done, total)


def _after_warmup(name: str, text: str, options: Mapping[str, Any]) -> Callable[[float, float], float]:
    if name == "constant":
        return lambda done, total: 1.0
    if name == "linear":
        return lambda done, total: max(1.0 - done / total, 0.0)
    epochs, factor = options["epochs"], options["factor"]
    epochs = epochs if isinstance(epochs, list | tuple) or epochs is None else [epochs]
    if epochs is not None and not all(isinstance(e, int | float) and e > 0 for e in epochs):
        raise UserError(
            argument("schedule", text), remedy="give epochs as a list, such as step:epochs=[60,120,160]"
        )
    if isinstance(factor, bool | str) or not 0 < factor <= 1:
        raise UserError(argument("schedule", text), remedy="give a factor above 0 and at most 1, such as 0.5")

    def step(done: float, total: float) -> float:
        # A hair below, so that rounding in done = steps / steps per epoch never delays a drop.
        drops = [share * total for share in STEP_SHARES] if epochs is None else epochs
        return float(factor ** sum(done >= drop - 1e-6 for drop in drops))

    return step


def _check_known(option: str, name: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in given:
        if key not in known:
            remedy = f"it has: {', '.join(known)}" if known else "it has none"
            raise UserError(f"{option}: {name} has no option {key!r}", remedy=remedy)


def _listed(known: Mapping[str, Any]) -> str:
    return f"choose one of {', '.join(known)}"
