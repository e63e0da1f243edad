"""Multi-label predictions side by side: files and the splits of runs, with paired differences.

A run has two entries for each of its splits, as in `file_evaluation`: `calibrated`, what the saved model
says, at the thresholds of the run, and `uncalibrated`, before the scaling of its labels, at 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.class_names import DifferentClasses
from calmix.calibration.differences import DifferentRows, MatchedBy
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.file_evaluation import are_comparable
from calmix.calibration.multi_label.multi_label_evaluation import (
    ROW_METRICS,
    evaluate_labels,
    resampled_limits,
    row_values,
)
from calmix.calibration.multi_label.multi_label_files import read_multi_label_predictions
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError


@dataclass(frozen=True, eq=False)
class MultiLabelSource:
    """One set of multi-label predictions to evaluate."""

    name: str
    predictions: MultiLabelPredictions
    origin: int = 0
    split: str | None = None
    stage: str | None = None
    thresholds: Mapping[str, float] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def open_label_sources(path: Path, origin: int, columns: ColumnMapping | None) -> list[MultiLabelSource]:
    """A predictions file as it is, or every split of a run, calibrated and uncalibrated."""
    if not path.is_dir():
        return [MultiLabelSource(str(path), read_multi_label_predictions(path, columns), origin)]
    run = RunDirectory.open(path)
    found = []
    for split, stages in run.metrics()["splits"].items():
        name = f"{run.path}:{split}"
        facts = {"in_sample": True} if stages["calibrated"].get("in_sample") else {}
        calibrated = label_predictions_of_run(run, split, calibrated=True)
        raw = label_predictions_of_run(run, split, calibrated=False)
        thresholds = run.metrics()["thresholds"]
        found.append(MultiLabelSource(name, calibrated, origin, split, "calibrated", thresholds, facts))
        found.append(MultiLabelSource(f"{name} (uncalibrated)", raw, origin, split, "uncalibrated"))
    return found


def label_predictions_of_run(
    run: RunDirectory, split: str, *, calibrated: bool = False
) -> MultiLabelPredictions:
    """The predictions of a multi-label run; with `calibrated`, after the scaling of its labels."""
    predictions = read_multi_label_predictions(run.stored_predictions(split))
    if not calibrated:
        return predictions
    scaling = run.metrics()["label_scaling"]
    scale, bias = ([scaling[part][name] for name in predictions.label_names] for part in ("scale", "bias"))
    return predictions.scaled(scale, bias)


def evaluate_label_sources(sources: Sequence[MultiLabelSource], **settings: Any) -> dict[str, Any]:
    """`{"files": [...], "differences": [...]}`, as `evaluate_sources` gives it for rows of one label."""
    files = []
    for source in sources:
        try:
            measured = evaluate_labels(source.predictions, thresholds=source.thresholds, **settings)
        except ValueError as error:
            raise UserError(str(error), file=source.name) from None
        stage = {} if source.stage is None else {"stage": source.stage}
        files.append({"file": source.name, **stage, **measured, **source.facts})
    differences: list[dict[str, Any]] = []
    for first, second in combinations(sources, 2):
        if are_comparable(first, second):
            differences += _differences(first, second, int(settings.get("seed", 0)))
    return {"files": files, "differences": differences, "multi_label": True}


def _differences(first: MultiLabelSource, second: MultiLabelSource, seed: int) -> list[dict[str, Any]]:
    names = {"first": first.name, "second": second.name}
    try:
        matched, how = match_label_rows(first.predictions, second.predictions)
    except DifferentRows as different:
        nothing = {"matched_by": None, "metric": None, "difference": None, "ci": None}
        return [{**names, **nothing, "reason": str(different)}]
    rows = row_values(first.predictions, first.thresholds) - row_values(matched, second.thresholds)
    limits = resampled_limits(rows, seed)
    return [
        {
            **names,
            "matched_by": how,
            "metric": metric,
            "difference": float(rows[:, place].mean()),
            "ci": limits[place],
        }
        for place, metric in enumerate(ROW_METRICS)
    ]


def match_label_rows(
    first: MultiLabelPredictions, second: MultiLabelPredictions
) -> tuple[MultiLabelPredictions, MatchedBy]:
    """`second` in the order of `first`: its labels by name, its rows by row id where both have ids, else by
    position."""
    try:
        second = second.with_label_order(first.label_names)
    except DifferentClasses as different:
        raise DifferentRows(str(different).replace("classes", "labels")) from None
    if len(first) != len(second):
        raise DifferentRows(f"{len(first):,} and {len(second):,} rows")
    how: MatchedBy = "position"
    if first.ids is not None and second.ids is not None:
        how = "row_id"
        place = {row_id: position for position, row_id in enumerate(second.ids.tolist())}
        if len(place) < len(second) or any(row_id not in place for row_id in first.ids.tolist()):
            raise DifferentRows("the row ids differ")
        second = second.select(np.array([place[row_id] for row_id in first.ids.tolist()]))
    differing = np.flatnonzero((first.targets != second.targets).any(axis=1))
    if differing.size:
        raise DifferentRows(f"the labels differ in {differing.size} rows, first in row {differing[0] + 1}")
    return second, how
