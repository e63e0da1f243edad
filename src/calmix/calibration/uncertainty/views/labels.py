"""Metrics of predicted and true classes with their intervals: Matthews correlation, top-5, confidence gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.agreement import (
    class_counts,
    in_top,
    matthews_influence,
    matthews_of_shares,
)
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.measured_value import (
    AccuracyStatistic,
    Limits,
    SmoothStatistic,
    Statistic,
)
from calmix.calibration.uncertainty.random_groups import GROUPS, deal_rows

TOP = 5
# Numbers kept about the groups of rows: fewer groups where there are many classes.
GROUP_VALUES, FEWEST_GROUPS = 4_000_000, 64


@dataclass(frozen=True, eq=False)
class MatthewsStatistic(SmoothStatistic):
    """Holds 1 - MCC, to which errors add: its limits know how little few errors say."""

    def limits(self, seed: int, level: float = 0.95) -> Limits:
        low, high = super().limits(seed, level)
        return 1.0 - high, 1.0 - low

    def difference_limits(self, other: SmoothStatistic, seed: int, level: float = 0.95) -> Limits:
        low, high = super().difference_limits(other, seed, level)
        return -high, -low


class LabelView:
    """Counts of predicted and true classes, fed in the order of the rows."""

    def __init__(self, classes: int, *, grouped: bool) -> None:
        self.classes = classes
        many = int(np.clip(GROUP_VALUES // (2 * classes), FEWEST_GROUPS, GROUPS))
        self.groups = many if grouped else 1
        self.predicted, self.labels = np.zeros((2, self.groups, classes))
        self.right = np.zeros(self.groups)
        # Errors by predicted and by true class: what they add to 1 - MCC depends on both.
        self.wrong_predicted, self.wrong_labels = np.zeros((2, self.groups, classes))
        self.in_top = 0
        self.top: list[ConfidenceSample] = []
        self.keeps_rows = grouped

    def update(
        self, block: Predictions, confidence: Floats, correct: npt.NDArray[np.bool_], dealt: Integers
    ) -> None:
        if self.groups < GROUPS:
            dealt = dealt % self.groups
        guessed = block.values.argmax(axis=1)
        self.predicted += class_counts(guessed, dealt, self.classes, self.groups)
        self.labels += class_counts(block.labels, dealt, self.classes, self.groups)
        self.right += np.bincount(dealt, weights=correct, minlength=self.groups)
        wrong = ~correct
        self.wrong_predicted += class_counts(guessed[wrong], dealt[wrong], self.classes, self.groups)
        self.wrong_labels += class_counts(block.labels[wrong], dealt[wrong], self.classes, self.groups)
        if self.classes > TOP:
            among = in_top(block, TOP)
            self.in_top += int(among.sum())
            if self.keeps_rows:
                self.top.append(ConfidenceSample.pack(confidence, among))

    @property
    def rows(self) -> float:
        return float(self.labels.sum())

    def shares(self) -> tuple[float, Floats, Floats]:
        """Accuracy, shares of the predicted and of the true classes."""
        rows = self.rows
        return (
            float(self.right.sum()) / rows,
            self.predicted.sum(axis=0) / rows,
            self.labels.sum(axis=0) / rows,
        )

    def values(self) -> dict[str, float]:
        found = {"mcc": matthews_of_shares(*self.shares())}
        if self.classes > TOP:
            found["top5_accuracy"] = self.in_top / self.rows
        return found

    def statistics(self) -> dict[str, Statistic]:
        """Of every value, with the noise of its rows."""
        accuracy, predicted, labels = self.shares()
        by_guess, by_label, for_right = matthews_influence(accuracy, predicted, labels)
        influence = self.predicted @ by_guess + self.labels @ by_label + self.right * for_right
        # An error in place of the right answer: the row's class is the same, its prediction another.
        added = (
            self.wrong_labels @ by_guess
            + self.wrong_labels.sum(axis=1) * for_right
            - (self.wrong_predicted @ by_guess)
        )
        found: dict[str, Statistic] = {
            "mcc": MatthewsStatistic(
                1.0 - matthews_of_shares(accuracy, predicted, labels),
                -influence,
                self.labels.sum(axis=1),
                added=np.maximum(added, 0.0),
                jump=for_right,
                high=2.0,
            )
        }
        if self.classes > TOP:
            self.top[:] = [ConfidenceSample.join(self.top)]
            found["top5_accuracy"] = AccuracyStatistic(
                self.in_top / self.rows, self.right, self.labels.sum(axis=1), high=1.0, outcomes=self.top[0]
            )
        return found


def confidence_gap(sample: ConfidenceSample) -> SmoothStatistic:
    """Mean confidence minus accuracy: above 0 the model is overconfident on average, below it underconfident.

    Every error adds 1 to a sum that is otherwise confidence - 1: few errors say little, and the limits know.
    """
    gap, errors, rows = np.zeros((3, GROUPS))
    for start, block in sample.blocks():
        dealt = deal_rows(start, len(block))
        wrong = 1.0 - block.correct()
        gap += np.bincount(dealt, weights=block.confidence() - 1.0 + wrong, minlength=GROUPS)
        errors += np.bincount(dealt, weights=wrong, minlength=GROUPS)
        rows += np.bincount(dealt, minlength=GROUPS)
    value = float(gap.sum() / rows.sum())
    return SmoothStatistic(value, gap, rows, added=errors, jump=1.0, low=-1.0, high=1.0)
