"""Class weights 1:20 and balanced sampling on SST-2 with one negative row in 21: scores with and without the
prior correction, beside plain training.

    python results/class_weights/experiment.py --data DIR_WITH_sst2 --runs DIR   # trains; minutes
    python results/class_weights/experiment.py --data DIR_WITH_sst2 --runs DIR --only-table

Intervals: 95 % percentile bootstrap over the test rows, the same rows for all seeds and arms (2,000
resamples); a number is the mean over the seeds.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory
from calmix.training.targets.prior_correction import with_shift

SIZES = {"train": 3000, "validation": 1000, "test": 4000}
RARE, WEIGHT, SEEDS = "negative", 20, (0, 1, 2)
ARMS = {
    "plain": {},
    "class weights 1:20": {"class_weights": f"{RARE}={WEIGHT}"},
    "balanced sampling": {"sampling": "balanced"},
}
SHARED = {"freeze_layers": 4, "epochs": 5, "learning_rate": 2e-4, "threads": 1}
RESAMPLES = 2000


def write_splits(data: Path, place: Path) -> dict[str, Path]:
    """Three files with one rare row in 21, drawn from the training rows without replacement."""
    with gzip.open(data / "sst2" / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    generator = np.random.default_rng(22)
    by_class = {
        is_rare: [rows[i] for i in generator.permutation(len(rows)) if (rows[i]["label"] == RARE) == is_rare]
        for is_rare in (True, False)
    }
    files = {}
    for name, size in SIZES.items():
        rare = round(size / (WEIGHT + 1))
        part = [by_class[True].pop() for _ in range(rare)]
        part += [by_class[False].pop() for _ in range(size - rare)]
        files[name] = place / f"{name}.jsonl"
        files[name].write_text("\n".join(json.dumps(part[i]) for i in generator.permutation(size)) + "\n")
    return files


def train_arms(files: dict[str, Path], place: Path) -> None:
    import calmix

    for seed in SEEDS:
        for arm, options in ARMS.items():
            output = place / f"{arm.replace(' ', '_').replace(':', '_')}-{seed}"
            if not (output / "metrics.json").is_file():
                settings = {**SHARED, **options, "seed": seed}
                calmix.train(
                    str(files["train"]),
                    validation=str(files["validation"]),
                    test=str(files["test"]),
                    output=str(output),
                    **settings,
                )


def scores_of(place: Path, arm: str) -> dict[str, list[Predictions]]:
    """Of every seed: the test predictions, uncorrected and corrected, raw and temperature-scaled."""
    found: dict[str, list[Predictions]] = {}
    for seed in SEEDS:
        run = RunDirectory(place / f"{arm.replace(' ', '_').replace(':', '_')}-{seed}")
        facts = run.metrics().get("prior_correction")
        splits = {name: predictions_of_run(run, name) for name in ("validation", "test")}
        stages = {"corrected": splits} if facts else {"raw": splits}
        if facts:
            shift = np.array(list(facts["log_shift"].values()))
            stages = {
                "uncorrected": {name: with_shift(part, shift) for name, part in splits.items()}
            } | stages
        for stage, parts in stages.items():
            held = parts["validation"]
            temperature = TemperatureScaling().fit(held.values, held.labels).temperature_
            found.setdefault(stage, []).append(parts["test"])
            found.setdefault(f"{stage} + TS", []).append(parts["test"].with_temperature(temperature))
    return found


def row_values(predictions: Predictions) -> dict[str, np.ndarray]:
    rare = predictions.class_names.index(RARE)
    return {
        "nll": -predictions.gold_log_probability(),
        "confidence": predictions.confidence(),
        "correct": predictions.correct().astype(float),
        "found": (predictions.predicted() == rare).astype(float),
        "is_rare": (predictions.labels == rare).astype(float),
        "probability": predictions.probabilities()[:, rare],
    }


def measures(values: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """NLL, ECE, accuracy, recall of the rare class, mean score of the rare class minus its share."""
    part = {name: column[rows] for name, column in values.items()}
    rare = part["is_rare"] == 1
    return np.array(
        [
            part["nll"].mean(),
            expected_calibration_error(part["confidence"], part["correct"]),
            part["correct"].mean(),
            part["found"][rare].mean(),
            part["probability"].mean() - part["is_rare"].mean(),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--small", action="store_true", help="one seed, 420 training rows, 3 epochs")
    given = parser.parse_args()
    if given.small:
        global SEEDS
        SIZES.update(train=420, validation=420, test=630)
        SHARED["epochs"], SEEDS = 3, (0,)
    given.runs.mkdir(parents=True, exist_ok=True)
    if not given.only_table:
        train_arms(write_splits(given.data, given.runs), given.runs)
    generator = np.random.default_rng(0)
    resamples = [generator.integers(SIZES["test"], size=SIZES["test"]) for _ in range(RESAMPLES)]
    whole = np.arange(SIZES["test"])
    titles = ("NLL", "ECE %", "accuracy %", "recall of the rare class %", "mean score − share, rare class, %")
    scale = np.array([1, 100, 100, 100, 100])
    lines = ["| arm | scores | " + " | ".join(titles) + " |", "|:---|:---|" + "---:|" * len(titles)]
    kept: dict[tuple[str, str], np.ndarray] = {}
    for arm in ARMS:
        for stage, predictions in scores_of(given.runs, arm).items():
            values = [row_values(one) for one in predictions]
            mean = np.mean([measures(one, whole) for one in values], axis=0) * scale
            drawn = np.array(
                [np.mean([measures(one, rows) for one in values], axis=0) * scale for rows in resamples]
            )
            kept[arm, stage] = drawn
            low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
            digits = (3, 2, 1, 1, 2)
            cells = [
                f"{m:.{d}f} [{lo:.{d}f}, {hi:.{d}f}]"
                for m, lo, hi, d in zip(mean, low, high, digits, strict=True)
            ]
            lines.append(f"| {arm} | {stage} | " + " | ".join(cells) + " |")
    print("\n".join(lines))
    print("\nPaired differences of NLL and ECE (points), 95 % bootstrap over test rows:\n")
    for arm in list(ARMS)[1:]:
        for first, second in (
            ((arm, "corrected"), (arm, "uncorrected")),
            ((arm, "corrected + TS"), (arm, "uncorrected + TS")),
            ((arm, "corrected + TS"), ("plain", "raw + TS")),
        ):
            difference = kept[first] - kept[second]
            low, high = np.percentile(difference, [2.5, 97.5], axis=0)
            print(
                f"- {arm}: {first[1]} − {second[0]}, {second[1]}: "
                f"NLL [{low[0]:+.3f}, {high[0]:+.3f}], ECE [{low[1]:+.2f}, {high[1]:+.2f}]"
            )


if __name__ == "__main__":
    main()
