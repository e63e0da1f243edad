"""Which coordinates should structured scaling have by default, and from how many rows on?

    python -m benchmarks.structured_defaults [--data-dir DIR] [--cache FILE.npz] [--repetitions 3]

Logits of cheap classifiers on real texts and images (`benchmarks/_real_logits.py`; `clouds_100` is drawn).
Every calibrator is fitted on n rows, drawn anew for each repetition, and tested on up to 3,000 others.
Reported: test NLL minus that of temperature scaling, mean over the classifiers, and on how many of them it
is lower. With `--data-dir` it writes `benchmarks/results/structured_defaults.json`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from benchmarks._real_logits import Logits, add_source_options, real_logits
from calmix.calibration.calibrators.calibrator import Calibrator
from calmix.calibration.calibrators.structured import StructuredScaling
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "structured_defaults.json"
SIZES = (20, 50, 100, 200, 500, 1000, 2000)
# Rows for each class: the upper end of each group.
RATIOS = (5, 10, 20, 50, 100, 10_000)
TEST_ROWS = 3000


def candidates() -> dict[str, Calibrator]:
    """Without the rule for small sets, which this benchmark is to find; and the default."""
    return {
        "temperature": TemperatureScaling(),
        "matrix, centred": StructuredScaling("matrix", "centred", minimum_rows=0),
        "matrix, log-probabilities": StructuredScaling("matrix", "log-probabilities", minimum_rows=0),
        "vector, centred": StructuredScaling("vector", "centred", minimum_rows=0),
        "vector, log-probabilities": StructuredScaling("vector", "log-probabilities", minimum_rows=0),
        "default": StructuredScaling(),
    }


def nll(calibrator: Calibrator, logits: np.ndarray, labels: np.ndarray) -> float:
    scores = log_softmax(calibrator.transform(logits), axis=1)
    return float(-scores[np.arange(len(labels)), labels].mean())


def measure(pool: Logits, rows: int, repetitions: int) -> dict[str, Any]:
    losses: dict[str, list[float]] = {}
    for repetition in range(repetitions):
        order = np.random.default_rng((repetition, rows)).permutation(len(pool.labels))
        known, fresh = order[:rows], order[rows:][:TEST_ROWS]
        for name, calibrator in candidates().items():
            calibrator.fit(pool.logits[known], pool.labels[known])
            losses.setdefault(name, []).append(nll(calibrator, pool.logits[fresh], pool.labels[fresh]))
    return {
        "classifier": pool.name,
        "classes": pool.logits.shape[1],
        "rows": rows,
        "nll": {name: float(np.mean(found)) for name, found in losses.items()},
    }


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean difference to temperature scaling, how many cells it wins, and its worst loss."""
    names = [name for name in cells[0]["nll"] if name != "temperature"]
    table: dict[str, Any] = {"cells": len(cells)}
    for name in names:
        gaps = np.array([cell["nll"][name] - cell["nll"]["temperature"] for cell in cells])
        table[name] = {
            "mean": float(gaps.mean()),
            "better": int((gaps < 0).sum()),
            "worst": float(gaps.max()),
        }
    return table


def show(title: str, tables: dict[str, dict[str, Any]]) -> None:
    print(f"{title}: NLL minus that of temperature scaling (cells that are better; worst cell)")
    for key, table in tables.items():
        print(f"  {key} ({table['cells']} cells)")
        for name, found in table.items():
            if name != "cells":
                print(f"    {name:27s}{found['mean']:+.4f} ({found['better']:2d}; {found['worst']:+.4f})")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    started = time.process_time()
    cells = []
    for pool in real_logits(options.data_dir, options.cache):
        for rows in SIZES:
            if rows <= len(pool.labels) // 2:
                # Many classes are slow to fit, and differ less from draw to draw.
                repetitions = 1 if pool.logits.shape[1] > 50 or rows >= 1000 else options.repetitions
                cells.append(measure(pool, rows, repetitions))
    by_rows = {str(rows): summary([cell for cell in cells if cell["rows"] == rows]) for rows in SIZES}
    by_ratio, lower = {}, 0
    for upper in RATIOS:
        chosen = [cell for cell in cells if lower <= cell["rows"] / cell["classes"] < upper]
        by_ratio[f"{lower} to {upper} rows per class"] = summary(chosen)
        lower = upper
    show("by rows", by_rows)
    show("by rows for each class", by_ratio)
    result = {
        "command": "python -m benchmarks.structured_defaults --data-dir DIR",
        "cpu_seconds": round(time.process_time() - started),
        "by_rows": by_rows,
        "by_rows_per_class": by_ratio,
        "cells": cells,
    }
    if options.data_dir is not None:  # results without the texts are not for keeping
        write_json(RESULTS, result)


if __name__ == "__main__":
    main()
