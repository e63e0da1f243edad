"""How often the 95 % intervals hold the truth: simulated models whose true errors are known.

    python benchmarks/interval_coverage.py [--repetitions 1000] [--all-repetitions 150]

Binary models with confidence c in [0.5, 1] and true accuracy a(c) = c - gap(c). The gap is chosen so that the
true ECE is 0, 0.01 or 0.05 and is spread in different ways over the confidences:

    everywhere    overconfident by the same amount at every confidence
    one_bin       all of it in one bin
    alternating   over- and underconfident in turn, bin by bin
    saturated     overconfident everywhere, and most confidences close to 1 (a typical fine-tuned network)

The percentile bootstrap, the usual way, is measured beside it. Writes
benchmarks/results/interval_coverage.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.binary_view import BinaryView
from calmix.calibration.binning import assign_bins
from calmix.calibration.confidence_sample import ConfidenceSample
from calmix.calibration.evaluation import Evaluation
from calmix.calibration.intervals import bootstrap_calibration_error, calibration_error_interval
from calmix.calibration.predictions import Predictions
from calmix.calibration.risk_coverage import best_aurc
from calmix.calibration.smooth import smooth_error_of_points
from calmix.calibration.statistics import difference_limits

BINS = 15
SIZES = (500, 2_000, 10_000)
ERRORS = (0.0, 0.01, 0.05)
POPULATION = 2_000_000
RESULTS = Path(__file__).parent / "results" / "interval_coverage.json"


def even_confidence(rows: int, generator: np.random.Generator) -> np.ndarray:
    return 1.0 - 0.5 * generator.beta(1.0, 2.5, rows)


def saturated_confidence(rows: int, generator: np.random.Generator) -> np.ndarray:
    return 1.0 - 0.5 * generator.beta(0.25, 2.5, rows)


@dataclass(frozen=True)
class Model:
    """A population of confidences and how often each comes true."""

    shape: str
    error: float

    @property
    def draw(self) -> Callable[[int, np.random.Generator], np.ndarray]:
        return saturated_confidence if self.shape == "saturated" else even_confidence

    def accuracy(self, confidence: np.ndarray) -> np.ndarray:
        placed = assign_bins(confidence, BINS)
        if self.shape == "one_bin":
            # Bin 11 of 15 holds a share of the rows that is computed once from the population.
            gap = np.where(placed == 11, self.error / share_of_bin(11), 0.0)
        elif self.shape == "alternating":
            gap = np.where(placed % 2 == 0, self.error, -self.error)
        else:
            gap = np.full_like(confidence, self.error)
        return np.clip(confidence - gap, 0.0, 1.0)

    def sample(self, rows: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        confidence = self.draw(rows, generator)
        return confidence, generator.random(rows) < self.accuracy(confidence)


_SHARES: dict[int, float] = {}


def share_of_bin(place: int) -> float:
    if place not in _SHARES:
        confidence = even_confidence(POPULATION, np.random.default_rng(1))
        _SHARES[place] = float((assign_bins(confidence, BINS) == place).mean())
    return _SHARES[place]


def true_ece(model: Model) -> float:
    confidence = model.draw(POPULATION, np.random.default_rng(2))
    gap = model.accuracy(confidence) - confidence
    return float(np.abs(np.bincount(assign_bins(confidence, BINS), weights=gap)).sum() / POPULATION)


def ece_coverage(repetitions: int) -> list[dict[str, Any]]:
    """Coverage and mean width of the interval of the ECE, and of the percentile bootstrap."""
    rows: list[dict[str, Any]] = []
    for shape in ("everywhere", "one_bin", "alternating", "saturated"):
        for error in ERRORS:
            if error == 0.0 and shape in ("one_bin", "alternating"):
                continue  # without a gap these are the first shape
            model = Model(shape, error)
            truth = true_ece(model)
            for size in SIZES:
                generator = np.random.default_rng([7, size, round(1000 * error), len(rows)])
                held = below = above = percentile_held = 0
                width = corrected = plug_in = 0.0
                percentile_runs = max(repetitions // 10, 20)
                for repetition in range(repetitions):
                    confidence, correct = model.sample(size, generator)
                    found = calibration_error_interval(confidence, correct, bins=BINS, seed=repetition)
                    held += found.low <= truth <= found.high
                    below += truth < found.low
                    above += truth > found.high
                    width += found.high - found.low
                    corrected += found.corrected
                    if repetition < percentile_runs:
                        repeated = bootstrap_calibration_error(
                            confidence, correct, bins=BINS, repetitions=200, seed=repetition
                        )
                        low, high = np.quantile(repeated, [0.025, 0.975])
                        percentile_held += low <= truth <= high
                        plug_in += float(
                            np.abs(
                                np.bincount(assign_bins(confidence, BINS), weights=correct - confidence)
                            ).sum()
                            / size
                        )
                rows.append(
                    {
                        "shape": shape,
                        "true_ece": round(truth, 5),
                        "n": size,
                        "coverage": held / repetitions,
                        "missed_below": below / repetitions,
                        "missed_above": above / repetitions,
                        "mean_width": round(width / repetitions, 5),
                        "mean_corrected": round(corrected / repetitions, 5),
                        "mean_plug_in": round(plug_in / percentile_runs, 5),
                        "percentile_bootstrap_coverage": float(percentile_held / percentile_runs),
                    }
                )
                print(rows[-1], flush=True)
    return rows


def as_predictions(confidence: np.ndarray, correct: np.ndarray, predicted: np.ndarray) -> Predictions:
    """Two classes: the predicted one has the confidence."""
    probabilities = np.empty((len(confidence), 2))
    probabilities[np.arange(len(confidence)), predicted] = confidence
    probabilities[np.arange(len(confidence)), 1 - predicted] = 1.0 - confidence
    return Predictions.from_probabilities(probabilities, np.where(correct, predicted, 1 - predicted))


class Truths:
    """What the metrics of an infinitely large sample would be: expectations, not draws."""

    def __init__(self, model: Model) -> None:
        generator = np.random.default_rng(3)
        confidence = np.sort(model.draw(POPULATION, generator))[::-1]
        accuracy = model.accuracy(confidence)
        n = len(confidence)
        errors = np.cumsum(1.0 - accuracy)
        rank = np.arange(1, n + 1)
        risk = float((1.0 - accuracy).mean())
        gap = accuracy - confidence
        placed = assign_bins(confidence, BINS)
        share = np.bincount(placed, minlength=BINS) / n
        by_bin = np.bincount(placed, weights=gap, minlength=BINS) / n
        mean = np.bincount(placed, weights=confidence, minlength=BINS) / n / np.maximum(share, 1e-300)
        held = share > 0
        mass = np.array([part.sum() for part in np.array_split(gap, BINS)]) / n
        self.values = {
            "accuracy": 1.0 - risk,
            "nll": float(
                -(
                    accuracy * np.log(confidence)
                    + (1 - accuracy) * np.log1p(-np.minimum(confidence, 1 - 1e-16))
                ).mean()
            ),
            "brier": float(2 * (accuracy * (1 - confidence) ** 2 + (1 - accuracy) * confidence**2).mean()),
            "ece": float(np.abs(by_bin).sum()),
            "rmsce": float(np.sqrt((by_bin[held] ** 2 / share[held]).sum())),
            "mce": float(np.abs(by_bin[held] / share[held]).max()),
            "oe": float((mean[held] * np.maximum(-by_bin[held], 0)).sum()),
            "adaptive_ece": float(np.abs(mass).sum()),
            "debiased_rmsce": float(np.sqrt((mass**2 * BINS).sum())),
            "ks": float(np.abs(np.cumsum(gap[::-1])).max() / n),  # from the least confident up
            "aurc": float((errors / rank).mean()),
            "augrc": float(errors.mean() / n),
        }
        self.values["e_aurc"] = self.values["aurc"] - best_aurc(n, round(risk * n))
        # Both classes are predicted equally often: a class has p = c or 1 - c, with half the weight each.
        both = np.concatenate([confidence, 1.0 - confidence])
        both_gap = np.concatenate([gap, -gap]) / (2 * n)
        by_class = np.bincount(assign_bins(both, BINS), weights=both_gap, minlength=BINS)
        class_share = np.bincount(assign_bins(both, BINS), minlength=BINS) / (2 * n)
        self.values["classwise_ece"] = float(np.abs(by_class).sum())
        self.values["brier_calibration"] = float(2 * (by_class**2 / np.maximum(class_share, 1e-12)).sum())
        self.values["brier_refinement"] = self.values["brier"] - self.values["brier_calibration"]
        grid = 4001
        cell = np.minimum((confidence * (grid - 1)).astype(int), grid - 1)
        self._residual = np.bincount(cell, weights=-gap, minlength=grid)
        self._mass = np.bincount(cell, minlength=grid).astype(float)
        self._points = (np.arange(grid) + 0.5).clip(max=grid - 1) / (grid - 1)

    def smooth(self, bandwidth: float) -> float:
        return smooth_error_of_points(self._points, self._residual, self._mass, bandwidth=bandwidth).error


def coverage_of_all(repetitions: int) -> list[dict[str, Any]]:
    """Coverage of the interval of every metric that `evaluate` reports."""
    rows = []
    for shape in ("everywhere", "saturated"):
        for error in ERRORS:
            model, truths = Model(shape, error), Truths(Model(shape, error))
            for size in SIZES:
                generator = np.random.default_rng([8, size, round(1000 * error)])
                held: dict[str, int] = {}
                for repetition in range(repetitions):
                    confidence, correct = model.sample(size, generator)
                    predicted = generator.integers(0, 2, size)
                    evaluation = Evaluation(bins=BINS)
                    evaluation.update(as_predictions(confidence, correct, predicted))
                    statistics = evaluation.measure(repetition)[1]
                    view = BinaryView(ConfidenceSample.pack(confidence, correct), bins=BINS, edges="right")
                    truth = truths.values | {"smooth_ece": truths.smooth(view.smooth.bandwidth)}
                    for name, statistic in statistics.items():
                        low, high = statistic.limits(repetition)
                        held[name] = held.get(name, 0) + (low - 1e-12 <= truth[name] <= high + 1e-12)
                coverage = {name: round(count / repetitions, 4) for name, count in held.items()}
                rows.append(
                    {
                        "shape": shape,
                        "true_ece": round(truths.values["ece"], 5),
                        "n": size,
                        "coverage": coverage,
                    }
                )
                print(rows[-1], flush=True)
    return rows


def coverage_of_differences(repetitions: int) -> list[dict[str, Any]]:
    """Coverage of the paired interval of the difference of two models on the same rows.

    The second model gives the first one's answers with its confidence moved: on the same rows, same errors.
    """
    rows = []
    for first_error, moved in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.03), (0.0, 0.02)):
        for size in SIZES:
            model = Model("everywhere", first_error)
            population = model.draw(POPULATION, np.random.default_rng(4))
            truth = _moved_truth(population, model, moved)
            generator = np.random.default_rng([9, size, round(1000 * first_error), round(1000 * moved)])
            names = ("ece", "adaptive_ece", "nll", "brier", "aurc", "accuracy")
            held = dict.fromkeys(names, 0)
            for repetition in range(repetitions):
                confidence, correct = model.sample(size, generator)
                second = _moved(confidence, moved)
                predicted = generator.integers(0, 2, size)
                # A tenth of the answers differ: the second model's coin on those rows.
                other = generator.random(size) < 0.1
                second_correct = np.where(other, generator.random(size) < model.accuracy(confidence), correct)
                measured = []
                for sure, right in ((confidence, correct), (second, second_correct)):
                    one = Evaluation(bins=BINS)
                    one.update(as_predictions(sure, right, predicted))
                    measured.append(one.measure(repetition)[1])
                for name in names:
                    low, high = difference_limits(measured[0][name], measured[1][name], repetition)
                    held[name] += low - 1e-12 <= truth[name] <= high + 1e-12
            coverage = {name: round(count / repetitions, 4) for name, count in held.items()}
            rows.append({"first_error": first_error, "moved": moved, "n": size, "coverage": coverage})
            print(rows[-1], flush=True)
    return rows


def _moved(confidence: np.ndarray, by: float) -> np.ndarray:
    return np.clip(confidence - by, 0.5, 1.0)


def _moved_truth(population: np.ndarray, model: Model, moved: float) -> dict[str, float]:
    accuracy = model.accuracy(population)
    values = []
    for confidence in (population, _moved(population, moved)):
        order = np.argsort(-confidence, kind="stable")
        gap = (accuracy - confidence)[order]
        placed = assign_bins(confidence[order], BINS)
        risk = np.cumsum((1 - accuracy)[order]) / np.arange(1, len(order) + 1)
        values.append(
            {
                "ece": np.abs(np.bincount(placed, weights=gap)).sum() / len(order),
                "adaptive_ece": sum(abs(part.sum()) for part in np.array_split(gap, BINS)) / len(order),
                "nll": -(
                    accuracy * np.log(confidence)
                    + (1 - accuracy) * np.log1p(-np.minimum(confidence, 1 - 1e-16))
                ).mean(),
                "brier": 2 * (accuracy * (1 - confidence) ** 2 + (1 - accuracy) * confidence**2).mean(),
                "aurc": risk.mean(),
                "accuracy": accuracy.mean(),
            }
        )
    return {name: float(values[0][name] - values[1][name]) for name in values[0]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--all-repetitions", type=int, default=150)
    parser.add_argument("--parts", default="ece,all_metrics,differences")
    arguments = parser.parse_args()
    started = time.time()
    measures = {
        "ece": (ece_coverage, arguments.repetitions),
        "all_metrics": (coverage_of_all, arguments.all_repetitions),
        "differences": (coverage_of_differences, arguments.all_repetitions),
    }
    for part in arguments.parts.split(","):
        measure, repetitions = measures[part]
        save(part, repetitions, measure(repetitions))
    print(f"{time.time() - started:.0f} s, written to {RESULTS}")


def save(part: str, repetitions: int, rows: list[dict[str, Any]]) -> None:
    """Put one part into the results, beside the others."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    lowest: dict[str, float] = {}
    for row in rows:
        named = row["coverage"] if isinstance(row["coverage"], dict) else {"ece": row["coverage"]}
        for name, coverage in named.items():
            lowest[name] = min(lowest.get(name, 1.0), coverage)
    stored["level"] = 0.95
    stored[part] = {"repetitions": repetitions, "lowest_coverage": lowest, "rows": rows}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
