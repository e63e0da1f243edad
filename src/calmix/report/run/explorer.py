"""The predictions of a run as its page holds them, for the controls of the reliability diagram.

A page answers for any temperature. Up to `MOST_ROWS` rows it holds every row's logits and computes what
Python would, in double precision. Of larger sets it holds, for each of `TEMPERATURES`, the rows added up in
cells of confidence, and the most confident mistakes by name.

    cells: edges 0, 0.001, ..., 0.98, then in steps of log10(1 - confidence): where most rows are, near 1,
    a thousandth would be coarse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.calibration.predictions import Predictions
from calmix.report.pages.embedding import base64_array

# Rows of all splits together that a page lists; and their values, of all classes.
MOST_ROWS = 20_000
MOST_VALUES = 600_000
TEXT_LIMIT = 400
# Characters of all texts together: beyond, they are cut to the same shorter length.
TEXT_BUDGET = 2_500_000
MISTAKES = 200
# Of the grid of large pages: two steps in every 20 %.
TEMPERATURES = tuple(float(round(10 ** (step / 25), 4)) for step in range(-25, 26))
LARGEST_MATRIX = 60


def explorer_data(
    splits: Mapping[str, Predictions],
    metrics: Mapping[str, Any],
    texts: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """What the page's script reads. `splits` are uncalibrated; of a calibrator that is more than
    a temperature, calibrated, and the temperature is 1. `texts` in the order of their rows."""
    rows = sum(map(len, splits.values()))
    values = sum(predictions.values.size for predictions in splits.values())
    lists_rows = rows <= MOST_ROWS and values <= MOST_VALUES
    temperature = float(metrics.get("temperature", 1.0))
    limit = min(TEXT_LIMIT, max(TEXT_BUDGET // max(rows, 1), 40))
    first = next(iter(splits.values()))
    found = []
    for name, predictions in splits.items():
        said = (texts or {}).get(name)
        content = _rows(predictions, said, limit) if lists_rows else _cells(predictions, said, temperature)
        in_sample = bool(metrics["splits"][name]["calibrated"].get("in_sample", False))
        found.append({"name": name, "n": len(predictions), "in_sample": in_sample, **content})
    return {
        "classes": list(first.class_names),
        "temperature": temperature,
        "bins": int(metrics["ece_bins"]),
        "closed": metrics["ece_edges"],
        "splits": found,
    }


def _rows(predictions: Predictions, texts: Sequence[str] | None, limit: int) -> dict[str, Any]:
    """Every row: logits as they are; probabilities as their logarithms, as `with_temperature` does."""
    values = predictions.values if predictions.kind == "logits" else predictions.log_probabilities()
    kind = "<f4" if values.dtype.itemsize <= 4 else "<f8"
    return {
        "kind": "rows",
        "precision": 8 * int(kind[-1]),
        "logits": base64_array(values, kind),
        "labels": base64_array(predictions.labels, "<i4"),
        "ids": _ids(predictions).tolist(),
        "texts": None if texts is None else [cut(text, limit) for text in texts],
    }


def _cells(predictions: Predictions, texts: Sequence[str] | None, fitted: float) -> dict[str, Any]:
    """Sums by cell of confidence for every temperature of the grid, and the most confident mistakes."""
    correct, predicted = predictions.correct(), predictions.predicted()
    classes = predictions.classes
    grid = sorted({*TEMPERATURES, 1.0, fitted})
    stages = []
    for temperature in grid:
        scaled = predictions.with_temperature(temperature)
        confidence = scaled.confidence()
        cell = cell_of(confidence)
        rows = np.bincount(cell, minlength=CELLS)
        filled = np.flatnonzero(rows)
        stages.append(
            {
                "temperature": temperature,
                "nll": float(-scaled.gold_log_probability().mean()),
                "cell": base64_array(filled, "<u2"),
                "rows": base64_array(rows[filled], "<u4"),
                "right": base64_array(np.bincount(cell[correct], minlength=CELLS)[filled], "<u4"),
                "confidence": base64_array(
                    np.bincount(cell, weights=confidence, minlength=CELLS)[filled] / rows[filled], "<f8"
                ),
                "by_class": base64_array(
                    np.bincount(predicted, weights=confidence, minlength=classes), "<f8"
                ),
            }
        )
    return {
        "kind": "cells",
        "edges": base64_array(EDGES, "<f8"),
        "stages": stages,
        "confusion": base64_array(_confusion(predictions), "<u4") if classes <= LARGEST_MATRIX else None,
        "mistakes": _mistakes(predictions.with_temperature(fitted), texts),
    }


def _edges() -> NDArray[np.float64]:
    near_one = 1 - 10.0 ** -np.linspace(-np.log10(0.02), 9, 230)
    return np.concatenate([np.arange(981) / 1000, near_one[1:], [1.0]])


EDGES = _edges()
CELLS = len(EDGES) - 1


def cell_of(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of each confidence, closed on the left; 1 is in the last.

    >>> cell_of(np.array([0.0, 0.5, 0.9805, 1.0])).tolist() == [0, 500, 980, CELLS - 1]
    True
    """
    return np.minimum(np.searchsorted(EDGES, confidence, side="right") - 1, CELLS - 1)


def _confusion(predictions: Predictions) -> NDArray[np.int64]:
    classes = predictions.classes
    pair = predictions.labels * classes + predictions.predicted()
    return np.bincount(pair, minlength=classes * classes)


def _mistakes(predictions: Predictions, texts: Sequence[str] | None) -> list[dict[str, Any]]:
    wrong = np.flatnonzero(~predictions.correct())
    confidence = predictions.confidence()[wrong]
    order = wrong[np.argsort(-confidence, kind="stable")[:MISTAKES]]
    ids, predicted, certain = _ids(predictions), predictions.predicted(), predictions.confidence()
    return [
        {
            "id": str(ids[row]),
            "label": int(predictions.labels[row]),
            "predicted": int(predicted[row]),
            "confidence": float(certain[row]),
            "text": None if texts is None else cut(texts[row], TEXT_LIMIT),
        }
        for row in order.tolist()
    ]


def _ids(predictions: Predictions) -> NDArray[np.str_]:
    if predictions.ids is not None:
        return predictions.ids
    return np.array([str(row) for row in range(1, len(predictions) + 1)])


def cut(text: str, limit: int) -> str:
    """
    >>> cut("a long text", 6), cut("short", 6)
    ('a long…', 'short')
    """
    return text if len(text) <= limit else text[:limit].rstrip() + "…"
