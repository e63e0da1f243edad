"""Differences to plain at 2e-4, seed by seed, with 95 % t intervals over the five seeds.

python results/low_data/intervals.py
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
from scipy import stats

METHODS = ("cls-mixup", "input-mixup", "manifold-mixup")
METRICS = (
    ("accuracy", "uncalibrated", 100),
    ("nll", "uncalibrated", 1),
    ("ece", "uncalibrated", 100),
    ("nll", "calibrated", 1),
)


def main() -> None:
    rows = pyarrow.parquet.read_table(Path(__file__).parent / "runs.parquet").to_pylist()
    values = {(row["arm"], row["split"], row["stage"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    for split in ("test", "imdb"):
        for method in METHODS:
            cells = []
            for metric, stage, scale in METRICS:
                own, plain = (
                    [
                        values[f"{arm} learning_rate=0.0002", split, stage, seed][metric] * scale
                        for seed in seeds
                    ]
                    for arm in (method, "plain")
                )
                test = stats.ttest_rel(own, plain)
                low, high = test.confidence_interval(0.95)
                digits = 1 if scale == 100 else 3
                mean = (low + high) / 2
                cells.append(f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]".replace("-", "−"))
            print(f"| {method}, {split} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
