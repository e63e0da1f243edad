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

from calmix.calibration.binning import BinSums, Edges, assign_bins, check_bins, sum_bins
from calmix.calibration.class_bins import ClassSums, sum_classes
from calmix.calibration.errors import expected_error, maximum_error, overconfidence, root_mean_square_error
from calmix.calibration.predictions import Predictions
from calmix.calibration.scores import log_loss_rows, squared_errors


class EvalPrediction(Protocol):
    """What the Trainer hands over: logits (or a tuple that begins with them) and labels."""

    @property
    def predictions(self) -> Any: ...

    @property
    def label_ids(self) -> Any: ...


class CalibrationMetrics:
    """A `compute_metrics` that takes one batch or many.

    Each call adds its rows; with `compute_result=True` (the default, and the Trainer's last batch) it gives
    the metrics of all rows since the last result and starts anew: `accuracy, nll, brier, ece, mce, rmsce, oe,
    classwise_ece, mean_confidence`, to which the Trainer adds its prefix (`eval_ece`). Binned errors are
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

    def __init__(self, *, bins: int = 15, edges: Edges = "right") -> None:
        check_bins(bins, edges)
        self.bins = bins
        self.edges: Edges = edges
        self.reset()

    def reset(self) -> None:
        """Forget the rows seen so far (after an evaluation that was broken off)."""
        self._bins = BinSums.empty(self.bins)
        self._classes: ClassSums | None = None
        self._log_loss = 0.0
        self._squared_error = 0.0

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        self._update(read_logits(prediction))
        if not compute_result:
            return {}
        result = self._compute()
        self.reset()
        return result

    def _update(self, batch: Predictions) -> None:
        probabilities, confidence = batch.probabilities(), batch.confidence()
        classes = sum_classes(probabilities, batch.labels, self.bins, self.edges)
        if self._classes is not None and len(self._classes.weight) != batch.classes:
            raise ValueError(f"a batch of {batch.classes} classes after {len(self._classes.weight)}")
        self._classes = classes if self._classes is None else self._classes + classes
        assigned = assign_bins(confidence, self.bins, self.edges)
        correct = batch.correct().astype(np.float64)
        self._bins = self._bins + sum_bins(assigned, self.bins, confidence, correct, None)
        self._log_loss += float(log_loss_rows(batch).sum())
        self._squared_error += float(squared_errors(probabilities, batch.labels).sum())

    def _compute(self) -> dict[str, float]:
        assert self._classes is not None
        rows = self._bins.total
        return {
            "accuracy": float(self._bins.correct.sum() / rows),
            "nll": self._log_loss / rows,
            "brier": self._squared_error / rows,
            "ece": expected_error(self._bins),
            "mce": maximum_error(self._bins),
            "rmsce": root_mean_square_error(self._bins),
            "oe": overconfidence(self._bins),
            "classwise_ece": self._classes.expected_error(),
            "mean_confidence": float(self._bins.confidence.sum() / rows),
        }


def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """The metrics of a whole evaluation set, with 15 bins closed on their right.

    >>> from types import SimpleNamespace
    >>> result = compute_metrics(SimpleNamespace(predictions=[[0.0, 0.0]], label_ids=[0]))
    >>> result["ece"], round(result["nll"], 6)
    (0.5, 0.693147)
    """
    return CalibrationMetrics()(prediction)


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
