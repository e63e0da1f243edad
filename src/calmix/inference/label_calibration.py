"""Calibrate what is already trained on rows of several labels: a run, a checkpoint or predictions.

The directory holds `calibrator.json` (scale and bias of every label), `calibration.json` with the thresholds
and held-out metrics, the calibrated predictions and, of a network, `model/`: scales and biases folded into
its head, thresholds in its configuration.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.class_names import DifferentClasses, listed
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.multi_label.label_scaling import LabelScaling, check_scaling, cross_validated_labels
from calmix.calibration.multi_label.label_thresholds import best_thresholds
from calmix.calibration.multi_label.multi_label_evaluation import evaluate_labels
from calmix.calibration.multi_label.multi_label_files import (
    read_multi_label_predictions,
    write_multi_label_predictions,
)
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.calibration.multi_label.multi_label_sources import label_predictions_of_run
from calmix.data.rows import Rows
from calmix.inference.saved_classifier import SavedClassifier, open_classifier
from calmix.io.run_directory import write_json
from calmix.io.writing import check_new_directory, new_directory
from calmix.user_error import UserError, argument


@dataclass(frozen=True, eq=False)
class LabelSource:
    """What is calibrated: predictions to fit on, the network behind them if any, and further predictions."""

    fitting: MultiLabelPredictions
    others: dict[str, MultiLabelPredictions]
    network: SavedClassifier | None = None
    rows: Rows | None = None
    """Behind `fitting`, where they are there."""
    thresholds: Mapping[str, float] | None = None
    """Those of the network before."""


@dataclass(frozen=True, eq=False)
class LabelHeldOut:
    """The same rows before and after calibration, by a scaling that has not seen them."""

    measured: str
    before: MultiLabelPredictions
    after: MultiLabelPredictions
    in_sample: bool = False
    """True where something in `before` was fitted on these rows."""


def calibrate_labels(
    source: Path | MultiLabelPredictions,
    fit_on: str | MultiLabelPredictions,
    method: str,
    output: Path,
    *,
    mapping: ColumnMapping,
    columns: Mapping[str, str | None],
    max_length: int | None,
    describe: Callable[[Path, dict[str, Any], dict[str, LabelHeldOut]], None],
    trust_remote_code: bool,
) -> dict[str, Any]:
    """Fit a scaling on `fit_on`, apply it to `source`; the result for JSON.

    `describe` writes what people read into the new directory; it gets the result and what its metrics are of.
    """
    check_new_directory(output)
    check_scaling(method)
    settings = {"trust_remote_code": trust_remote_code}
    opened = _open(source, fit_on, mapping, columns, max_length, settings)
    if opened.network is not None and method == "platt":
        _check_holds_biases(opened.network.checkpoint, **settings)
    scaling = LabelScaling(method)  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaling.fit(opened.fitting)
    thresholds = best_thresholds(scaling.calibrate(opened.fitting))
    fitted_on = fit_on if isinstance(fit_on, str) else f"in memory: {len(fit_on):,} rows"
    name = fitted_on if fitted_on in opened.others else Path(fitted_on).name
    held_out = _held_out(opened, scaling, name)
    with new_directory(output) as fresh:
        scaling.save(fresh)
        if opened.network is not None:
            _fold(opened, scaling, thresholds, fresh / "model", max_length=max_length, **settings)
        for split, predictions in opened.others.items():
            write_multi_label_predictions(
                fresh / "predictions" / f"{split}.parquet", scaling.calibrate(predictions)
            )
        folded = opened.network is not None
        result = {
            **scaling.facts(),
            "multi_label": True,
            "thresholds": thresholds,
            "fitted_on": fitted_on,
            "n": len(opened.fitting),
            "class_names": list(opened.fitting.label_names),
            "nll_before": scaling.nll_before_,
            "nll_after": scaling.nll_after_,
            "in_sample": ["nll_before", "nll_after"],
            "already_calibrated": False,
            "held_out": {
                split: _metrics(found, opened.thresholds, thresholds) for split, found in held_out.items()
            },
            "temperature": None,
            "folded": folded,
            "model": str(output / "model") if folded else None,
            "predictions": [str(output / "predictions" / f"{split}.parquet") for split in opened.others],
            "notes": [],
            "warnings": [str(warning.message) for warning in caught],
        }
        write_json(fresh / "calibration.json", result)
        describe(fresh, result, held_out)
    return result


def _open(
    source: Path | MultiLabelPredictions,
    fit_on: str | MultiLabelPredictions,
    mapping: ColumnMapping,
    columns: Mapping[str, str | None],
    max_length: int | None,
    settings: Mapping[str, Any],
) -> LabelSource:
    if isinstance(source, MultiLabelPredictions) or not source.is_dir():
        return _open_predictions(source, fit_on, mapping)
    if isinstance(fit_on, MultiLabelPredictions):
        raise UserError(
            f"{argument('source')} is a network, {argument('fit_on')} predictions",
            file=source,
            remedy="give labelled rows to fit on, or predictions in both places",
        )
    classifier = open_classifier(source)
    classifier.check_multi_label()
    others: dict[str, MultiLabelPredictions] = {}
    if classifier.run is not None:
        run = classifier.run
        others = {name: label_predictions_of_run(run, name, calibrated=True) for name in run.splits()}
        if fit_on in others:
            return LabelSource(others[fit_on], others, classifier, thresholds=classifier.thresholds)

    from calmix.inference.prediction import predict_label_rows

    if max_length is not None:
        classifier = replace(classifier, max_length=max_length)
    named = classifier.label_columns(mapping.label_separator, mapping.label_columns, **columns)
    rows, fitting = predict_label_rows(classifier, fit_on, named, settings)
    return LabelSource(fitting, others, classifier, rows, classifier.thresholds)


def _open_predictions(
    source: Path | MultiLabelPredictions, fit_on: str | MultiLabelPredictions, mapping: ColumnMapping
) -> LabelSource:
    def read(one: Path | str | MultiLabelPredictions, option: str) -> MultiLabelPredictions:
        if isinstance(one, MultiLabelPredictions):
            return one
        if Path(one).is_dir() or not Path(one).exists():
            problem = "a directory, the other predictions" if Path(one).is_dir() else "no such file"
            raise UserError(f"{argument(option)}: {problem}", file=one, remedy="name a predictions file")
        return read_multi_label_predictions(one, mapping)

    given, fitting = read(source, "source"), read(fit_on, "fit_on")
    try:
        fitting = fitting.with_label_order(given.label_names)
    except DifferentClasses:
        raise UserError(
            f"the labels are {listed(fitting.label_names)}, but those to calibrate are "
            f"{listed(given.label_names)}",
            file=fit_on if isinstance(fit_on, str) else None,
            remedy="fit on predictions of the same model",
        ) from None
    return LabelSource(fitting, {source.stem if isinstance(source, Path) else "predictions": given})


def _held_out(opened: LabelSource, scaling: LabelScaling, name: str) -> dict[str, LabelHeldOut]:
    """Every other set of predictions, and the fitting rows by cross-validation."""
    is_run = opened.network is not None and opened.network.run is not None
    found: dict[str, LabelHeldOut] = {}
    repeated = cross_validated_labels(scaling, opened.fitting)
    if repeated is not None:
        # A run's own scaling was fitted on its validation rows.
        flattered = is_run and name == "validation"
        found[name] = LabelHeldOut("cross-validated", opened.fitting, repeated, flattered)
    for other, before in opened.others.items():
        if before.values.shape != opened.fitting.values.shape or not np.array_equal(
            before.log_odds(), opened.fitting.log_odds()
        ):
            after = scaling.calibrate(before)
            found[other] = LabelHeldOut("held-out", before, after, is_run and other == "validation")
    return found


def _metrics(
    found: LabelHeldOut, before: Mapping[str, float] | None, after: Mapping[str, float]
) -> dict[str, Any]:
    first = evaluate_labels(found.before, thresholds=before)
    return {
        "measured": found.measured,
        "before": first | ({"in_sample": True} if found.in_sample else {}),
        "after": evaluate_labels(found.after, thresholds=after),
    }


def _check_holds_biases(checkpoint: Path, **trust: Any) -> None:
    """Refused before the long work, not after it."""
    from calmix.models.folding import check_takes_classes
    from calmix.models.loading import load_trained
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    check_takes_classes(load_trained(checkpoint, **trust))


def _fold(
    opened: LabelSource,
    scaling: LabelScaling,
    thresholds: Mapping[str, float],
    output: Path,
    *,
    max_length: int | None,
    **trust: Any,
) -> None:
    """A copy of the checkpoint with the scaling in its last layer: loaded again, and proven on rows."""
    from calmix.inference.fold_proof import ROWS, made_up_rows, reloaded_error, scaled_tolerance
    from calmix.inference.forward_passes import best_device, forward_logits
    from calmix.models.folding import fold_labels
    from calmix.models.loading import load_inputs, load_trained
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    assert opened.network is not None
    checkpoint = opened.network.checkpoint
    model = load_trained(checkpoint, **trust)
    inputs = load_inputs(checkpoint, model, max_length=max_length, **trust)
    rows = (
        made_up_rows(inputs, is_choice=False)
        if opened.rows is None
        else opened.rows.select(np.arange(min(len(opened.rows), ROWS)))
    )
    encoded, device = inputs.encode(rows.without_labels()), best_device("auto")
    collator = inputs.collator(is_choice=False)
    before = forward_logits(model, encoded, collator, device=device)
    order = [scaling.label_names_.index(name) for name in opened.fitting.label_names]
    scale, bias = scaling.scale_[order], scaling.bias_[order]
    fold_labels(model, scale, bias, {"method": scaling.method, "thresholds": dict(thresholds)})
    model.save_pretrained(output)
    load_inputs(checkpoint, model, **trust).processing_class.save_pretrained(output)
    model.cpu()  # room for the copy on the device
    expected = np.exp(-np.logaddexp(0.0, -(before.astype(np.float64) * scale + bias)))
    error = reloaded_error(output, encoded, collator, expected, device=device, **trust)
    if error > scaled_tolerance(scale):
        raise UserError(
            f"the folded checkpoint, loaded again, gives probabilities that are off by up to {error:.2g}: "
            f"{type(model).__name__} cannot hold a scaling of every label in its last layer",
            file=checkpoint,
            remedy="calibrate its predictions file instead",
        )
