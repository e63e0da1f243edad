"""The seeds of a pair of domains as an ensemble, and a student of it.

Probabilities are averaged first and calibrated after, with a temperature fitted on the validation rows of the
source. The student learns from the labels and the ensemble's predictions, with the settings of its members.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.ensemble import ensemble
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory

ENSEMBLE, STUDENT = "ensemble of the seeds", "student of the ensemble"


def ensemble_records(
    pair: str,
    seeds: Sequence[int],
    work: Path,
    command_of: Callable[[str], list[str]],
    metrics: Sequence[str],
) -> list[dict[str, Any]]:
    """Metrics of the target rows and of the source's test rows.

    `command_of` gives the options of a run of the pair.
    """
    members = [RunDirectory.open(work / "runs" / pair / f"seed-{seed}") for seed in seeds]
    averaged = {
        split: ensemble([predictions_of_run(run, split) for run in members])
        for split in ("validation", "test", "target")
    }
    temperature = float(TemperatureScaling().fit(averaged["validation"]).temperature_)
    student = work / "students" / pair
    if not (student / "metrics.json").exists():
        teachers = [part for run in members for part in ("--teacher", str(run.path))]
        command = [sys.executable, "-m", "calmix", "distill", *teachers, *command_of(pair)]
        subprocess.run([*command, "--seed", "0", "--output", str(student)], check=True)
    taught = RunDirectory.open(student)
    found = {
        ENSEMBLE: {split: averaged[split].with_temperature(temperature) for split in ("target", "test")},
        STUDENT: {split: predictions_of_run(taught, split, calibrated=True) for split in ("target", "test")},
    }
    return [
        {"method": name if split == "target" else f"{name}, in domain", "pair": pair, "seed": -1}
        | chosen(predictions, metrics)
        for name, by_split in found.items()
        for split, predictions in by_split.items()
    ]


def chosen(predictions: Predictions, metrics: Sequence[str]) -> dict[str, float]:
    measured = evaluate(predictions, intervals=False)
    return {metric: float(measured[metric]) for metric in metrics}
