"""Paired differences that `calmix compare` does not make: student and teacher, and two teachers of a student.

    python results/distillation/pairs.py COMPARISON

Ours minus theirs as trained, with 95 % intervals over rows and seeds; accuracy and ECE in points.
"""

from __future__ import annotations

import sys
from pathlib import Path

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.experiments.bootstrap import RowScores, paired_difference, resample
from calmix.experiments.comparison_plan import Plan
from calmix.training.pipeline.run_store import RunStore

TEACHERS = ("plain", "input-mixup", "informed-mixup")
SCALES = {"accuracy": 100, "ece": 100, "nll": 1}


def main(directory: Path) -> None:
    for split in ("test", "meld"):
        for teacher in TEACHERS:
            student = f"plain teacher={teacher} teacher_temperature=false"
            show(directory, split, student, teacher)
            for layers in ("", " student_layers=3"):
                calibrated = f"plain teacher={teacher} teacher_label_smoothing=0.1"
                show(directory, split, calibrated + layers, student + layers)


def show(directory: Path, split: str, ours: str, theirs: str) -> None:
    plan, store = Plan.read(directory), RunStore(directory / "runs")
    cells = [cell for arm in (ours, theirs) for cell in plan.cells if cell.arm.name == arm]
    runs = [predictions_of_run(store.run(cell.fingerprint), split, calibrated=False) for cell in cells]
    sampled = resample([RowScores.of(run) for run in runs])
    by_arm = {
        arm: {cell.seed: one for cell, one in zip(cells, sampled, strict=True) if cell.arm.name == arm}
        for arm in (ours, theirs)
    }
    found = paired_difference(by_arm[ours], by_arm[theirs])
    print(f"{split}: {ours} - {theirs}")
    for metric, scale in SCALES.items():
        middle, low, high = (scale * getattr(found[metric], name) for name in ("difference", "low", "high"))
        print(f"    {metric:9} {middle:+.3f} [{low:+.3f}, {high:+.3f}]")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
