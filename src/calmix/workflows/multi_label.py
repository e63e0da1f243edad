"""Evaluation of rows with several labels, or none: what `evaluate` does where its sources are such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.multi_label.multi_label_files import has_several_labels
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.calibration.multi_label.multi_label_sources import (
    MultiLabelSource,
    evaluate_label_sources,
    open_label_sources,
)
from calmix.calibration.predictions import Predictions
from calmix.io.records import read_json_record
from calmix.io.run_directory import RunDirectory
from calmix.runtime.option_values import MULTI_LABEL
from calmix.user_error import UserError, argument
from calmix.workflows.result import place_of

# Columns of rows that have several labels: neither choices nor weights are defined for them.
LABEL_COLUMNS = ("text", "pair", "label", "id", "image")


def evaluate_multi_label(
    named: Mapping[str, Any],
    mapping: ColumnMapping,
    from_logits: bool | None,
    network: tuple[Any, Any] | None,
    columns: Mapping[str, str | None],
    settings: Mapping[str, Any],
    *,
    notion: str,
    refused: Sequence[str],
    **measuring: Any,
) -> dict[str, Any]:
    """The metrics of sources by name; `network` is a model and the labelled data that it predicts."""
    for option in refused:
        raise UserError(f"{argument(option)} is for rows of one label", remedy="leave it out")
    if notion not in ("top_label", "positive"):
        raise UserError(
            f"{argument('notion', notion)}: of several labels each is measured on its own",
            remedy="leave it out",
        )
    opened = [
        source
        for place, (name, given) in enumerate(named.items())
        for source in _open(given, name, place, mapping, from_logits)
    ]
    if network is not None:
        opened.append(_predicted(*network, mapping, columns, settings, origin=len(named)))
    return evaluate_label_sources(opened, **measuring)


def _open(
    given: Any, name: str, place: int, mapping: ColumnMapping, from_logits: bool | None
) -> list[MultiLabelSource]:
    path = place_of(given)
    if path is not None:
        if path.is_dir() and not is_multi_label_model(path):
            raise UserError(
                "the rows of this run have one label each, those of other sources several",
                file=path,
                remedy="evaluate them apart",
            )
        return open_label_sources(path, place, mapping)
    if isinstance(given, tuple) and len(given) == 2:
        if from_logits is None:
            raise UserError(
                "nothing says what the scores are", remedy="give from_logits=True, or False for probabilities"
            )
        make = MultiLabelPredictions.from_logits if from_logits else MultiLabelPredictions.from_probabilities
        try:
            given = make(*given, label_names=mapping.class_names or None)
        except ValueError as error:
            raise UserError(str(error), file=name) from None
    if isinstance(given, Predictions):
        raise UserError("rows of one label beside rows of several", file=name, remedy="evaluate them apart")
    if not isinstance(given, MultiLabelPredictions):
        raise UserError(
            f"{type(given).__name__} cannot be evaluated",
            remedy="give MultiLabelPredictions, (scores, labels), a predictions file or a run",
        )
    return [MultiLabelSource(name, given, place)]


def _predicted(
    model: Any,
    data: Any,
    mapping: ColumnMapping,
    columns: Mapping[str, str | None],
    settings: Mapping[str, Any],
    *,
    origin: int,
) -> MultiLabelSource:
    from calmix.workflows.data_arguments import GivenData
    from calmix.workflows.run import model_directory

    path = model_directory(model, "model")

    from calmix.inference.prediction import predict_label_rows
    from calmix.inference.saved_classifier import open_classifier

    classifier = open_classifier(path)
    classifier.check_multi_label()
    if settings["max_length"] is not None:
        classifier = replace(classifier, max_length=settings["max_length"])
    named = classifier.label_columns(
        mapping.label_separator, mapping.label_columns, **{name: columns[name] for name in LABEL_COLUMNS}
    )
    given = GivenData(named).source(data, "data")
    passed = {name: value for name, value in settings.items() if name != "max_length"}
    predictions = predict_label_rows(classifier, given, named, passed)[1]
    return MultiLabelSource(f"{path}:{given}", predictions, origin, thresholds=classifier.thresholds)


def is_multi_label(sources: Sequence[Any], mapping: ColumnMapping) -> bool:
    """Whether the rows of any source have several labels, or none."""
    if mapping.has_label_lists or any(isinstance(given, MultiLabelPredictions) for given in sources):
        return True
    places = [path for path in map(place_of, sources) if path is not None]
    return any(is_multi_label_model(path) or has_several_labels(path, mapping) for path in places)


def is_multi_label_model(path: Path) -> bool:
    """Whether a directory is a run, a calibrated directory or a checkpoint of several labels."""
    if not path.is_dir():
        return False
    run = RunDirectory(path)
    if run.config_file.is_file() and run.is_finished:
        return run.is_multi_label

    config = next(
        (file for file in (path / "config.json", path / "model/config.json") if file.is_file()), None
    )
    return config is not None and read_json_record(config).get("problem_type") == MULTI_LABEL
