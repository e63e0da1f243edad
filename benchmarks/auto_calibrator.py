"""Is `auto` better than temperature scaling, and from how many rows on?

    python -m benchmarks.auto_calibrator [--data-dir DIR] [--cache FILE.npz] [--repetitions 3] [--fast]

Logits of cheap classifiers on real texts and images (`benchmarks/_real_logits.py`; `clouds_100` is drawn).
Every calibrator is fitted on n rows, drawn anew for each repetition, and tested on up to 3,000 others.
Reported: test NLL and ECE minus those of temperature scaling, mean over the classifiers with its 95 %
interval (t, classifiers as units), on how many of them NLL is lower, and what was chosen. With `--data-dir`
it writes `benchmarks/results/auto_calibrator.json`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks._real_logits import Logits, add_source_options, real_logits
from calmix.calibration.calibrators.calibrator import get_calibrator
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.metrics.scores import negative_log_likelihood
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "auto_calibrator.json"
SIZES = (100, 200, 500, 1000, 2000)
NAMES = ("temperature", "temperature-bias", "vector", "structured", "auto")
TEST_ROWS = 3000


def measure(pool: Logits, rows: int, repetitions: int) -> dict[str, Any]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    chosen: Counter[str] = Counter()
    for repetition in range(repetitions):
        order = np.random.default_rng((repetition, rows)).permutation(len(pool.labels))
        known, fresh = order[:rows], order[rows:][:TEST_ROWS]
        for name in NAMES:
            options = {"coordinates": "centred"} if name == "structured" else {}
            fitted = get_calibrator(name, **options).fit(pool.logits[known], pool.labels[known])
            scores, labels = fitted.transform(pool.logits[fresh]), pool.labels[fresh]
            nll = negative_log_likelihood(scores, labels, from_logits=True)
            answers = Predictions.from_logits(scores, labels)
            ece = expected_calibration_error(answers.confidence(), answers.correct())
            found[name].append((float(nll), float(ece)))
            if name == "auto":
                chosen[fitted.chosen_] += 1  # type: ignore[attr-defined]
    means = {name: np.mean(values, axis=0).tolist() for name, values in found.items()}
    return {
        "classifier": pool.name,
        "classes": pool.logits.shape[1],
        "rows": rows,
        "nll": {name: values[0] for name, values in means.items()},
        "ece": {name: values[1] for name, values in means.items()},
        "chosen": dict(chosen),
    }


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {"classifiers": len(cells)}
    for name in NAMES[1:]:
        table[name] = {}
        for metric in ("nll", "ece"):
            gaps = np.array([cell[metric][name] - cell[metric]["temperature"] for cell in cells])
            half = float(student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
            mean = float(gaps.mean())
            table[name][metric] = {
                "mean": mean, "ci": [mean - half, mean + half],
                "better": int((gaps < 0).sum()), "worst": float(gaps.max()),
            }  # fmt: skip
    table["chosen"] = dict(sum((Counter(cell["chosen"]) for cell in cells), Counter()))
    return table


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--fast", action="store_true", help="without the slow classifiers")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    started = time.process_time()
    cells = []
    for pool in real_logits(options.data_dir, options.cache, fast=options.fast):
        for rows in SIZES:
            if rows <= len(pool.labels) // 2:
                repetitions = 1 if pool.logits.shape[1] > 50 or rows >= 1000 else options.repetitions
                cells.append(measure(pool, rows, repetitions))
    by_rows = {str(rows): summary([cell for cell in cells if cell["rows"] == rows]) for rows in SIZES}
    for rows, table in by_rows.items():
        print(f"{rows} rows, {table['classifiers']} classifiers; auto chose {table['chosen']}")
        for name in NAMES[1:]:
            nll, ece = table[name]["nll"], table[name]["ece"]
            print(
                f"  {name:17s} NLL {nll['mean']:+.4f} [{nll['ci'][0]:+.4f}, {nll['ci'][1]:+.4f}], lower on "
                f"{nll['better']}, worst {nll['worst']:+.4f}; ECE {ece['mean']:+.4f} "
                f"[{ece['ci'][0]:+.4f}, {ece['ci'][1]:+.4f}]"
            )
    if options.data_dir is not None:  # results without the texts are not for keeping
        write_json(
            RESULTS,
            {
                "command": "python -m benchmarks.auto_calibrator --data-dir DIR"
                f"{' --fast' if options.fast else ''} --repetitions {options.repetitions}",
                "cpu_seconds": round(time.process_time() - started),
                "by_rows": by_rows,
                "cells": cells,
            },
        )


if __name__ == "__main__":
    main()
