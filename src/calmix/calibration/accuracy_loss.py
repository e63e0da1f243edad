"""How much of the drop in accuracy out of domain the mean confidence follows.

    confidence_follows = (confidence in domain - confidence there) / (accuracy in domain - accuracy there)

with mean confidences. 1: the model knows how much worse it is; 0: it does not notice; below 0: it is more
confident where it is worse. Unlike the ECE it does not charge the other set with an error that was there in
domain. It is given where at least two points of accuracy are lost: a ratio to less than that is noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FOLLOWS = "confidence_follows"
LEAST_LOSS = 0.02


def confidence_follows(in_domain: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """The share by the metrics of both sets; None where too little accuracy is lost.

    >>> home = {"accuracy": 0.9, "confidence_gap": 0.0}
    >>> round(confidence_follows(home, {"accuracy": 0.7, "confidence_gap": 0.15}), 4)  # 0.9 -> 0.85
    0.25
    >>> confidence_follows(home, {"accuracy": 0.89, "confidence_gap": 0.0}) is None
    True
    """
    lost = in_domain["accuracy"] - other["accuracy"]
    if lost < LEAST_LOSS:
        return None
    return float((lost + in_domain["confidence_gap"] - other["confidence_gap"]) / lost)


def note_accuracy_loss(splits: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    """Put the share into the metrics of every test set after the first, which is in domain."""
    tests = [name for name in splits if name != "validation"]
    for name in tests[1:]:
        for stage, metrics in splits[name].items():
            found = confidence_follows(splits[tests[0]][stage], metrics)
            if found is not None:
                metrics[FOLLOWS] = found
