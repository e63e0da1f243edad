"""Calibration metrics for `transformers.Trainer`.

    Trainer(..., compute_metrics=compute_metrics)                       logits of the whole set at once
    Trainer(..., compute_metrics=CalibrationMetrics(bins=15))           also with batch_eval_metrics=True

With `batch_eval_metrics=True` the Trainer hands over one batch at a time and keeps no logits;
`CalibrationMetrics` then holds a fixed number of sums per class and bin. Both give the same numbers (to
1e-12), however the rows are batched.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calmix.calibration.integrations.accumulators import PredictionMetrics
from calmix.calibration.metrics.binning import Closed, check_bins
from calmix.calibration.predictions import Predictions

REPORTED = ("accuracy", "nll", "brier", "ece", "mce", "rmsce", "oe", "classwise_ece", "mean_confidence")


class EvalPrediction(Protocol):
    """What the Trainer hands over: logits (or a tuple that begins with them) and labels."""

    @property
    def predictions(self) -> Any: ...

    @property
    def label_ids(self) -> Any: ...


class CalibrationMetrics:
    """A `compute_metrics` that takes one batch or many.

    Each call adds its rows; with `compute_result=True` (the default, and the Trainer's last batch) it gives
    the metrics of all rows since the last result and starts empty: `accuracy, nll, brier, ece, mce, rmsce,
    oe, classwise_ece, mean_confidence`, to which the Trainer adds its prefix (`eval_ece`). Binned errors are
    those of the predicted label.

    Two rows at confidence 3/4, one of them right:

    >>> from types import SimpleNamespace
    >>> log3 = 1.0986122886681098
    >>> metrics = CalibrationMetrics()
    >>> metrics(SimpleNamespace(predictions=[[log3, 0.0]], label_ids=[0]), compute_result=False)
    {}
    >>> result = metrics(SimpleNamespace(predictions=[[log3, 0.0]], label_ids=[1]))
    >>> result["accuracy"], round(result["ece"], 6), round(result["brier"], 6)
    (0.5, 0.25, 0.625)
    """

    def __init__(self, *, bins: int = 15, closed: Closed = "right") -> None:
        check_bins(bins, closed)
        self.bins = bins
        self.closed: Closed = closed
        self.reset()

    def reset(self) -> None:
        """Forget the rows seen so far (after an evaluation that was broken off)."""
        self._metrics: PredictionMetrics | None = None

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        batch = read_logits(prediction)
        if self._metrics is None:  # the first batch tells how many classes there are
            self._metrics = PredictionMetrics(batch.classes, bins=self.bins, closed=self.closed)
        self._metrics.update(batch)
        if not compute_result:
            return {}
        result = self._metrics.compute()
        self.reset()
        return {name: result[name] for name in REPORTED}


def read_logits(prediction: EvalPrediction) -> Predictions:
    """Logits and labels as `Predictions`; of a tuple of model outputs, the logits come first."""
    scores, labels = prediction.predictions, prediction.label_ids
    if isinstance(scores, tuple):
        scores = scores[0]
    if isinstance(labels, tuple):
        labels = labels[0]
    return Predictions.from_logits(_as_array(scores), _as_array(labels))


def _as_array(values: Any) -> npt.NDArray[Any]:
    """A tensor of any device and precision, or anything numpy reads, as an array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # numpy has no bfloat16; float32 holds it without loss.
        values = (values.float() if "bfloat16" in str(values.dtype) else values).numpy()
    return np.asarray(values)
