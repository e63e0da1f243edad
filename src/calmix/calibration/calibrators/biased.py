"""Temperature scaling with a bias for every class.

    calibrated logits_k = z_k / T + bias_k

One temperature cannot correct a class that is predicted too often; C − 1 more numbers can, where vector
scaling fits 2C. Both are fitted by maximum likelihood, from the best temperature on, with a penalty that is
too small to matter but for a class without rows, whose bias it keeps finite. Rows without an error say
nothing about either: the result is then temperature scaling with its guard.

Reference: bias-corrected temperature scaling; Alexandari, Kundaje & Shrikumar, ICML 2020.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.folds import count_rows
from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.calibrators.temperature import TemperatureLoss, best_temperature, warn_without_errors
from calmix.calibration.input_checks import Floats, Integers


class BiasedTemperature(Calibrator):
    """Divide the logits by T and shift every class.

    `l2` adds l2 / 2 [(T₀ / T − 1)² + |bias|²] to the mean negative log-likelihood, T₀ being the
    temperature that is best alone.

    Attributes after `fit`:
        temperature_: T.
        bias_: one number per class, their sum 0.
        nll_before_, nll_after_: mean negative log-likelihood of the fitting rows, without the penalty.

    Logits that say nothing, and three rows in four of class 0: the biases become the log-odds.

    >>> calibrator = BiasedTemperature().fit([[0.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> calibrator.predict_proba([[0.0, 0.0]]).round(3).tolist()
    [[0.75, 0.25]]
    """

    kind: ClassVar[str] = "temperature-bias"

    temperature_: float
    bias_: Floats

    def __init__(self, l2: float = 1e-4) -> None:
        self.l2 = l2

    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        loss = TemperatureLoss(logits, labels, weights, rows=count_rows(labels, row_of_copy))
        optimum = best_temperature(loss)
        warn_without_errors(loss, optimum, stacklevel=4)
        self.temperature_, self.bias_ = 1 / optimum.beta, np.zeros(logits.shape[1])
        if not loss.is_separable:
            found = ShrunkScaling(penalty=self.l2).fit(logits * np.float64(optimum.beta), labels, weights)
            self.temperature_ *= found.temperature_
            self.bias_ = found.bias_
        self._record_losses(logits, labels, weights)

    def _transform(self, logits: Floats) -> Floats:
        """logits / T + bias."""
        return logits / self.temperature_ + self.bias_

    def folding(self) -> tuple[float, Floats]:
        """(1/T, bias of every class)."""
        check_is_fitted(self)
        return 1 / self.temperature_, self.bias_.copy()
