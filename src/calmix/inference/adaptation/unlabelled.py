"""Recalibration by rows of the domain without labels: the published methods of `calibration.domain_shift`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calmix.calibration.calibrators.calibrated_predictions import calibrate_predictions
from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.domain_shift.catalogue import get_shift_method, verdict_of
from calmix.calibration.domain_shift.density import (
    DistanceTemperature,
    density_temperature,
    neighbour_distances,
)
from calmix.calibration.domain_shift.label_shift import label_shift
from calmix.calibration.domain_shift.lascal import lascal
from calmix.calibration.domain_shift.pseudo_target import RATIO, different_pairs, pseudo_target
from calmix.calibration.domain_shift.transferable import domain_weights, transferable
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.held_out import HeldOut
from calmix.calibration.input_checks import Floats, Integers
from calmix.data.duplicates import input_keys
from calmix.data.perturbation import COPIES, perturbed
from calmix.data.rows import Rows
from calmix.inference.adaptation.labelled import head_holds
from calmix.inference.adaptation.target_passes import TargetNetwork
from calmix.inference.calibrated_directory import Calibrated, CalibrationSource, Describe, write_calibrated
from calmix.inference.run_rows import rows_of_run, training_rows
from calmix.inference.saved_classifier import open_classifier
from calmix.io.run_directory import RunDirectory
from calmix.io.writing import check_new_directory
from calmix.runtime.randomness import stream
from calmix.user_error import UserError, argument

FEWEST_ROWS = 50
# Of those that distances are measured to.
MOST_TRAINING_ROWS = 10_000


def adapt_unlabelled(
    source: Path,
    unlabelled: str,
    method: str | None,
    output: Path,
    *,
    seed: int = 0,
    describe: Describe | None = None,
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
    if chosen.of_classes and classifier.task == "choice":
        raise UserError("choices have no classes whose shares could shift", remedy="use another method")
    network = TargetNetwork(run.model, max_length=classifier.max_length, trust_remote_code=trust_remote_code)
    calibrator = fit_unlabelled(chosen.name, network, run, rows, seed=seed)
    others = {name: predictions_of_run(run, name, calibrated=True) for name in run.splits()}
    validation = others["validation"]
    opened = CalibrationSource(validation, run.model, others, None, classifier.max_length, is_run=True)
    notes: list[str] = []
    _, folds = head_holds(opened, trust_remote_code=trust_remote_code, note=notes.append)
    before, after = (
        evaluate(one, intervals=False)["nll"]
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
        describe=describe,
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
    source = np.asarray(validation.values, dtype=np.float64)
    if method == "lascal":
        return lascal(source, validation.labels, logits)
    known = rows_of_run(run, remedy="restore the file, or train again")["validation"]
    if method == "transcal":
        weights = domain_weights(network.features(known), network.features(rows))
        return transferable(source, validation.labels, logits, weights)
    far = SourceDistances.of(network, run, known, seed=seed)
    fitted = DistanceTemperature.fit(far.logits, far.labels, far.distances)
    return density_temperature(fitted, logits, neighbour_distances(far.training, network.features(rows)))


@dataclass(frozen=True)
class SourceDistances:
    """How far validation rows and their perturbed copies are from the training rows."""

    training: Floats
    """Features of training rows, at most `MOST_TRAINING_ROWS`."""
    logits: Floats
    labels: Integers
    distances: Floats

    @classmethod
    def of(cls, network: TargetNetwork, run: RunDirectory, known: Rows, *, seed: int = 0) -> SourceDistances:
        """`known` are the validation rows."""
        trained = training_rows(run)
        if trained is None:
            raise UserError(
                "the training file is not there any more, and distances are to its rows",
                file=run.path,
                remedy="restore it, or use another method",
            )
        # Validation rows may have been split off from the file: no row is its own neighbour.
        own = set(input_keys(known))
        places = np.flatnonzero([key not in own for key in input_keys(trained)])
        if len(places) > MOST_TRAINING_ROWS:
            places = np.sort(stream(seed, "density").choice(places, MOST_TRAINING_ROWS, replace=False))
        training = network.features(trained.select(places))
        groups = [known, *(perturbed(known, copy, seed=seed) for copy in range(COPIES))]
        features, logits = zip(*(network.features_and_logits(group) for group in groups), strict=True)
        return cls(
            training,
            np.concatenate(logits),
            np.tile(known.labels, len(groups)),
            np.concatenate([neighbour_distances(training, one) for one in features]),
        )
