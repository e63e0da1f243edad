"""What the fit of a calibrator adds to the uncertainty of metrics on other rows.

The intervals of `evaluate` are about the rows measured on: with the calibrator as it is. Another validation
set of the same size would have given another calibrator. So the calibrator is fitted again with random
weights of the fitting rows, exponential with mean 1 (the Bayesian bootstrap: no class and no error drops out
of a small set), and every metric m is measured with each of the refits c_b:

    reach = t · sqrt(mean_b (m(c_b) - m(c))²),   towards either side that of the refits on it, if larger
    low'  = m - sqrt((m - low)² + reach²),    high' = m + sqrt((high - m)² + reach²)

t is the 97.5 % quantile of Student's distribution for the number of refits. Such an interval covers what
calibration with that many rows gives on average. Of a calibrator that chooses among several (`auto`), the
choice is kept.

References: Rubin, Annals of Statistics 1981 (weights); Zou & Donner, Statistics in Medicine 2008 (the sum).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.base import clone

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.calibrator import Calibrator, chosen_kind
from calmix.calibration.evaluation import evaluate
from calmix.calibration.input_checks import Floats
from calmix.calibration.predictions import Predictions
from calmix.runtime.randomness import stream

REFITS = 24
REACH = float(stdtrit(REFITS, 0.975))
# Metrics of refits differ on the same rows: a part of many says by how much.
MOST_ROWS = 5_000
# Of many fitting rows a part is fitted again; the spread falls with the root of their number.
MOST_FITTED = 5_000
# What values can be at all, where it is not between 0 and 1.
BOUNDS = {"nll": (0.0, math.inf), "brier": (0.0, 2.0), "confidence_gap": (-1.0, 1.0), "mcc": (-1.0, 1.0)}


@dataclass(frozen=True, eq=False)
class FitUncertainty:
    """A fitted calibrator, and what it might have become on other rows."""

    calibrator: Calibrator
    refits: tuple[Calibrator, ...]
    scale: float = 1.0
    """The spread of a fit on all rows over that of the refits."""

    @classmethod
    def of(
        cls, calibrator: Calibrator, fitting: Predictions, *, copies: int = 1, seed: int = 0
    ) -> FitUncertainty:
        """`fitting` are the rows that it was fitted on: all of them, `copies` times over. The copies of a row
        are no new rows, and are drawn together."""
        different = len(fitting) // copies
        stride = math.ceil(len(fitting) / MOST_FITTED)
        kept = np.arange(0, different, stride)
        part = fitting.select((kept + different * np.arange(copies)[:, None]).ravel())
        own = np.ones(len(part)) if part.weights is None else part.weights
        refits = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit that counts has warned already
            if stride > 1:
                calibrator = _fresh(calibrator).fit(part)
            for number in range(REFITS):
                drawn = np.tile(stream(seed, "refit", number).exponential(size=len(kept)), copies)
                again = part.with_rows(weights=own * drawn, targets=part.targets)
                refits.append(_fresh(calibrator).fit(again))
        return cls(calibrator, tuple(refits), math.sqrt(len(kept) / different))

    def widened(self, measured: Mapping[str, Any], before: Predictions, **settings: Any) -> dict[str, Any]:
        """Metrics of calibrated rows with intervals that include the fit; `before` are the rows without the
        calibrator, `settings` those of `evaluate`."""
        rows = before.select(np.arange(0, len(before), math.ceil(len(before) / MOST_ROWS)))

        def values(calibrator: Calibrator) -> dict[str, Any]:
            return evaluate(calibrate_predictions(calibrator, rows), intervals=False, **settings)

        centre, others = values(self.calibrator), [values(refit) for refit in self.refits]
        result = dict(measured)
        for name in measured:
            metric = name.removesuffix("_ci")
            if metric == name or metric not in centre:
                continue
            apart = self.scale * np.array([other[metric] - centre[metric] for other in others])
            ends = widened_limits(measured[metric], measured[name], reach_of(apart), reach_of(-apart))
            least, most = BOUNDS.get(metric, (0.0, 1.0))
            result[name] = [max(ends[0], least), min(ends[1], most)]
        return result | {"ci_includes_fit": True}


def reach_of(apart: Floats) -> float:
    """How far a value may be below what it is, by the differences of refits from it.

    >>> round(reach_of(np.array([-2.0, 1.0])) / REACH, 4), round(reach_of(np.array([2.0, -1.0])) / REACH, 4)
    (2.0, 1.5811)
    """
    below = apart[apart < 0]
    return REACH * float(np.sqrt(max(np.mean(apart**2), np.mean(below**2) if len(below) else 0.0)))


def widened_limits(value: float, limits: tuple[float, float], down: float, up: float) -> tuple[float, float]:
    """Limits of a value with an independent uncertainty that reaches `down` and `up` from it.

    >>> widened_limits(10.0, (7.0, 13.0), 4.0, 4.0)
    (5.0, 15.0)
    """
    # A calibration error may be above its upper limit: the plug-in is too large.
    below, above = max(value - limits[0], 0.0), max(limits[1] - value, 0.0)
    return limits[0] - (math.hypot(below, down) - below), limits[1] + (math.hypot(above, up) - above)


def _fresh(calibrator: Calibrator) -> Calibrator:
    """An unfitted one that fits what this one is."""
    kind = chosen_kind(calibrator)
    made: Calibrator = clone(calibrator)
    return made if kind == calibrator.kind else made.set_params(candidates=(kind,))
