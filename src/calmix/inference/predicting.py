"""Predictions of a saved classifier: a table, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from calmix.calibration.multi_label.label_thresholds import threshold_array
from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames
from calmix.data.input_rows import InputRows, read_input
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.inference.acceptance import Acceptance, check_acceptance_options, decide
from calmix.inference.ood_threshold import read_ood_threshold
from calmix.inference.prediction_sets import set_facts, unfitted_sets
from calmix.inference.saved_classifier import SavedClassifier
from calmix.runtime.option_values import check_device_name
from calmix.user_error import UserError, argument, check_least

if TYPE_CHECKING:
    from calmix.inference.answers import Answers

# Row ids that a summary names.
LISTED = 20
UNWEIGHTED = (
    "the guarantee counts every validation row once, by its most probable label: weights and soft labels "
    "have no part in it"
)


def predict_rows(
    classifier: SavedClassifier,
    source: str,
    *,
    columns: ColumnNames,
    target_accuracy: float | None = None,
    accept_above: float | None = None,
    validation: str | None = None,
    reject_ood: bool = False,
    skip_blank: bool = False,
    coverage: float | None = None,
    set_method: str = "lac",
    class_conditional: bool = False,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> tuple[pa.Table, dict[str, Any]]:
    """The predictions for the rows of `source`, and what was done, ready for JSON.

    With `target_accuracy` the threshold rests on `validation`, a labelled file, by default on the validation
    rows of the run. So do the prediction sets of `coverage`.
    """
    check_acceptance_options(target_accuracy, accept_above)
    check_validation_used(validation, target_accuracy, coverage)
    sets = unfitted_sets(coverage, set_method, class_conditional=class_conditional)
    check_settings(batch_size, device)
    check_answerable(classifier, target_accuracy, accept_above, coverage, reject_ood=reject_ood)
    # The choices of a row have no names, but their number must be that of training.
    names = classifier.label_names if classifier.task == "choice" else None
    given = read_input(source, columns, task=classifier.task, label_names=names, skip_blank=skip_blank)
    settings: dict[str, Any] = {
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    acceptance = acceptance_for(
        classifier, target_accuracy, accept_above, validation, columns, settings, reject_ood=reject_ood
    )

    from calmix.inference.answers import answer_table
    from calmix.inference.prediction import classify

    set_limit = None
    if sets is not None:
        held_out, set_limit = held_out_predictions(classifier, validation, columns, settings)
        sets.fit(held_out)
    answers = classify(classifier, given.rows, **settings, title="predict")
    table, renamed = answer_table(answers, acceptance, given.columns, id_column=columns.id, sets=sets)
    summary: dict[str, Any] = {"rows": len(given.rows)}
    for name, count in (("accept", "accepted"), ("reject_ood", "rejected_ood")):
        if name in table.column_names:
            summary[count] = int(np.count_nonzero(table.column(name).to_numpy(zero_copy_only=False)))
    if "accepted" in summary:
        summary["coverage"] = summary["accepted"] / summary["rows"]
    return table, {
        **summary,
        **acceptance.facts(),
        **({} if sets is None else set_facts(sets, table, set_limit)),
        "skipped_rows": list(given.blank),
        "truncated": int(answers.truncated.sum()),
        "truncated_rows": answers.row_ids[answers.truncated].tolist()[:LISTED],
        "max_length": answers.max_length,
        "renamed_columns": renamed,
        "notes": notes(given, answers, renamed),
        **label_summary(answers),
    }


def predict_text(
    classifier: SavedClassifier,
    text: str,
    pair: str | None = None,
    *,
    target_accuracy: float | None = None,
    accept_above: float | None = None,
    validation: str | None = None,
    reject_ood: bool = False,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> dict[str, Any]:
    """The prediction for one text, ready for JSON."""
    check_acceptance_options(target_accuracy, accept_above)
    check_validation_used(validation, target_accuracy, None)
    check_settings(batch_size, device)
    check_answerable(classifier, target_accuracy, accept_above, None, reject_ood=reject_ood)
    if classifier.task not in (None, "single", "pair"):
        raise UserError(
            f"{argument('text')} is for texts",
            file=classifier.source,
            remedy=f"give {argument('input', 'FILE')}",
        )
    if classifier.task == "pair" and pair is None:
        raise UserError("this classifier reads pairs of texts", remedy=f"give {argument('text_pair')} too")
    if classifier.task == "single" and pair is not None:
        raise UserError("this classifier reads single texts", remedy=f"leave {argument('text_pair')} out")
    for option, value in ((argument("text"), text), (argument("text_pair"), pair)):
        if value is not None and not value.strip():
            raise UserError(f"{option} is blank", remedy="give a text")
    settings: dict[str, Any] = {
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    acceptance = acceptance_for(
        classifier,
        target_accuracy,
        accept_above,
        validation,
        classifier.columns(),
        settings,
        reject_ood=reject_ood,
    )

    from calmix.inference.prediction import classify

    rows = Rows.from_columns(["text"], [text], pairs=None if pair is None else [pair])
    answers = classify(classifier, rows, **settings)
    probabilities = answers.probabilities()[0]
    is_cut = bool(answers.truncated[0])
    notes = [f"the text is longer than {answers.max_length} tokens and was cut"] if is_cut else []
    if answers.multi_label:
        return {
            "predicted_labels": answers.predicted_labels()[0],
            "probabilities": dict(zip(answers.label_names, probabilities.tolist(), strict=True)),
            "thresholds": label_summary(answers)["thresholds"],
            "truncated": is_cut,
            "notes": notes,
        }
    best = int(probabilities.argmax())
    found: dict[str, Any] = {
        "predicted_label": answers.label_names[best],
        "confidence": float(probabilities[best]),
        "probabilities": dict(zip(answers.label_names, probabilities.tolist(), strict=True)),
    }
    accepted, rejected = acceptance.accepts(answers.logits), acceptance.rejects(answers.logits)
    if accepted is not None:
        found["accept"] = bool(accepted[0])
    if rejected is not None:
        found["reject_ood"] = bool(rejected[0])
    return {**found, **acceptance.facts(), "truncated": is_cut, "notes": notes}


def check_answerable(
    classifier: SavedClassifier,
    target_accuracy: float | None,
    accept_above: float | None,
    coverage: float | None,
    *,
    reject_ood: bool,
) -> None:
    """Refuse what is about one label a row where a model gives several."""
    asked = {
        "target_accuracy": target_accuracy is not None,
        "accept_above": accept_above is not None,
        "coverage": coverage is not None,
        "reject_ood": reject_ood,
    }
    for option, is_given in asked.items():
        if is_given:
            classifier.check_single_label(option)


def label_summary(answers: Answers) -> dict[str, Any]:
    """Of several labels: their thresholds, and how many rows are predicted to have each."""
    if not answers.multi_label:
        return {}
    counts = dict.fromkeys(answers.label_names, 0)
    for labels in answers.predicted_labels():
        for name in labels:
            counts[name] += 1
    thresholds = threshold_array(answers.thresholds, answers.label_names).tolist()
    return {
        "thresholds": dict(zip(answers.label_names, thresholds, strict=True)),
        "label_counts": counts,
    }


def check_settings(batch_size: int, device: str) -> None:
    check_least("batch_size", batch_size, 1)
    check_device_name(device)


def acceptance_for(
    classifier: SavedClassifier,
    target_accuracy: float | None,
    accept_above: float | None,
    validation: str | None,
    columns: ColumnNames,
    settings: dict[str, Any],
    *,
    reject_ood: bool,
) -> Acceptance:
    """The rule by which predictions are accepted, found before the rows are predicted."""
    out_of_domain = read_ood_threshold(classifier.run, classifier.source) if reject_ood else None
    known, limit = None, None
    if target_accuracy is not None:
        known, limit = held_out_predictions(classifier, validation, columns, settings)
    return decide(target_accuracy, accept_above, known, limit=limit, out_of_domain=out_of_domain)


def held_out_predictions(
    classifier: SavedClassifier, validation: str | None, columns: ColumnNames, settings: dict[str, Any]
) -> tuple[Predictions, str | None]:
    """Labelled rows that a promise about new rows rests on, and what the promise does not count: those of a
    file, or the validation rows of the run."""
    if validation is not None:
        from calmix.inference.prediction import classify, row_predictions
        from calmix.models.loading import trained_labels

        labels = classifier.label_names or trained_labels(classifier.checkpoint)
        rows = read_rows(validation, "validation", columns, labels, task=classifier.task)
        logits = classify(classifier, rows, **settings, title="validation").logits
        return row_predictions(logits, rows), None
    stored = classifier.validation()
    if stored is None:
        raise UserError(
            "no validation rows are known of it: what is promised of new rows is certified on labelled rows",
            file=classifier.source,
            remedy=f"give {argument('validation', 'FILE')}",
        )
    known, limit = stored
    if known.is_weighted:
        limit = UNWEIGHTED if limit is None else f"{limit}; {UNWEIGHTED}"
        known = replace(known, weights=None, targets=None)
    return known, limit


def check_validation_used(
    validation: str | None, target_accuracy: float | None, coverage: float | None
) -> None:
    if validation is not None and target_accuracy is None and coverage is None:
        raise UserError(
            f"{argument('validation')} is for a target",
            remedy=f"give {argument('target_accuracy')} or {argument('coverage')} too",
        )


def notes(given: InputRows, answers: Answers, renamed: dict[str, str]) -> list[str]:
    """What a reader of the predictions must know."""
    notes = []
    if given.blank:
        notes.append(f"{counted(len(given.blank), 'blank row')} left out: {first_numbers(given.blank)}")
    cut = int(answers.truncated.sum())
    if cut:
        share = f"{cut / len(answers.truncated):.1%} of the rows"
        notes.append(f"{counted(cut, 'text')} longer than {answers.max_length} tokens and cut ({share})")
    notes += [f"the input's column {old!r} is kept as {new!r}" for old, new in renamed.items()]
    notes += [f"the input's column {name!r} is not copied: it holds bytes" for name in given.dropped]
    return notes


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "blank row"), counted(3, "text")
    ('1 blank row is', '3 texts are')
    """
    return f"1 {noun} is" if count == 1 else f"{count:,} {noun}s are"


def first_numbers(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:LISTED]))
    return shown if len(numbers) <= LISTED else f"{shown} and {len(numbers) - LISTED} more"
