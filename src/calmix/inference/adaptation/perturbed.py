"""A temperature for unknown domains, fitted on perturbed validation rows.

Out of domain a model is wrong more often than its confidence says. Without any data of that domain, damaged
rows of its own are the nearest thing (`data.perturbation`): four copies of every validation row, with its
label. The price is paid in domain, where this temperature is too high. It is a second calibrator beside the
run's own, in a directory of its own: `calmix adapt --perturbed`, or at the end of a run
`calmix train --calibrator perturbed`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.held_out import HeldOut
from calmix.calibration.predictions import Predictions
from calmix.data.perturbation import COPIES, perturbed
from calmix.data.rows import Rows
from calmix.inference.calibrated_directory import (
    Calibrated,
    CalibrationSource,
    Describe,
    write_calibrated,
)
from calmix.inference.prediction import predict_with_checkpoint, row_predictions
from calmix.inference.run_rows import rows_of_run
from calmix.io.run_directory import RunDirectory
from calmix.io.writing import check_new_directory
from calmix.user_error import UserError, argument

FITTED_ON = "perturbed validation rows"


def adapt_perturbed(
    source: Path,
    output: Path,
    *,
    seed: int = 0,
    describe: Describe | None = None,
    trust_remote_code: bool = False,
) -> Calibrated:
    """Fit a temperature on damaged copies of a run's validation rows."""
    check_new_directory(output)
    if not (source / "config.yaml").is_file():
        raise UserError(
            f"{argument('perturbed')} needs the validation rows of a run",
            file=source,
            remedy="name a run directory that 'calmix train' has made",
        )
    run = RunDirectory.open(source)
    rows = rows_of_run(run, remedy="restore the file, or train again")["validation"]
    length = run.config()["max_length"]
    fitting = perturbed_predictions(
        run.model, rows, seed=seed, max_length=length, trust_remote_code=trust_remote_code
    )
    others = {name: predictions_of_run(run, name, calibrated=True) for name in run.splits()}
    return write_perturbed(
        run,
        fitting,
        others,
        output,
        rows=rows,
        max_length=length,
        seed=seed,
        describe=describe,
        trust_remote_code=trust_remote_code,
    )


def write_perturbed(
    run: RunDirectory,
    fitting: Predictions,
    others: dict[str, Predictions],
    output: Path,
    *,
    rows: Rows,
    max_length: int | None,
    seed: int,
    describe: Describe | None = None,
    trust_remote_code: bool = False,
    **binning: Any,
) -> Calibrated:
    """Fit a temperature on the predictions of a run's model for perturbed rows, and write its directory.

    `others` are calibrated predictions of the run, by split; `rows` its validation rows.
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        calibrator = TemperatureScaling().fit(fitting)
    fit = FitUncertainty.of(calibrator, fitting, copies=COPIES)
    held_out = {
        name: HeldOut(
            "held-out",
            before,
            calibrate_predictions(calibrator, before),
            before_in_sample=name == "validation",
            fit=fit,
            binning=binning,
        )
        for name, before in others.items()
    }
    accuracy = evaluate(fitting, intervals=False)["accuracy"]
    opened = CalibrationSource(fitting, run.model, others, rows, max_length, is_run=True)
    facts = {
        "method": "perturbed",
        "already_calibrated": False,
        "adapted_to": None,
        "perturbation": {"copies": COPIES, "seed": seed, "accuracy": accuracy},
        "notes": [
            "for data of an unknown domain; in domain the run's own model is better calibrated",
        ],
        "warnings": [str(warning.message) for warning in said],
    }
    return write_calibrated(
        opened,
        calibrator,
        output,
        FITTED_ON,
        facts,
        held_out=held_out,
        describe=describe,
        trust_remote_code=trust_remote_code,
    )


def perturbed_predictions(
    checkpoint: Path, rows: Rows, *, seed: int, max_length: int | None, trust_remote_code: bool
) -> Predictions:
    """What a checkpoint says about all damaged copies of labelled rows."""
    logits = [
        predict_with_checkpoint(
            checkpoint,
            perturbed(rows, copy, seed=seed),
            max_length=max_length,
            trust_remote_code=trust_remote_code,
        )
        for copy in range(COPIES)
    ]
    return copied_predictions(np.concatenate(logits), row_predictions(logits[0], rows))


def copied_predictions(logits: NDArray[Any], known: Predictions) -> Predictions:
    """Logits of all copies of rows, one copy after the other; labels, weights and soft labels are those of
    the rows.

    >>> known = Predictions.from_logits([[1.0, 0.0], [0.0, 1.0]], [0, 1]).with_rows(weights=[1.0, 3.0])
    >>> copied_predictions(np.zeros((4, 2)), known).weights.tolist()
    [1.0, 3.0, 1.0, 3.0]
    """
    places = np.tile(np.arange(len(known)), len(logits) // len(known))
    return replace(known.select(places), values=logits, kind="logits", ids=None)
