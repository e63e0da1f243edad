"""Every metric per label, and over all labels.

    per label   log loss (`nll`), Brier score, ECE of the label's probability, average precision, and
                precision, recall and F1 at its threshold
    macro       the mean over labels; of F1 and average precision, over the labels where they are defined
    micro       over all decisions (row, label) together
    subset_accuracy   rows whose labels are all right;   hamming_loss   decisions that are wrong

The Brier score of a label is mean (p − y)², as scikit-learn's `brier_score_loss`. F1 is undefined (null)
where no row has the label and none is predicted to, average precision where no row has it.

Intervals per label are those of `evaluate` with the notion `positive`. The labels of a row depend on each
other, so those over all labels come from a bootstrap over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.binning import Closed, bin_counts, check_bins
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.multi_label.average_precision import average_precision
from calmix.calibration.multi_label.label_thresholds import threshold_array
from calmix.calibration.multi_label.multi_label_predictions import Flags, MultiLabelPredictions
from calmix.calibration.multi_label.one_label import measure_label
from calmix.calibration.uncertainty.random_groups import add_rows, deal_rows

RESAMPLES = 1000
LIMITS = (2.5, 97.5)
ROW_METRICS = ("nll", "brier", "subset_accuracy", "hamming_loss")
"""Means over rows, of which two models on the same rows can be compared pair by pair."""


def evaluate_labels(
    predictions: MultiLabelPredictions,
    *,
    thresholds: Mapping[str, float] | None = None,
    bins: int | Sequence[int] = 15,
    closed: Closed = "right",
    intervals: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """All metrics of multi-label predictions, ready for JSON. `thresholds` by label; 0.5 where none is given.

    >>> given = MultiLabelPredictions.from_probabilities(
    ...     [[0.9, 0.2], [0.4, 0.6]], [["a"], ["a", "b"]], label_names=["a", "b"]
    ... )
    >>> found = evaluate_labels(given, intervals=False)
    >>> found["subset_accuracy"], found["hamming_loss"], round(found["per_label"]["a"]["f1"], 4)
    (0.5, 0.25, 0.6667)
    """
    cuts = threshold_array(thresholds, predictions.label_names)
    probabilities = predictions.probabilities()
    decided = probabilities >= cuts
    counts = _Counts.of(decided, predictions.targets)
    numbers = bin_counts(bins)
    for number in numbers:
        check_bins(number, closed)
    settings: dict[str, Any] = {"bins": numbers, "closed": closed, "intervals": intervals, "seed": seed}
    per_label = {
        name: _of_label(predictions, place, probabilities[:, place], settings)
        | {"threshold": float(cuts[place]), **counts.scores(place)}
        for place, name in enumerate(predictions.label_names)
    }
    found: dict[str, Any] = {
        "n": len(predictions),
        "labels": predictions.labels,
        "labels_per_row": float(predictions.targets.sum() / len(predictions)),
        "subset_accuracy": float((decided == predictions.targets).all(axis=1).mean()),
        "hamming_loss": float((decided != predictions.targets).mean()),
        "macro": {
            name: _mean(one[name] for one in per_label.values())
            for name in ("nll", "brier", "ece", "average_precision", "f1")
        },
        "micro": _micro(predictions, counts, numbers[0], closed),
        "per_label": per_label,
    }
    if intervals:
        _add_intervals(found, predictions, decided, thresholds, seed)
    return found | {"multi_label": True, "notion": "positive", "bins": numbers[0], "closed": closed}


class _Counts:
    """Of every label: rows that are rightly, and wrongly, predicted to have it, and that are missed."""

    def __init__(self, right: Floats, wrong: Floats, missed: Floats) -> None:
        self.right, self.wrong, self.missed = right, wrong, missed

    @classmethod
    def of(cls, decided: Flags, targets: Flags) -> _Counts:
        return cls(*(part.sum(axis=0).astype(np.float64) for part in decision_parts(decided, targets)))

    def scores(self, place: int | None = None) -> dict[str, float | None]:
        """Of one label, or of all decisions together."""
        parts = (self.right, self.wrong, self.missed)
        right, wrong, missed = (float(part.sum() if place is None else part[place]) for part in parts)
        return {
            "f1": _share(2 * right, 2 * right + wrong + missed),
            "precision": _share(right, right + wrong),
            "recall": _share(right, right + missed),
        }


def decision_parts(decided: Flags, targets: Flags) -> tuple[Flags, Flags, Flags]:
    """True positives, false positives and false negatives, [n, K] each."""
    return decided & targets, decided & ~targets, ~decided & targets


def _of_label(
    predictions: MultiLabelPredictions, place: int, probability: Floats, settings: dict[str, Any]
) -> dict[str, Any]:
    measured = measure_label(predictions.of_label(place), **settings)
    has_it = predictions.targets[:, place]
    return {
        "n": len(predictions),
        "positives": int(has_it.sum()),
        "mean_probability": float(probability.mean()),
        **measured,
        "average_precision": average_precision(probability, has_it),
    }


def _micro(predictions: MultiLabelPredictions, counts: _Counts, bins: int, closed: Closed) -> dict[str, Any]:
    pooled, has_it = predictions.pooled_scores()
    return {
        "nll": float(predictions.log_losses().mean()),
        "brier": float(((pooled - has_it) ** 2).mean()),
        "ece": expected_calibration_error(pooled, has_it, bins=bins, closed=closed),
        "average_precision": average_precision(pooled, has_it),
        **counts.scores(),
    }


def row_values(predictions: MultiLabelPredictions, thresholds: Mapping[str, float] | None) -> Floats:
    """[n, 4], the `ROW_METRICS` of every row: their means are those of all rows."""
    probabilities, targets = predictions.probabilities(), predictions.targets
    decided = probabilities >= threshold_array(thresholds, predictions.label_names)
    return np.column_stack(
        [
            predictions.log_losses().mean(axis=1),
            ((probabilities - targets) ** 2).mean(axis=1),
            (decided == targets).all(axis=1),
            (decided != targets).mean(axis=1),
        ]
    )


def resampled_limits(rows: Floats, seed: int) -> list[list[float]]:
    """The 95 % limits of the mean of every column, by a bootstrap over rows."""
    sums = resampled_sums(np.column_stack([np.ones(len(rows)), rows]), seed)
    return [_limits(column) for column in (sums[:, 1:] / sums[:, :1]).T]


def resampled_sums(rows: Floats, seed: int) -> Floats:
    """[resamples, columns]: sums over rows drawn with replacement, in at most 1,024 random groups."""
    dealt = deal_rows(0, len(rows))
    groups = add_rows(dealt, rows)[: int(dealt.max()) + 1]
    generator = np.random.default_rng([seed, len(rows)])
    times = generator.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=RESAMPLES)
    return np.asarray(times.astype(np.float64) @ groups)


def _add_intervals(
    found: dict[str, Any],
    predictions: MultiLabelPredictions,
    decided: Flags,
    thresholds: Mapping[str, float] | None,
    seed: int,
) -> None:
    """Intervals of what is over all labels."""
    limits = dict(zip(ROW_METRICS, resampled_limits(row_values(predictions, thresholds), seed), strict=True))
    for part in (found["macro"], found["micro"]):
        part["nll_ci"], part["brier_ci"] = limits["nll"], limits["brier"]
    found["subset_accuracy_ci"] = limits["subset_accuracy"]
    found["hamming_loss_ci"] = limits["hamming_loss"]
    if found["macro"]["f1"] is None:
        return
    parts = np.column_stack(decision_parts(decided, predictions.targets)).astype(np.float64)
    right, wrong, missed = np.split(resampled_sums(parts, seed), 3, axis=1)
    with np.errstate(invalid="ignore"):
        each = 2 * right / (2 * right + wrong + missed)
        pooled = 2 * right.sum(axis=1) / (2 * right + wrong + missed).sum(axis=1)
    defined = ~np.isnan(each)
    macro = np.where(defined, each, 0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
    found["macro"]["f1_ci"], found["micro"]["f1_ci"] = _limits(macro), _limits(pooled)
    for place, one in enumerate(found["per_label"].values()):
        if one["f1"] is not None:
            one["f1_ci"] = _limits(each[:, place])


def _limits(drawn: Floats) -> list[float]:
    low, high = np.nanpercentile(drawn, LIMITS)
    return [float(low), float(high)]


def _mean(values: Any) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
