"""Recalibration from a few labelled rows of the domain that a model is used on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.adaptation import adapt_predictions, with_design
from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.held_out import HeldOut
from calmix.calibration.input_checks import Floats, check_weights
from calmix.inference.calibrated_directory import (
    Calibrated,
    CalibrationSource,
    Describe,
    write_calibrated,
)
from calmix.inference.post_hoc import open_source
from calmix.io.run_directory import RunDirectory
from calmix.io.writing import check_new_directory
from calmix.user_error import UserError, argument

WEIGHT_COLUMN = "design_weight"


def adapt_labelled(
    source: Path,
    labelled: str,
    output: Path,
    *,
    seed: int = 0,
    describe: Describe | None = None,
    trust_remote_code: bool = False,
    **data: Any,
) -> Calibrated:
    """Fit temperature and class biases on labelled rows, shrunk towards the model's own calibration.

    A column `design_weight`, as `calmix adapt --suggest` writes it, weighs the rows.
    """
    check_new_directory(output)
    notes: list[str] = []
    opened = open_source(
        source,
        labelled,
        ColumnMapping(),
        notes.append,
        method="shrunk",
        trust_remote_code=trust_remote_code,
        **data,
    )
    weights = design_weights(labelled) if opened.rows is not None else None
    warnings: list[str] = []
    opened, weights = without_training_rows(source, opened, weights, warnings.append)
    biases, folds = head_holds(opened, trust_remote_code=trust_remote_code, note=notes.append)
    try:
        found = adapt_predictions(opened.fitting, weights=weights, biases=biases, seed=seed)
    except ValueError as error:
        raise UserError(str(error), file=labelled) from error
    target = with_design(opened.fitting, weights)
    fit = FitUncertainty.of(found.calibrator, target)
    held_out = {
        name: HeldOut(
            "held-out",
            before,
            calibrate_predictions(found.calibrator, before),
            before_in_sample=opened.is_run and name == "validation",
            fit=fit,
        )
        for name, before in opened.unseen().items()
    }
    notes += opened.overlaps()
    repeated = HeldOut("cross-validated", target, with_design(found.held_out, weights))
    held_out = {Path(labelled).name: repeated, **held_out}
    facts = {
        "method": "shrunk",
        "already_calibrated": False,
        "adapted_to": labelled,
        "adaptation": {
            **found.facts(),
            "sentence": found.sentence(),
            "weighted": None if weights is None else weighted_metrics(repeated),
        },
        "notes": list(dict.fromkeys(notes)),
        "warnings": [*warnings, *found.notes],
    }
    return write_calibrated(
        opened,
        found.calibrator,
        output,
        labelled,
        facts,
        folds=folds or not found.calibrator.bias_.any(),
        held_out=held_out,
        describe=describe,
        trust_remote_code=trust_remote_code,
    )


def design_weights(labelled: str) -> Floats | None:
    """What every row stands for, where the file says so."""
    from calmix.data.soft_labels import read_numbers
    from calmix.data.sources import read_source

    table = read_source(labelled, "fit")
    if WEIGHT_COLUMN not in table.names:
        return None
    weights = read_numbers(table, WEIGHT_COLUMN, WEIGHT_COLUMN)
    if (weights <= 0).any():
        row = int(np.flatnonzero(weights <= 0)[0])
        raise table.error(
            f"{weights[row]:g} is no weight above 0",
            row + 1,
            WEIGHT_COLUMN,
            "keep the column as 'calmix adapt --suggest' wrote it, or remove it",
        )
    return check_weights(weights, rows=len(weights))


def without_training_rows(
    source: Path, opened: CalibrationSource, weights: Floats | None, warn: Callable[[str], None]
) -> tuple[CalibrationSource, Floats | None]:
    """Without the rows that also appear in the training set: the model knows their labels."""
    if not opened.is_run or opened.rows is None:
        return opened, weights
    from calmix.data.duplicates import first_places, input_keys
    from calmix.inference.run_rows import training_rows

    trained = training_rows(RunDirectory.open(source))
    if trained is None:
        warn("the training file is not there any more: rows of it among these are not noticed")
        return opened, weights
    kept = np.flatnonzero(first_places(input_keys(opened.rows), input_keys(trained)) < 0)
    found = len(opened.rows) - len(kept)
    if not found:
        return opened, weights
    if not len(kept):
        raise UserError(
            f"all {found} rows also appear in the training set: the model knows their labels",
            file=opened.rows.source,
            remedy="give labelled rows of the data that the model is used on",
        )
    warn(f"{found} rows that also appear in the training set are left out: the model knows their labels")
    smaller = replace(opened, fitting=opened.fitting.select(kept), rows=opened.rows.select(kept))
    return smaller, None if weights is None else weights[kept]


def head_holds(
    opened: CalibrationSource, *, trust_remote_code: bool, note: Callable[[str], None]
) -> tuple[bool, bool]:
    """Whether class biases make sense for a network, and whether its head can hold them."""
    if opened.checkpoint is None:
        return True, True
    from calmix.models.hf_compat import is_multiple_choice, last_linear
    from calmix.models.loading import load_trained

    model = load_trained(opened.checkpoint, trust_remote_code=trust_remote_code)
    if is_multiple_choice(model):
        note("choices have no classes: a temperature is fitted, no class biases")
        return False, True
    if last_linear(model).bias is None:
        note(
            f"the head of {type(model).__name__} has no bias: the calibrator is saved beside the network, "
            "and 'calmix predict' applies it"
        )
        return True, False
    return True, True


def weighted_metrics(found: HeldOut) -> dict[str, Any]:
    """What the sample says about all rows that it was drawn from, before and by cross-validation after."""
    stages = {
        stage: evaluate(one, intervals=False)
        for stage, one in (("before", found.before), ("after", found.after))
    }
    names = {"accuracy": "accuracy", "confidence": "mean_confidence", "nll": "nll", "ece": "ece"}
    return {
        "effective_rows": stages["before"]["effective_n"],
        **{stage: {name: measured[key] for name, key in names.items()} for stage, measured in stages.items()},
    }


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{argument(name)}: no such choice {value!r}", remedy=f"choose {' or '.join(known)}")
