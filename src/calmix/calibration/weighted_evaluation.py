"""The metrics of rows that count differently, or whose labels are distributions.

A row with the weight v and the soft label t is taken as one row of every class k, with the weight v t_k:

    NLL       Σ_i v_i Σ_k t_ik (−log p_ik) / Σ_i v_i          Brier likewise: Σ_k t_k ‖p − e_k‖²
    accuracy  Σ_i v_i t_i,ŷ / Σ_i v_i

so that all metrics are expectations over the annotators: a prediction is right with the share of them that
gave its class, and the calibration errors compare the confidence with that share. With hard labels and equal
weights they are the metrics of `evaluate`.

Intervals of means are the percentiles of a bootstrap over rows (a row is drawn with its weight and all of its
labels). Those of the ECE ask which true errors could have shown what was seen (`uncertainty.inversion`), with
the noise of weighted rows; the noise floor is the ECE of that noise alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.binning import Closed, assign_bins, bin_counts, check_bins, sum_bins
from calmix.calibration.metrics.errors import (
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_square_calibration_error,
)
from calmix.calibration.metrics.risk_coverage import augrc_of_groups, aurc_of_groups
from calmix.calibration.metrics.scores import brier_rows, log_loss_rows, weighted_mean
from calmix.calibration.predictions import Notion, Predictions
from calmix.calibration.uncertainty.inversion import invert
from calmix.calibration.uncertainty.sampling_noise import bin_scale, independent_noise

RESAMPLES = 1000
# Numbers of one block of resamples: 32 MB.
BLOCK_NUMBERS = 1 << 22
LIMITS = (2.5, 97.5)


def evaluate_weighted(
    predictions: Predictions,
    *,
    bins: int | Sequence[int] = 15,
    closed: Closed = "right",
    notion: Notion = "top_label",
    intervals: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """The metrics of predictions with weights or soft labels, under the names of `evaluate`.

    `effective_n` is how many rows of equal weight say as much: (Σ v)² / Σ v².

    Two annotators agree on the first row and disagree on the second, which counts twice:

    >>> given = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]], [0, 0])
    >>> soft = given.with_rows(weights=np.array([1.0, 2.0]), targets=np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> found = evaluate_weighted(soft, bins=1, intervals=False)
    >>> round(found["accuracy"], 4), round(found["ece"], 4), round(found["effective_n"], 2)
    (0.6667, 0.1667, 1.8)
    """
    counts = bin_counts(bins)
    for count in counts:
        check_bins(count, closed)
    if notion != "top_label":
        raise ValueError(
            f"notion {notion!r} is not measured for rows with weights or soft labels; use 'top_label'"
        )
    rows, weights = predictions.weighted_rows()
    confidence, correct = rows.confidence(), rows.correct().astype(np.float64)
    settings: dict[str, Any] = {"weights": weights, "closed": closed}
    total = _RowSums.of(predictions)
    scaled, errors = total.ranked()
    measured = {
        "accuracy": weighted_mean(correct, weights),
        "nll": weighted_mean(log_loss_rows(rows), weights),
        "brier": weighted_mean(brier_rows(rows), weights),
        "mean_confidence": weighted_mean(confidence, weights),
        "ece": expected_calibration_error(confidence, correct, bins=counts[0], **settings),
        **{
            f"ece_{more}_bins": expected_calibration_error(confidence, correct, bins=more, **settings)
            for more in counts[1:]
        },
        "adaptive_ece": adaptive_calibration_error(confidence, correct, bins=counts[0], weights=weights),
        "classwise_ece": classwise_calibration_error(
            rows.probabilities(), rows.labels, bins=counts[0], **settings
        ),
        "mce": maximum_calibration_error(confidence, correct, bins=counts[0], **settings),
        "rmsce": root_mean_square_calibration_error(confidence, correct, bins=counts[0], **settings),
        "oe": overconfidence_error(confidence, correct, bins=counts[0], **settings),
        "aurc": aurc_of_groups(scaled, errors),  # type: ignore[arg-type]
        "augrc": augrc_of_groups(scaled, errors),  # type: ignore[arg-type]
    }
    measured["confidence_gap"] = measured["mean_confidence"] - measured["accuracy"]
    result: dict[str, Any] = {"n": len(total.weight), **measured}
    if intervals:
        result |= total.limits(counts[0], closed, seed)
    per_row = total.weight
    return result | {
        "effective_n": float(per_row.sum() ** 2 / (per_row**2).sum()),
        "is_weighted": predictions.weights is not None,
        "has_soft_labels": predictions.targets is not None,
        "notion": notion,
        "bins": counts[0],
        "closed": closed,
    }


def nll_difference(after: Predictions, before: Predictions) -> dict[str, Any]:
    """The change of the NLL of the same rows, with a 95 % t interval over rows that count by their weights.

        Δ = Σ_i v_i Δ_i / Σ_i v_i,     variance Σ_i v_i² (Δ_i − Δ)² / (Σ_i v_i)² · n/(n − 1)

    where n is the effective number of rows.

    >>> scores = [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]
    >>> rows, better = (Predictions.from_probabilities(one, [0, 1]) for one in scores)
    >>> rows, better = (one.with_rows(weights=[1.0, 3.0]) for one in (rows, better))
    >>> round(nll_difference(better, rows)["difference"], 4)  # -0.75 log 2
    -0.5199
    """
    change = _row_losses(after) - _row_losses(before)
    weights = np.ones(len(before)) if before.weights is None else before.weights
    share = weights / weights.sum()
    mean = float(share @ change)
    effective = 1 / float(share @ share)
    variance = float(share**2 @ (change - mean) ** 2) * effective / max(effective - 1, 1e-9)
    reach = float(stdtrit(max(effective - 1, 1), LIMITS[1] / 100) * np.sqrt(variance))
    return {"difference": mean, "ci": [mean - reach, mean + reach]}


def _row_losses(predictions: Predictions) -> Floats:
    """Σ_k t_k (−log p_k) of every row."""
    if predictions.targets is None:
        return log_loss_rows(predictions)
    shares = predictions.targets
    # A class that nobody gave costs nothing, of whatever probability: 0 log 0 is 0.
    return np.asarray(-np.where(shares > 0, shares * predictions.log_probabilities(), 0.0).sum(axis=1))


class _RowSums:
    """What every row adds to the sums of the metrics; rows of weight 0 are none."""

    def __init__(self, weight: Floats, right: Floats, nll: Floats, brier: Floats, confidence: Floats) -> None:
        self.weight, self.right, self.nll, self.brier = weight, right, nll, brier
        self.confidence = confidence

    @classmethod
    def of(cls, predictions: Predictions) -> _RowSums:
        counted = np.ones(len(predictions)) if predictions.weights is None else predictions.weights
        present = counted > 0
        rows, weight = predictions.select(np.flatnonzero(present)), counted[present]
        targets = rows.soft_targets()
        probabilities = rows.probabilities()
        # Σ_k t_k ‖p − e_k‖² = ‖p‖² − 2 p·t + 1
        brier = (probabilities**2).sum(axis=1) - 2 * (probabilities * targets).sum(axis=1) + 1
        return cls(
            weight=weight,
            right=weight * targets[np.arange(len(rows)), rows.predicted()],
            nll=-weight * (targets * rows.log_probabilities()).sum(axis=1),
            brier=weight * brier,
            confidence=rows.confidence(),
        )

    def ranked(self) -> tuple[Floats, Floats]:
        """Rows and errors of every group of equal confidence, the most confident first; a mean row is 1."""
        _, place = np.unique(-self.confidence, return_inverse=True)
        scale = len(self.weight) / self.weight.sum()
        rows: Floats = np.bincount(place, weights=self.weight * scale).astype(np.float64)
        return rows, np.bincount(place, weights=(self.weight - self.right) * scale).astype(np.float64)

    def limits(self, bins: int, closed: Closed, seed: int) -> dict[str, Any]:
        """Intervals of the means by a bootstrap over rows, of the ECE by inversion; its noise floor."""
        generator = np.random.default_rng([seed, len(self.weight)])
        rows = len(self.weight)
        columns = np.column_stack(
            [self.weight, self.right, self.nll, self.brier, self.weight * self.confidence]
        )
        drawn = []
        step = max(BLOCK_NUMBERS // rows, 1)
        for start in range(0, RESAMPLES, step):
            size = min(step, RESAMPLES - start)
            times = generator.multinomial(rows, np.full(rows, 1 / rows), size=size)
            sums = times.astype(np.float64) @ columns
            # A resample may hold no weight at all where a few rows have nearly all of it.
            sums = sums[sums[:, 0] > 0]
            means = sums[:, 1:] / sums[:, :1]
            drawn.append(np.column_stack([means, means[:, 3] - means[:, 0]]))
        low, high = np.percentile(np.concatenate(drawn), LIMITS, axis=0)
        names = ("accuracy", "nll", "brier", "mean_confidence", "confidence_gap")
        found: dict[str, Any] = {
            f"{name}_ci": [float(low[place]), float(high[place])] for place, name in enumerate(names)
        }
        return found | self._error_limits(bins, closed, seed)

    def _error_limits(self, bins: int, closed: Closed, seed: int) -> dict[str, Any]:
        place = assign_bins(self.confidence, bins, closed)
        sums = sum_bins(place, bins, self.confidence, self.right / self.weight, self.weight)
        scale = bin_scale(sums)
        noise = independent_noise(scale, seed)
        found = invert(sums.residual / sums.total, scale, noise, _total_gap)
        floor = _total_gap(noise)
        return {
            "ece_ci": [found.low, found.high],
            "ece_corrected": found.corrected,
            "ece_noise_floor": float(floor.mean()),
            "ece_noise_floor_p95": float(np.percentile(floor, 95)),
        }


def _total_gap(gaps: Floats) -> Floats:
    return np.asarray(np.abs(gaps).sum(axis=-1))
