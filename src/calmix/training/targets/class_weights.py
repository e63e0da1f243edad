"""Class weights and balanced sampling, and what they do to the logits.

A network that is trained with weights w_k, or on rows of which class k is drawn r_k times as often as it
occurs, learns the posterior of another prior:

    p'(k | x) ∝ w_k r_k p(k | x),      so   z_k − log w_k − log r_k   are the logits of p(k | x)

up to a constant. The rare class is found more often and its scores are too high by design; the correction
gives back scores that can be trusted, for any method whose loss is a cross-entropy in the targets.

Reference: Saerens, Latinne & Decaestecker, Neural Computation 2002; Menon et al., ICLR 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmix.runtime.option_values import BALANCED, NATURAL, NONE
from calmix.user_error import UserError, argument

LISTED = 20


@dataclass(frozen=True, eq=False)
class ClassBalance:
    """How classes are weighed and drawn in training."""

    class_weights: NDArray[np.float64] | None
    """Of every class, scaled so that their mean over the training rows is 1; None where none were asked."""
    sampling_ratios: NDArray[np.float64] | None
    """How much more often rows of every class are drawn than they occur; None where they are not."""
    absent: tuple[str, ...] = ()
    """Classes without a training row: they have nothing to weigh."""

    @classmethod
    def of(
        cls, class_weights: str, sampling: str, counts: NDArray[np.int64], names: Sequence[str]
    ) -> ClassBalance | None:
        """From the options and the training rows of every class; None where both leave all as it is.

        >>> balance = ClassBalance.of("balanced", "natural", np.array([30, 10]), ("no", "yes"))
        >>> balance.class_weights.round(4).tolist(), (balance.shift()[1] - balance.shift()[0]).round(4)
        ([0.6667, 2.0], np.float64(1.0986))
        """
        if class_weights == NONE and sampling == NATURAL:
            return None
        if class_weights == sampling == BALANCED:
            raise UserError(
                f"{argument('class_weights', BALANCED)} and {argument('sampling', BALANCED)} balance the "
                "classes twice",
                remedy="give one of them",
            )
        rows, present = int(counts.sum()), counts > 0
        balanced = np.ones(len(counts))
        balanced[present] = rows / (present.sum() * counts[present])
        weights = None
        if class_weights == BALANCED:
            weights = balanced
        elif class_weights != NONE:
            weights = named_weights(class_weights, names)
        ratios = balanced if sampling == BALANCED else None
        if weights is not None:
            drawn = counts if ratios is None else counts * ratios
            weights = weights * drawn.sum() / (weights * drawn).sum()
        return cls(
            weights, ratios, tuple(name for name, count in zip(names, counts, strict=True) if not count)
        )

    def shift(self) -> NDArray[np.float64]:
        """log w_k + log r_k, what training adds to the logits; its mean is 0."""
        found = [values for values in (self.class_weights, self.sampling_ratios) if values is not None]
        total = np.sum([np.log(values) for values in found], axis=0)
        return np.asarray(total - total.mean(), dtype=np.float64)


def named_weights(specification: str, names: Sequence[str]) -> NDArray[np.float64]:
    """The weight of every class; those that are not named have 1.

    >>> named_weights("yes=20", ("no", "yes")).tolist()
    [1.0, 20.0]
    """
    weights = np.ones(len(names))
    places = {name: place for place, name in enumerate(names)}
    for part in specification.split(","):
        name, _, value = part.rpartition("=")
        if name not in places:
            listed = ", ".join(names[:LISTED]) + (" ..." if len(names) > LISTED else "")
            raise UserError(
                f"{argument('class_weights')} names {name!r}, which is no class",
                remedy=f"the classes are: {listed}",
            )
        weights[places[name]] = float(value)
    return weights
