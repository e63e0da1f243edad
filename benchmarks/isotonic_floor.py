"""What should keep isotonic calibration from saying 0 or 1?

    python -m benchmarks.isotonic_floor [--data-dir DIR] [--cache FILE.npz]

Logits of cheap classifiers on real texts and images (`benchmarks/_real_logits.py`), and a nearly perfect
and a noisy, calibrated classifier of 100 classes. Fitted on n rows, tested on up to 4,000 others: NLL and
ECE (15 bins), means over the classifiers.

    none          scikit-learn's result (probabilities of 0 count as 1e-15)
    floor 1/(n+2) every curve within [1/(n+2), 1 - 1/(n+2)]: caps the confidence at 1/(1 + C/n)
    floor / (C-1) the same, divided among the other classes
    uniform       1/(n+2) of the uniform distribution mixed in
    temperature   a share of the temperature-scaled probabilities mixed in
    by count      a share of max(C/n, n^(-1/3)) of them, at most 1/2
    calmix        at least that share, and so much as suits rows left out in five-fold cross-validation

With `--data-dir` it writes `benchmarks/results/isotonic_floor.json`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from benchmarks._real_logits import Logits, add_source_options, real_logits
from calmix.calibration.calibrators.isotonic import IsotonicCalibration, least_share, log_odds
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "isotonic_floor.json"
SIZES = (200, 500, 1000, 2000)
TEST_ROWS = 4000


def perfect() -> Logits:
    """The label's logit is 12 above the others, which are noise of deviation 1."""
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 100, 12_000)
    logits = generator.normal(size=(len(labels), 100))
    logits[np.arange(len(labels)), labels] += 12
    return Logits("perfect_100", logits, labels)


def noisy() -> Logits:
    """Calibrated logits of which one stands out, by 5 on average: half of the predictions are wrong."""
    generator = np.random.default_rng(6)
    logits = generator.normal(size=(12_000, 100))
    chosen = generator.integers(0, 100, len(logits))
    logits[np.arange(len(logits)), chosen] += generator.normal(5, 2, len(logits))
    return Logits("noisy_100", logits, (logits + generator.gumbel(size=logits.shape)).argmax(axis=1))


def curves(logits: np.ndarray, labels: np.ndarray, fresh: np.ndarray, floor: float) -> np.ndarray:
    """One curve against the rest for every class, within the floor, divided by their sum."""
    known, new = log_odds(logits), log_odds(fresh)
    values = np.empty_like(new)
    for k in range(new.shape[1]):
        curve = IsotonicRegression(y_min=floor, y_max=1 - floor, out_of_bounds="clip")
        values[:, k] = curve.fit(known[:, k], labels == k).predict(new[:, k])
    values[values.sum(axis=1) == 0] = 1.0
    return values / values.sum(axis=1, keepdims=True)


def candidates(logits: np.ndarray, labels: np.ndarray, fresh: np.ndarray) -> dict[str, np.ndarray]:
    rows, classes = logits.shape
    bare = curves(logits, labels, fresh, 0.0)
    scaled = TemperatureScaling().fit(logits, labels).predict_proba(fresh)
    part = 1 / (rows + 2)
    shares = {"0.02": 0.02, "0.1": 0.1, "n^(-1/3)": rows ** (-1 / 3), "C/n": min(classes / rows, 0.5)}
    return {
        "none": bare,
        "floor 1/(n+2)": curves(logits, labels, fresh, part),
        "floor / (C-1)": curves(logits, labels, fresh, part / (classes - 1)),
        "uniform": (1 - part) * bare + part / classes,
        **{f"temperature {name}": (1 - u) * bare + u * scaled for name, u in shares.items()},
        "by count": (1 - least_share(rows, classes)) * bare + least_share(rows, classes) * scaled,
        "calmix": IsotonicCalibration().fit(logits, labels).predict_proba(fresh),
        "temperature alone": scaled,
    }


def measure(pool: Logits, rows: int) -> dict[str, Any]:
    order = np.random.default_rng(rows).permutation(len(pool.labels))
    known, new = order[:rows], order[rows:][:TEST_ROWS]
    labels = pool.labels[new]
    found = candidates(pool.logits[known], pool.labels[known], pool.logits[new])
    scores = {}
    for name, probabilities in found.items():
        gold = np.maximum(probabilities[np.arange(len(labels)), labels], 1e-15)
        confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
        ece = expected_calibration_error(np.minimum(confidence, 1.0), correct)
        scores[name] = {"nll": float(-np.log(gold).mean()), "ece": float(ece)}
    return {"classifier": pool.name, "classes": pool.logits.shape[1], "rows": rows, "scores": scores}


def mean_scores(cells: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        name: {key: float(np.mean([cell["scores"][name][key] for cell in cells])) for key in ("nll", "ece")}
        for name in cells[0]["scores"]
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_source_options(parser)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    started = time.process_time()
    pools = [*real_logits(options.data_dir, options.cache), perfect(), noisy()]
    cells = [measure(pool, rows) for pool in pools for rows in SIZES if rows <= len(pool.labels) // 2]
    kinds = {
        "2 to 10 classes": lambda cell: cell["classes"] <= 10,
        "100 classes": lambda cell: cell["classifier"].startswith("clouds"),
        "100 classes, perfect": lambda cell: cell["classifier"].startswith("perfect"),
        "100 classes, noisy": lambda cell: cell["classifier"].startswith("noisy"),
    }
    means: dict[str, Any] = {}
    for kind, belongs in kinds.items():
        means[kind] = {
            str(rows): mean_scores([cell for cell in cells if cell["rows"] == rows and belongs(cell)])
            for rows in SIZES
        }
        print(f"{kind}: NLL / ECE in per cent")
        print(f"  {'rows':22s}" + "".join(f"{rows:>16d}" for rows in SIZES))
        for name in means[kind][str(SIZES[0])]:
            scores = [means[kind][str(rows)][name] for rows in SIZES]
            print(f"  {name:22s}" + "".join(f"{s['nll']:9.4f} /{100 * s['ece']:5.2f}" for s in scores))
    result = {
        "command": "python -m benchmarks.isotonic_floor --data-dir DIR",
        "cpu_seconds": round(time.process_time() - started),
        "means": means,
        "cells": cells,
    }
    if options.data_dir is not None:  # results without the texts are not for keeping
        write_json(RESULTS, result)


if __name__ == "__main__":
    main()
