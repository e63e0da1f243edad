"""Platt scaling of two-class logits.

    P(class 1) = sigmoid(a d + b),    d = z_1 - z_0

the logistic regression of the label on the difference of the logits. Temperature scaling is b = 0; Platt's
b also corrects a shifted decision threshold, so the predicted class may change.

References: Platt 1999; Lin, Lin & Weng 2007.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import count_rows
from calmix.calibration.calibrators.newton import Objective, damped_newton, solve_semidefinite
from calmix.calibration.input_checks import Floats, Integers


class PlattScaling(Calibrator):
    """Scale and shift the difference of two logits.

    With `smoothing` (Platt's own, and scikit-learn's) the targets are not 0 and 1 but

        1 / (N0 + 2)  and  (N1 + 1) / (N1 + 2)

    N0 and N1 being the rows of each class: the optimum is then finite for separable rows too. With sample
    weights they are the classes' shares of the weight times the number of rows. `smoothing=False` is plain
    maximum likelihood.

    Attributes after `fit`:
        slope_, intercept_: a and b.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows' labels.
        n_iter_, converged_: Newton steps, and whether they reached the optimum.

    d = 0 in every row and three in four of class 1: b = log 3.

    >>> calibrator = PlattScaling(smoothing=False).fit([[1.0, 1.0]] * 4, [1, 1, 1, 0])
    >>> round(calibrator.intercept_, 6), round(math.log(3), 6)
    (1.098612, 1.098612)
    """

    kind: ClassVar[str] = "platt"

    slope_: float
    intercept_: float
    n_iter_: int
    converged_: bool

    def __init__(self, smoothing: bool = True) -> None:
        self.smoothing = smoothing

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        if logits.shape[1] != 2:
            raise ValueError(
                f"Platt scaling is for two classes, not {logits.shape[1]}: use temperature or structured"
            )
        rows = count_rows(labels, row_of_copy)
        shares = np.full(rows, 1 / rows) if weights is None else weights
        difference = np.subtract(logits[:, 1], logits[:, 0], dtype=np.float64)
        targets = labels.astype(np.float64)
        if self.smoothing:
            positives = rows * float(shares @ targets)
            negatives = rows - positives
            targets = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        # Newton does not depend on the scale of d, but its linear system does.
        scale = float(np.abs(difference).max()) or 1.0
        positive_share = float(shares @ targets)
        start = 0.0 if positive_share in (0.0, 1.0) else math.log(positive_share / (1 - positive_share))
        solution = damped_newton(_PlattLoss(difference / scale, targets, shares), np.array([0.0, start]))
        self.slope_ = float(solution.parameters[0]) / scale
        self.intercept_ = float(solution.parameters[1])
        self.n_iter_ = solution.steps
        self.converged_ = solution.converged
        self._record_losses(logits, labels, weights)
        if not self.smoothing and self.nll_after_ < 1e-6:
            warnings.warn("the rows are separable: sharper is always better; use smoothing", stacklevel=4)

    def _transform(self, logits: Floats) -> Floats:
        """a z + (-b/2, b/2)."""
        scale, bias = self.folding()
        return logits * scale + bias

    def folding(self) -> tuple[float, Floats]:
        """(a, (-b/2, b/2)): the difference of the two calibrated logits is a d + b."""
        check_is_fitted(self)
        return self.slope_, np.array([-self.intercept_ / 2, self.intercept_ / 2])


class _PlattLoss(Objective):
    """mean(softplus(a d + b) - t (a d + b)) over parameters (a, b)."""

    def __init__(self, difference: Floats, targets: Floats, weights: Floats) -> None:
        self.features = np.stack([difference, np.ones_like(difference)])
        self.targets = targets
        self.weights = weights

    def evaluate(self, parameters: Floats) -> tuple[float, Floats]:
        scores = parameters @ self.features
        probability = np.exp(-np.logaddexp(0.0, -scores))
        self.curvature = self.weights * probability * np.exp(-np.logaddexp(0.0, scores))
        value = self.weights @ (np.logaddexp(0.0, scores) - self.targets * scores)
        return float(value), self.features @ (self.weights * (probability - self.targets))

    def newton_step(self, gradient: Floats) -> Floats:
        return solve_semidefinite((self.features * self.curvature) @ self.features.T, gradient)
