"""The reliability curves of all methods of a comparison in one diagram, each to be switched on and off.

The predictions of all seeds of a method are pooled. They are there as long as the runs are: a comparison that
is rendered again without its runs has no such diagram.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.binning import reliability_bins
from calmix.io.run_directory import RunDirectory, is_comparison
from calmix.report.comparison.comparison_tables import splits_of
from calmix.report.pages.page import Widget
from calmix.user_error import UserError

Curves = dict[str, dict[str, dict[str, list[list[float]]]]]
BINS = 10
# Of the legend and the curves: one for each method, repeated with another mark from the eighth on.
KINDS = ("ink", "blue", "red", "green", "purple", "cyan", "yellow", "grey")
MARKS = ("circle", "square", "diamond", "up", "down")


def overlay_widget(data: Mapping[str, Any]) -> Widget | None:
    """The diagram for every split; None where the runs' predictions are not there."""
    curves = comparison_curves(data)
    if not curves:
        return None
    return Widget(
        template="overlay.html",
        data={"arms": marked_arms(data, curves), "curves": curves},
        scripts=("drawing.js", "overlay.js"),
        values={"splits": splits_of(data)},
    )


def marked_arms(data: Mapping[str, Any], curves: Curves) -> list[dict[str, str]]:
    """The methods that have a curve, each with its colour and mark."""
    arms = [arm["name"] for arm in data["arms"] if arm["name"] in curves]
    return [
        {"name": name, "kind": KINDS[place % len(KINDS)], "mark": MARKS[place % len(MARKS)]}
        for place, name in enumerate(arms)
    ]


def comparison_curves(data: Mapping[str, Any]) -> Curves:
    """By arm, split and stage: mean confidence, accuracy and rows of every filled bin."""
    from calmix.experiments.comparison import store_path
    from calmix.experiments.comparison_plan import Plan

    directory = Path(data["directory"])
    if not is_comparison(directory):
        return {}
    store = store_path(directory)
    runs: dict[str, list[RunDirectory]] = {}
    for cell in Plan.read(directory).cells:
        run = RunDirectory(store / cell.fingerprint)
        if run.is_finished:
            runs.setdefault(cell.arm.name, []).append(run)
    found: Curves = {}
    for arm, members in runs.items():
        for split in splits_of(data):
            for stage in ("uncalibrated", "calibrated"):
                points = _pooled(members, split, calibrated=stage == "calibrated")
                if points:
                    found.setdefault(arm, {}).setdefault(split, {})[stage] = points
    return found


def _pooled(runs: list[RunDirectory], split: str, *, calibrated: bool) -> list[list[float]]:
    try:
        given = [predictions_of_run(run, split, calibrated=calibrated) for run in runs]
    except UserError:
        return []
    confidence = np.concatenate([predictions.confidence() for predictions in given])
    correct = np.concatenate([predictions.correct() for predictions in given])
    bins = reliability_bins(confidence, correct, bins=BINS)
    return [
        [float(bins.mean_confidence[place]), float(bins.accuracy[place]), int(bins.count[place])]
        for place in np.flatnonzero(bins.count).tolist()
    ]
