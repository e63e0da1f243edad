"""Recalibration by rows of the domain without labels: the published methods of `calibration.domain_shift`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.domain_shift.catalogue import get_shift_method, verdict_of
from calmix.calibration.domain_shift.label_shift import label_shift
from calmix.calibration.domain_shift.pseudo_target import RATIO, different_pairs, pseudo_target
from calmix.calibration.domain_shift.transferable import domain_weights, transferable
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.held_out import HeldOut
from calmix.data.rows import Rows
from calmix.inference.adaptation.labelled import head_holds
from calmix.inference.adaptation.target_passes import TargetNetwork
from calmix.inference.calibrated_directory import Calibrated, CalibrationSource, write_calibrated
from calmix.inference.run_rows import rows_of_run
from calmix.inference.saved_classifier import open_classifier
from calmix.io.run_directory import RunDirectory
from calmix.io.writing import check_new_directory
from calmix.user_error import UserError, argument

FEWEST_ROWS = 50


def adapt_unlabelled(
    source: Path,
    unlabelled: str,
    method: str | None,
    output: Path,
    *,
    seed: int = 0,
    card: Callable[[Mapping[str, Any]], str] | None = None,
    trust_remote_code: bool = False,
    **columns: str | None,
) -> Calibrated:
    """Fit a method for unlabelled rows; without a name, refuse with what is known about all of them."""
    from calmix.data.input_rows import read_input

    chosen = get_shift_method(method)
    check_new_directory(output)
    if not (source / "config.yaml").is_file():
        raise UserError(
            f"{argument('unlabelled')} needs the validation rows of a run",
            file=source,
            remedy="name a run directory that 'calmix train' has made",
        )
    run, classifier = RunDirectory.open(source), open_classifier(source)
    names = classifier.label_names if classifier.task == "choice" else None
    rows = read_input(unlabelled, classifier.columns(**columns), task=classifier.task, label_names=names).rows
    if len(rows) < FEWEST_ROWS:
        raise UserError(f"only {len(rows)} rows", file=unlabelled, remedy=f"give at least {FEWEST_ROWS}")
    network = TargetNetwork(run.model, max_length=classifier.max_length, trust_remote_code=trust_remote_code)
    calibrator = fit_unlabelled(chosen.name, network, run, rows, seed=seed)
    others = {name: predictions_of_run(run, name, calibrated=True) for name in run.splits()}
    validation = others["validation"]
    opened = CalibrationSource(validation, run.model, others, None, classifier.max_length, is_run=True)
    notes: list[str] = []
    biases, folds = head_holds(opened, trust_remote_code=trust_remote_code, note=notes.append)
    if calibrator.bias_.any() and not biases:
        raise UserError("choices have no classes whose shares could shift", remedy="use another method")
    before, after = (
        float(-one.gold_log_probability().mean())
        for one in (validation, calibrate_predictions(calibrator, validation))
    )
    calibrator.nll_before_, calibrator.nll_after_ = before, after
    held_out = {
        name: HeldOut(
            "held-out", one, calibrate_predictions(calibrator, one), before_in_sample=name == "validation"
        )
        for name, one in others.items()
    }
    facts = {
        "method": chosen.name,
        "already_calibrated": False,
        "adapted_to": unlabelled,
        "unlabelled": {
            "rows": len(rows),
            "assumption": chosen.assumption,
            "citation": chosen.citation,
            "verdict": verdict_of(chosen.name),
            "bias": calibrator.bias_.tolist(),
        },
        "notes": notes,
        "warnings": [
            f"nothing was measured on {Path(unlabelled).name}, which has no labels; {chosen.name} assumes "
            f"that {chosen.assumption}; our results: {verdict_of(chosen.name)}"
        ],
    }
    return write_calibrated(
        opened,
        calibrator,
        output,
        "validation",
        facts,
        folds=folds or not calibrator.bias_.any(),
        held_out=held_out,
        card=card,
        trust_remote_code=trust_remote_code,
    )


def fit_unlabelled(
    method: str, network: TargetNetwork, run: RunDirectory, rows: Rows, *, seed: int = 0
) -> ShrunkScaling:
    """The calibrator of one method, from the logits of the saved model."""
    validation = predictions_of_run(run, "validation", calibrated=True)
    logits = network.logits(rows)
    if method == "em-label-shift":
        return label_shift(validation.labels, logits)
    if method == "pseudocal":
        predicted = logits.argmax(axis=1)
        first, second = different_pairs(predicted, seed=seed)
        if not len(first):
            raise UserError(
                "all rows are predicted to be of one class: there are no pairs to mix", file=rows.source
            )
        return pseudo_target(network.mixed_logits(rows, first, second, RATIO), predicted[first])
    known = rows_of_run(run, remedy="restore the file, or train again")["validation"]
    weights = domain_weights(network.features(known), network.features(rows))
    source = np.asarray(validation.values, dtype=np.float64)
    return transferable(source, validation.labels, logits, weights)
