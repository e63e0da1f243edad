"""All metrics of one set of predictions, in one pass over the rows.

`evaluate` is the one-shot form. `RunningEvaluation` takes the rows in batches: it keeps eight bytes a row
(confidence and correctness, for the metrics that rank rows) and a fixed number of sums, so that tens of
millions of rows fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calmix.calibration.input_checks import Floats
from calmix.calibration.metrics.binning import Closed, bin_counts, check_bins
from calmix.calibration.metrics.errors import expected_error
from calmix.calibration.metrics.scores import squared_errors
from calmix.calibration.predictions import Notion, Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.error_costs import costs_of_errors, square_costs
from calmix.calibration.uncertainty.measured_value import (
    AccuracyStatistic,
    ErrorStatistic,
    SmoothStatistic,
    Statistic,
)
from calmix.calibration.uncertainty.noise_floor import NoiseFloor
from calmix.calibration.uncertainty.random_groups import GROUPS, deal_rows
from calmix.calibration.uncertainty.rank_influence import JUMPS as RANK_JUMPS
from calmix.calibration.uncertainty.rank_influence import METRICS as RANK_METRICS
from calmix.calibration.uncertainty.rank_influence import RankInfluence, rank_influence, risk_areas
from calmix.calibration.uncertainty.views.binary import BinaryView
from calmix.calibration.uncertainty.views.classes import ClassView
from calmix.calibration.uncertainty.views.labels import LabelView, confidence_gap
from calmix.calibration.weighted_evaluation import evaluate_weighted

# Values by name, the statistics behind them (none without intervals) and the noise floors of the ECEs.
Measured = tuple[dict[str, float], dict[str, Statistic], dict[str, NoiseFloor]]

NOTIONS = ("top_label", "classwise", "positive")
# Values of one block of rows: its probabilities are 32 MB.
BLOCK_VALUES = 1 << 22


def evaluate(
    predictions: Predictions,
    *,
    bins: int | Sequence[int] = 15,
    closed: Closed = "right",
    notion: Notion = "top_label",
    intervals: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """All metrics of one set of predictions, as plain numbers; `<metric>_ci` is the 95 % interval of each.

    `notion` is the notion that the calibration errors measure: of the predicted label (`top_label`), of the
    second class of two (`positive`), or of every class, averaged (`classwise`; without `smooth_ece` and `ks`,
    which are not defined over several classes). Accuracy, scores and the risk areas do not depend on it.

    `ece` is the plug-in value, which noise makes too large; compare it with `ece_noise_floor` (what a
    perfectly calibrated model would show: the mean, and `ece_noise_floor_p95`), or see `ece_corrected`
    and `ece_ci`. Of several numbers of `bins` the first is that of all metrics; the ECE of each further
    number M is `ece_M_bins`, with its interval and noise floor.

    `confidence_gap` is the mean confidence minus the accuracy; `top5_accuracy` is there for more than five
    classes. Rows with weights or soft labels: see `weighted_evaluation`.

    >>> predictions = Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    >>> result = evaluate(predictions, bins=1)
    >>> result["n"], result["accuracy"], round(result["ece"], 4), round(result["brier"], 4)
    (2, 0.5, 0.35, 0.65)
    """
    if predictions.is_weighted:
        settings: dict[str, Any] = {"bins": bins, "closed": closed, "notion": notion}
        return evaluate_weighted(predictions, intervals=intervals, seed=seed, **settings)
    evaluation = RunningEvaluation(bins=bins, closed=closed, notion=notion, intervals=intervals)
    evaluation.update(predictions)
    return evaluation.result(seed=seed)


class RunningEvaluation:
    """The metrics of predictions that come in batches: `update` with each, then `result`."""

    def __init__(
        self,
        *,
        bins: int | Sequence[int] = 15,
        closed: Closed = "right",
        notion: Notion = "top_label",
        intervals: bool = True,
    ) -> None:
        counts = bin_counts(bins)
        for count in counts:
            check_bins(count, closed)
        if notion not in NOTIONS:
            raise ValueError(f"notion must be one of {', '.join(NOTIONS)}, not {notion!r}")
        self.bins, self.closed, self.notion, self.intervals = counts[0], closed, notion, intervals
        self.further_bins = counts[1:]
        self.rows = 0
        self._classes: ClassView | None = None
        self._further: list[ClassView] = []
        self._labels: LabelView | None = None
        self._top: list[ConfidenceSample] = []
        self._noted: list[list[ConfidenceSample]] = []
        # Of each group of rows: rows, right answers, log loss, squared error, what errors added to both.
        self._sums = np.zeros((GROUPS, 6))
        # Rows asked what an error would cost, and the sums of the squares (see `error_costs`).
        self._costs = np.zeros(3)

    def update(self, predictions: Predictions) -> None:
        """Take in a batch of rows."""
        if predictions.is_weighted:
            raise ValueError("rows with weights or soft labels are evaluated at once, not in batches")
        if self._classes is None:
            self._begin(predictions.classes)
        elif predictions.classes != self._classes.classes:
            raise ValueError(f"{predictions.classes} classes after {self._classes.classes}")
        step = max(BLOCK_VALUES // predictions.classes, 1)
        for start in range(0, len(predictions), step):
            self._update_block(predictions.rows(start, start + step))

    def _begin(self, classes: int) -> None:
        if self.notion == "positive" and classes != 2:
            raise ValueError(
                f"notion 'positive' needs two classes, not {classes}; use 'classwise' or 'top_label'"
            )
        views = [
            ClassView(classes, bins=bins, closed=self.closed, grouped=self.intervals)
            for bins in (self.bins, *(self.further_bins if self.notion == "classwise" else ()))
        ]
        self._classes, self._further = views[0], views[1:]
        self._labels = LabelView(classes, grouped=self.intervals)
        columns = {"top_label": 0, "positive": 1, "classwise": classes}[self.notion]
        self._noted = [[] for _ in range(columns)]

    def _update_block(self, block: Predictions) -> None:
        assert self._classes is not None and self._labels is not None
        probabilities = np.minimum(block.probabilities(), 1.0)
        predicted = block.predicted()
        correct = predicted == block.labels
        dealt = deal_rows(self.rows, len(block))
        confidence = probabilities[np.arange(len(block)), predicted]
        self._top.append(ConfidenceSample.pack(confidence, correct))
        self._labels.update(block, confidence, correct, dealt)
        noted = {0: (), 1: (1,)}.get(len(self._noted), range(block.classes))
        for place, column in enumerate(noted):
            came_true = block.labels == column
            self._noted[place].append(ConfidenceSample.pack(probabilities[:, column].copy(), came_true))
        for view in (self._classes, *self._further):
            view.update(probabilities, block.labels, dealt)
        log_loss = -block.gold_log_probability()
        columns = [None, correct, log_loss, squared_errors(probabilities, block.labels)]
        if self.intervals:
            columns += costs_of_errors(probabilities, block.labels, correct, log_loss)
            self._costs += square_costs(block)
        for place, values in enumerate(columns):
            self._sums[:, place] += np.bincount(dealt, weights=values, minlength=GROUPS)
        self.rows += len(block)

    def result(self, *, seed: int = 0) -> dict[str, Any]:
        """All values, with intervals if they were asked for, as plain numbers."""
        values, statistics, floors = self.measure(seed)
        result: dict[str, Any] = {"n": self.rows}
        for name, value in values.items():
            result[name] = value
            if name in statistics:
                result[f"{name}_ci"] = list(statistics[name].limits(seed))
            if name == "ece" and isinstance(ece := statistics.get("ece"), ErrorStatistic):
                result["ece_corrected"] = ece.interval(seed).corrected
            if name in floors:
                result[f"{name}_noise_floor"] = floors[name].mean
                result[f"{name}_noise_floor_p95"] = floors[name].p95
        return result | {"notion": self.notion, "bins": self.bins, "closed": self.closed}

    def measure(self, seed: int, *, noise_floor: bool = True) -> Measured:
        """All values of the rows so far; a difference needs no noise floor."""
        if self._classes is None or self._labels is None:
            raise ValueError("no rows to evaluate")
        top = BinaryView(self._joined(self._top), bins=self.bins, closed=self.closed)
        notion = top
        if self.notion == "positive":
            notion = BinaryView(self._joined(self._noted[0]), bins=self.bins, closed=self.closed)
        classes = self._classes.values()
        values = self._average_values(classes)
        values |= self._labels.values()
        values["mean_confidence"] = float(top.width_sums.confidence.sum() / self.rows)
        values["confidence_gap"] = values["mean_confidence"] - values["accuracy"]
        values |= self._classwise_values(classes) if self.notion == "classwise" else notion.values()
        further = self._further_views(notion)
        values |= {name: self._ece_of(view) for name, view in further.items()}
        areas = risk_areas(top.ordered)
        values |= {
            "classwise_ece": classes["ece"],
            "aurc": areas.aurc,
            "e_aurc": areas.e_aurc,
            "augrc": areas.augrc,
        }
        if not self.intervals:
            return values, {}, {}
        statistics = self._average_statistics(top, values) | self._rank_statistics(top, values)
        statistics |= self._labels.statistics()
        statistics["confidence_gap"] = confidence_gap(top.sample)
        for name, view in further.items():
            if isinstance(view, ClassView):
                statistics[name] = view.statistic("ece", top)
            else:
                statistics[name] = view.statistic("ece")
        statistics["classwise_ece"] = self._classes.statistic("ece", top)
        if self.notion == "classwise":
            errors = ("ece", "mce", "rmsce", "oe")
            statistics |= {name: self._classes.statistic(name, top) for name in errors}
            statistics |= ClassView.mass_statistics(self._class_views(), top.mean_gap)
        else:
            statistics |= notion.statistics()
        main = {"ece": self._classes if self.notion == "classwise" else notion}
        floors = self._noise_floors({**main, **further}, seed) if noise_floor else {}
        return values, statistics, floors

    def _further_views(self, notion: BinaryView) -> dict[str, BinaryView | ClassView]:
        """Of every further number of bins: where its ECE is found."""
        names = [f"ece_{bins}_bins" for bins in self.further_bins]
        if self.notion == "classwise":
            return dict(zip(names, self._further, strict=True))
        views = [BinaryView(notion.sample, bins=bins, closed=self.closed) for bins in self.further_bins]
        return dict(zip(names, views, strict=True))

    @staticmethod
    def _ece_of(view: BinaryView | ClassView) -> float:
        return view.values()["ece"] if isinstance(view, ClassView) else expected_error(view.width_sums)

    def _noise_floors(self, views: dict[str, BinaryView | ClassView], seed: int) -> dict[str, NoiseFloor]:
        columns = [self._joined(part) for part in self._noted]
        return {
            name: view.noise_floor(columns, seed) if isinstance(view, ClassView) else view.noise_floor(seed)
            for name, view in views.items()
        }

    @staticmethod
    def _joined(parts: list[ConfidenceSample]) -> ConfidenceSample:
        """One array; the parts are let go, so that the rows are held once."""
        parts[:] = [ConfidenceSample.join(parts)]
        return parts[0]

    def _class_views(self) -> list[BinaryView]:
        return [BinaryView(self._joined(part), bins=self.bins, closed=self.closed) for part in self._noted]

    def _classwise_values(self, classes: dict[str, float]) -> dict[str, float]:
        """The errors of every class's own equal-mass bins are averaged like the others."""
        own = [view.mass_values() for view in self._class_views()]
        return {
            "ece": classes["ece"],
            "adaptive_ece": float(np.mean([one["adaptive_ece"] for one in own])),
            "mce": classes["mce"],
            "rmsce": classes["rmsce"],
            "debiased_rmsce": float(np.sqrt(np.mean([one["debiased_rmsce"] ** 2 for one in own]))),
            "oe": classes["oe"],
        }

    def _average_values(self, classes: dict[str, float]) -> dict[str, float]:
        rows, right, log_loss, squared = self._sums[:, :4].sum(axis=0).tolist()
        return {
            "accuracy": right / rows,
            "nll": log_loss / rows,
            "brier": squared / rows,
            "brier_calibration": classes["brier_calibration"],
            "brier_refinement": max(squared / rows - classes["brier_calibration"], 0.0),
        }

    def _average_statistics(self, top: BinaryView, values: dict[str, float]) -> dict[str, Statistic]:
        assert self._classes is not None
        rows, right, log_loss, squared, log_added, squared_added = self._sums.T
        asked, log_costs, squared_costs = self._costs.tolist()
        squared_jump = np.sqrt(squared_costs / asked)
        found: dict[str, Statistic] = {
            "accuracy": AccuracyStatistic(values["accuracy"], right, rows, high=1.0, outcomes=top.sample),
            "nll": SmoothStatistic(
                values["nll"],
                log_loss,
                rows,
                added=log_added,
                jump=np.sqrt(log_costs / asked),
                log_costs=log_added,
            ),
        }
        brier = SmoothStatistic(
            values["brier"],
            squared,
            rows,
            added=squared_added,
            jump=squared_jump,
            high=2.0,
            log_costs=log_added,
        )
        # Many classes have fewer groups; fold the rows' sums to the same.
        groups = self._classes.groups
        folded = np.zeros((groups, self._sums.shape[1]))
        np.add.at(folded, np.arange(GROUPS) % groups, self._sums)
        calibration = self._classes.statistic("brier_calibration", top)
        found |= {"brier": brier, "brier_calibration": calibration}
        found["brier_refinement"] = SmoothStatistic(
            values["brier_refinement"],
            folded[:, 3] - self._classes.recalibration_influence(),
            folded[:, 0],
            added=folded[:, 5],
            jump=squared_jump,
            # What noise adds to the calibration part cannot be more than the part.
            bias=-min(self._classes.recalibration_bias(), values["brier_calibration"]),
            high=2.0,
            part_of=brier,
            other_part=calibration,
            log_costs=folded[:, 4],
        )
        return found

    def _rank_statistics(self, top: BinaryView, values: dict[str, float]) -> dict[str, Statistic]:
        influence = rank_influence(top.ordered)
        grouped, added = _group_influence(influence, top.sample)
        rows = self._sums[:, 0]
        # A risk after k rows is one after k - 1/2 on average: half a row too much for an error in last place.
        late = {"aurc": (1.0 - values["accuracy"]) / (2.0 * self.rows)}
        return {
            name: SmoothStatistic(
                values[name],
                grouped[:, column],
                rows,
                added=added[:, column],
                jump=RANK_JUMPS[name],
                all_errors=True,
                bias=late.get(name, 0.0),
                high=1.0,
                log_costs=self._sums[:, 4],
                outcomes=top.sample,
            )
            for column, name in enumerate(RANK_METRICS)
        }


def _group_influence(influence: RankInfluence, sample: ConfidenceSample) -> tuple[Floats, Floats]:
    """[groups, rank metrics]: the influences of the rows of each group, and what its errors added."""
    cells = len(influence.table)
    of_errors = np.zeros_like(influence.table)
    of_errors[1::2] = influence.table[1::2] - influence.table[0::2]
    if len(sample) <= GROUPS:  # each row is a group of its own
        cell = influence.cell(sample)
        total, added = np.zeros((2, GROUPS, influence.table.shape[1]))
        total[: len(sample)], added[: len(sample)] = influence.table[cell], of_errors[cell]
        return total, added
    counts = np.zeros(GROUPS * cells, dtype=np.int64)
    for start, block in sample.blocks():
        dealt = deal_rows(start, len(block))
        counts += np.bincount(dealt * cells + influence.cell(block), minlength=GROUPS * cells)
    shared = counts.reshape(GROUPS, cells).astype(np.float64)
    return shared @ influence.table, shared @ of_errors
