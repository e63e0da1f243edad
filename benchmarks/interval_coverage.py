"""How often the 95 % intervals hold the truth: simulated models whose true errors are known.

    python -m benchmarks.interval_coverage [--parts ece,standard,...] [--repetitions 300] [--resume]

    ece               the ECE of binary models, beside the percentile bootstrap, the usual way
    standard          every metric of `evaluate`, binary models with enough errors
    rare_errors       accuracy 0.99 and 0.999
    many_classes      20 and 100 classes
    detection         AUROC, AUPR and FPR@95 of out-of-distribution scores, up to separable ones
    differences       two models on the same rows: coverage, and how often the interval leaves out 0
    rare_differences  likewise for models that rarely disagree or rarely err
    agreement         accuracy, MCC, top-5 accuracy and confidence gap alone, ten times as often

Writes benchmarks/results/interval_coverage.json: coverage and mean width of every cell. The true value of a
metric of a model is in `interval_reference`. Coverages below 0.93 are printed as MISSED. `--before FILE`
takes the coverages of an older version from its results (`--output` writes elsewhere). `--resume` keeps the
cells that are stored with as many repetitions: every cell has its own draws, so the result is the same.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.interval_reference import (
    BINS,
    Detection,
    Pair,
    Population,
    binary_model,
    disagreeing,
    many_classes,
    mixed_scores,
    rare_errors,
    shifted_scores,
    tempered,
)
from calmix.calibration.evaluation import RunningEvaluation
from calmix.calibration.metrics.ood import metrics_of_counts
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.confidence_sample import ConfidenceSample
from calmix.calibration.uncertainty.intervals import bootstrap_calibration_error, calibration_error_interval
from calmix.calibration.uncertainty.measured_value import AccuracyStatistic, difference_limits
from calmix.calibration.uncertainty.ood_intervals import detection_metrics
from calmix.calibration.uncertainty.random_groups import deal_rows
from calmix.calibration.uncertainty.views.binary import BinaryView
from calmix.calibration.uncertainty.views.labels import LabelView, confidence_gap

SIZES = (500, 2_000, 10_000)
ERRORS = (0.0, 0.01, 0.05)
LEAST = 0.93
# Metrics whose intervals take most of the time are looked at in every third repetition.
SLOW, SLOW_EVERY = ("smooth_ece", "ks"), 3
DIFFERENCES = ("accuracy", "nll", "brier", "ece", "aurc")
RESULTS = Path(__file__).parent / "results" / "interval_coverage.json"

Row = dict[str, Any]
# What names a cell in the results, and what measures it with so many repetitions.
Cell = tuple[Row, Callable[[int], Row]]
Limits = Mapping[str, tuple[float, float]]


class Tally:
    """How often intervals held the truth, missed it on either side, how wide they were, and whether they left
    out 0."""

    def __init__(self) -> None:
        self.counts: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, limits: Limits, truth: Mapping[str, float]) -> None:
        for name, (low, high) in limits.items():
            below, above = truth[name] < low - 1e-9, truth[name] > high + 1e-9
            seen = [not (below or above), below, above, high - low, not low <= 0.0 <= high, 1.0]
            self.counts[name] = self.counts.get(name, np.zeros(6)) + np.array(seen, dtype=float)

    def row(self, *, differences: bool = False) -> Row:
        means = {name: count / count[-1] for name, count in self.counts.items()}
        places = {"coverage": 0, "truth_below": 1, "truth_above": 2, "mean_width": 3}
        if differences:
            places["leaves_out_zero"] = 4
        return {
            key: {name: float(f"{mean[place]:.4g}") for name, mean in means.items()}
            for key, place in places.items()
        }


def generator_of(*parts: object) -> np.random.Generator:
    """Its own draws for every cell, whatever else is run."""
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def measured(predictions: Predictions) -> dict[str, Any]:
    evaluation = RunningEvaluation(bins=BINS)
    evaluation.update(predictions)
    return evaluation.measure(0, noise_floor=False)[1]


def cover(population: Population, size: int, repetitions: int) -> Row:
    """Every metric of one model at one sample size."""
    generator, tally, truth = generator_of(population.name, size), Tally(), population.truth
    for repetition in range(repetitions):
        predictions = population.sample(size, generator)
        found = measured(predictions)
        true = truth.values
        if repetition % SLOW_EVERY:
            found = {name: one for name, one in found.items() if name not in SLOW}
        else:
            sample = ConfidenceSample.pack(predictions.confidence(), predictions.correct())
            bandwidth = BinaryView(sample, bins=BINS, closed="right").smooth.bandwidth
            true = true | {"smooth_ece": truth.smooth(bandwidth)}
        tally.add({name: one.limits(0) for name, one in found.items()}, true)
    return tally.row()


def cover_pair(pair: Pair, size: int, repetitions: int) -> Row:
    generator, tally, truth = generator_of(pair.name, size), Tally(), pair.truth
    for _ in range(repetitions):
        first, second = (measured(model) for model in pair.sample(size, generator))
        limits = {name: difference_limits(first[name], second[name], 0) for name in DIFFERENCES}
        tally.add(limits, truth)
    true = {name: float(f"{truth[name]:.3g}") for name in DIFFERENCES}
    return {"true_difference": true, **tally.row(differences=True)}


def cover_detection(detection: Detection, sizes: tuple[int, int], repetitions: int) -> Row:
    # The AUPR depends on how many rows there are of either kind.
    many = [1_000_000 * size // max(sizes) for size in sizes]
    inside, outside = detection.draw(many[0], many[1], np.random.default_rng(5))
    order = np.argsort(-np.concatenate([inside, outside]))
    familiar = (order < len(inside)).astype(np.int64)
    truth = metrics_of_counts(familiar, 1 - familiar)
    generator, tally = generator_of(detection.name, sizes), Tally()
    for repetition in range(repetitions):
        found = detection_metrics(*detection.draw(*sizes, generator), repetitions=100, seed=repetition)
        limits = {name: tuple(found[f"{name}_ci"]) for name in truth}  # type: ignore[arg-type]
        tally.add(limits, truth)  # type: ignore[arg-type]
    true = {name: float(f"{value:.4g}") for name, value in truth.items()}
    return {"true": true, **tally.row()}


def cover_agreement(population: Population, size: int, repetitions: int) -> Row:
    """Metrics of predicted and true classes: cheap, so that noise of the simulation can be made small."""
    generator, tally = generator_of("agreement", population.name, size), Tally()
    for _ in range(10 * repetitions):
        predictions = population.sample(size, generator)
        confidence, correct = predictions.confidence(), predictions.correct()
        sample = ConfidenceSample.pack(confidence, correct)
        view = LabelView(predictions.classes, grouped=True)
        view.update(predictions, confidence, correct, deal_rows(0, size))
        found = view.statistics() | {"confidence_gap": confidence_gap(sample)}
        found["accuracy"] = AccuracyStatistic(
            float(correct.mean()), view.right, view.labels.sum(axis=1), high=1.0, outcomes=sample
        )
        tally.add({name: one.limits(0) for name, one in found.items()}, population.truth.values)
    return {"repetitions": 10 * repetitions, **tally.row()}


def cover_ece(population: Population, shape: str, error: float, size: int, repetitions: int) -> Row:
    """The ECE by itself, and the percentile bootstrap in a tenth of the repetitions."""
    truth = {"ece": population.truth.values["ece"]}
    generator, tally, usual = generator_of("ece", shape, error, size), Tally(), Tally()
    corrected = []
    for repetition in range(repetitions):
        drawn = population.sample(size, generator)
        rows = drawn.confidence(), drawn.correct()
        found = calibration_error_interval(*rows, bins=BINS, seed=repetition)
        corrected.append(found.corrected)
        tally.add({"ece": (found.low, found.high)}, truth)
        if repetition < max(repetitions // 10, 20):
            repeated = bootstrap_calibration_error(*rows, bins=BINS, repetitions=200, seed=repetition)
            low, high = np.quantile(repeated, [0.025, 0.975])
            usual.add({"ece": (low, high)}, truth)
    return {
        "true_ece": round(truth["ece"], 5),
        "mean_corrected": round(float(np.mean(corrected)), 5),
        "percentile_bootstrap_coverage": usual.row()["coverage"]["ece"],
        **tally.row(),
    }


def cell(model: Population, size: int) -> Cell:
    return {"model": model.name, "n": size}, partial(cover, model, size)


def cell_of_pair(pair: Pair, size: int) -> Cell:
    return {"models": pair.name, "n": size}, partial(cover_pair, pair, size)


def ece() -> Iterator[Cell]:
    for shape in ("everywhere", "one_bin", "alternating", "saturated"):
        for error in ERRORS:
            if error == 0.0 and shape in ("one_bin", "alternating"):
                continue  # without a gap these are the first shape
            population = binary_model(shape, error)
            for size in SIZES:
                yield (
                    {"model": population.name, "n": size},
                    partial(cover_ece, population, shape, error, size),
                )


def standard() -> Iterator[Cell]:
    for shape in ("everywhere", "saturated"):
        for error in ERRORS:
            population = binary_model(shape, error)
            yield from (cell(population, size) for size in SIZES)


def rare() -> Iterator[Cell]:
    for shape in ("constant", "calibrated", "overconfident"):
        for accuracy in (0.99, 0.999):
            population = rare_errors(shape, accuracy)
            yield from (cell(population, size) for size in (100, 500, 2_000))


def classes() -> Iterator[Cell]:
    for count in (20, 100):
        for temperature in (1.0, 1.5):
            population = many_classes(count, temperature)
            yield from (cell(population, size) for size in (100, 500, 2_000))


def detection() -> Iterator[Cell]:
    # AUROC = Phi(distance / sqrt(2)).
    scores = [shifted_scores(distance) for distance in (1.190, 2.326, 4.070, 20.0)]
    for one in (*scores, mixed_scores(0.004), mixed_scores(0.1)):
        for sizes in ((100, 100), (500, 500), (1_000, 100)):
            yield {"scores": one.name, "n": list(sizes)}, partial(cover_detection, one, sizes)


def differences() -> Iterator[Cell]:
    for error, moved in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.03), (0.0, 0.02)):
        pair = disagreeing(binary_model("everywhere", error), 0.05, 0.05, moved)
        yield from (cell_of_pair(pair, size) for size in (500, 2_000))


def rare_differences() -> Iterator[Cell]:
    sure = rare_errors("calibrated", 0.99)
    pairs = [
        disagreeing(binary_model("everywhere", 0.0), 0.0, 0.01),
        disagreeing(binary_model("everywhere", 0.05), 0.005, 0.005, 0.03),
        disagreeing(sure, 0.0, 0.005),
        disagreeing(sure, 0.005, 0.005),
        tempered(2, 1.5),
        tempered(20, 1.5),
    ]
    for pair in pairs:
        yield from (cell_of_pair(pair, size) for size in (100, 1_000))


def agreement() -> Iterator[Cell]:
    binary = [binary_model(shape, error) for shape in ("everywhere", "saturated") for error in ERRORS]
    rarely = [rare_errors(shape, 0.99) for shape in ("constant", "calibrated", "overconfident")]
    for population, sizes in (
        *((one, SIZES) for one in binary),
        *((one, (100, 500, 2_000)) for one in (*rarely, many_classes(20, 1.0), many_classes(20, 1.5))),
    ):
        for size in sizes:
            yield {"model": population.name, "n": size}, partial(cover_agreement, population, size)


PARTS: dict[str, Callable[[], Iterator[Cell]]] = {
    "rare_errors": rare,
    "detection": detection,
    "rare_differences": rare_differences,
    "many_classes": classes,
    "differences": differences,
    "standard": standard,
    "ece": ece,
    "agreement": agreement,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    started = time.time()
    for part in arguments.parts.split(","):
        stored = stored_rows(arguments.output, part, arguments.repetitions) if arguments.resume else []
        rows: list[Row] = []
        for name, measure in PARTS[part]():
            kept = [row for row in stored if name.items() <= row.items()]
            rows.append(kept[0] if kept else name | measure(arguments.repetitions))
            coverage = rows[-1]["coverage"]
            said = "; ".join(f"{metric} {value:g}" for metric, value in coverage.items())
            print(f"{part}: {next(iter(name.values()))}, n = {name['n']}: {said}", flush=True)
            for metric, value in coverage.items():
                if value < LEAST:
                    print(f"MISSED {part}: {metric} {value:g}", flush=True)
            save(arguments.output, part, arguments.repetitions, rows, before.get(part))
    print(f"{time.time() - started:.0f} s, written to {arguments.output}")


def stored_rows(path: Path, part: str, repetitions: int) -> list[Row]:
    found = json.loads(path.read_text()).get(part, {}) if path.exists() else {}
    return found.get("rows", []) if found.get("repetitions") == repetitions else []


def save(path: Path, part: str, repetitions: int, rows: list[Row], before: Row | None) -> None:
    """Put one part into the results, beside the others."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    names = sorted({name for row in rows for name in row["coverage"]})
    lowest = {name: min(row["coverage"].get(name, 1.0) for row in rows) for name in names}
    kept = before or stored.get(part, {})
    below = [
        {key: row[key] for key in ("model", "models", "scores", "n") if key in row} | {name: value}
        for row in rows
        for name, value in row["coverage"].items()
        if value < LEAST
    ]
    # Some of hundreds of cells fall below by chance: `agreement` has ten times the repetitions.
    for cell in below:
        for again in stored.get("agreement", {}).get("rows", []):
            if part != "agreement" and (again["model"], again["n"]) == (cell.get("model"), cell["n"]):
                cell["in_agreement"] = {
                    name: again["coverage"][name] for name in cell if name in again["coverage"]
                }
    stored["level"] = 0.95
    stored["command"] = "python -m benchmarks.interval_coverage --repetitions N --parts PART"
    stored[part] = {
        "repetitions": repetitions,
        # Of a coverage of 0.95, by the number of repetitions; `below` are cells under 0.93.
        "standard_error": round((0.95 * 0.05 / repetitions) ** 0.5, 4),
        "lowest_coverage": lowest,
        "below": below,
        "rows": rows,
    }
    if before:
        stored[part]["before"] = {
            "repetitions": before["repetitions"],
            "lowest_coverage": before["lowest_coverage"],
            "coverage": [row["coverage"] for row in before["rows"]],
        }
    elif "before" in kept:
        stored[part]["before"] = kept["before"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
