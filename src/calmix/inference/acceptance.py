"""Which predictions may be accepted: the decision that `calmix predict` makes for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from calmix.calibration.metrics.selective import (
    GuaranteedThreshold,
    certified_accuracies,
    guaranteed_threshold,
)
from calmix.calibration.predictions import Predictions
from calmix.inference.ood_threshold import OodThreshold
from calmix.user_error import UserError, argument


@dataclass(frozen=True)
class Acceptance:
    """Accept a row whose confidence reaches `threshold` and that is not out of domain."""

    decides: bool
    threshold: float | None = None
    """None where it decides: nothing is accepted."""
    guarantee: GuaranteedThreshold | None = None
    alternatives: tuple[GuaranteedThreshold, ...] = ()
    """Where the target cannot be certified: what can be, all of it together."""
    limit: str | None = None
    """What the guarantee does not count."""
    out_of_domain: OodThreshold | None = None

    def rejects(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.bool_] | None:
        return None if self.out_of_domain is None else self.out_of_domain.rejects(logits)

    def accepts(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.bool_] | None:
        """For every row, or None where nothing was asked."""
        if not self.decides:
            return None
        confidence = softmax(logits.astype(np.float64), axis=1).max(axis=1)
        accepted = np.asarray(confidence >= (np.inf if self.threshold is None else self.threshold))
        rejected = self.rejects(logits)
        return accepted if rejected is None else accepted & ~rejected

    def facts(self) -> dict[str, Any]:
        """As plain values for JSON."""
        found: dict[str, Any] = {"threshold": self.threshold} if self.decides else {}
        if self.guarantee is not None:
            found |= {
                "target_accuracy": self.guarantee.target_accuracy,
                "guarantee": self.guarantee.explain(),
                "validation_rows": self.guarantee.rows,
                "validation_coverage": self.guarantee.coverage,
                "rows_needed": self.guarantee.rows_needed,
                "certified": [
                    {
                        "accuracy": one.target_accuracy,
                        "coverage": one.coverage,
                        "threshold": one.threshold,
                    }
                    for one in self.alternatives
                ],
                "limit": self.limit,
            }
        if self.out_of_domain is not None:
            found["ood_rule"] = self.out_of_domain.explain()
        return found


def check_acceptance_options(target_accuracy: float | None, accept_above: float | None) -> None:
    for option, value in {
        argument("target_accuracy"): target_accuracy,
        argument("accept_above"): accept_above,
    }.items():
        if value is not None and not 0 < value < 1:
            raise UserError(f"{option} is {value}", remedy="give a fraction between 0 and 1, such as 0.95")
    if target_accuracy is not None and accept_above is not None:
        raise UserError(
            f"{argument('target_accuracy')} and {argument('accept_above')} exclude each other",
            remedy="give one of them",
        )


def decide(
    target_accuracy: float | None,
    accept_above: float | None,
    validation: Predictions | None,
    *,
    limit: str | None = None,
    out_of_domain: OodThreshold | None = None,
) -> Acceptance:
    """The rule for these options. With a target accuracy `validation` holds the rows it is certified on; of
    them those that would be rejected as out of domain are left out, as they are later."""
    if target_accuracy is None:
        return Acceptance(accept_above is not None, accept_above, out_of_domain=out_of_domain)
    assert validation is not None
    assert validation.kind == "logits"
    confidence, correct = validation.confidence(), validation.correct()
    if out_of_domain is not None:
        kept = ~out_of_domain.rejects(validation.values)
        confidence, correct = confidence[kept], correct[kept]
    guarantee = guaranteed_threshold(confidence, correct, target_accuracy)
    alternatives = (
        certified_accuracies(confidence, correct, below=target_accuracy)
        if guarantee.threshold is None
        else []
    )
    return Acceptance(True, guarantee.threshold, guarantee, tuple(alternatives), limit, out_of_domain)
