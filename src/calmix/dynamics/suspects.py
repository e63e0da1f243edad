"""The rows to look at first: those whose label is probably wrong.

With a verdict of the threshold filter they are the rows it flagged. Without one they are the rows with a
negative area under the margin, for which some other class outranked the label on average; that is a ranking
of candidates and no test, since hard and ambiguous rows have low margins too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_noise import NoiseVerdict


def suspect_rows(datamap: DataMap, verdict: NoiseVerdict | None = None) -> npt.NDArray[np.int64]:
    """Their positions, the most suspicious first."""
    if verdict is not None:
        return verdict.most_suspicious()
    negative = np.flatnonzero(datamap.aum < 0)
    return negative[np.argsort(datamap.aum[negative], kind="stable")].astype(np.int64)


def suspect_table(
    datamap: DataMap, verdict: NoiseVerdict | None = None, texts: Sequence[str] | None = None
) -> pa.Table:
    """One line per suspect, the most suspicious first.

    row_id, label, predicted_label   names where the map has them; the class predicted in most epochs
    aum, confidence                  those of the map
    score, pass_aum                  with a verdict: see `verdict_table`
    text                             with texts, one per row of the map
    """
    rows = suspect_rows(datamap, verdict)
    predicted = datamap.predicted_label
    columns: dict[str, Any] = {
        "row_id": pa.array(datamap.row_ids[rows].astype(np.str_), type=pa.string()),
        "label": _names(datamap.labels[rows], datamap.class_names),
        "predicted_label": pa.nulls(len(rows), pa.string())
        if predicted is None
        else _names(predicted[rows], datamap.class_names),
        "aum": _nullable(datamap.aum[rows]),
        "confidence": _nullable(datamap.confidence[rows]),
    }
    if verdict is not None:
        columns["score"] = _nullable(verdict.level[rows])
        columns["pass_aum"] = _nullable(verdict.aum[rows])
    if texts is not None:
        columns["text"] = pa.array([texts[row] for row in rows.tolist()], type=pa.string())
    return pa.table(columns)


def verdict_table(datamap: DataMap, verdict: NoiseVerdict) -> pa.Table:
    """What the threshold filter says about every row of the map, in its order.

    row_id, label
    flagged     bool, null for a row that was an original in no pass
    score       share of threshold samples with a lower AUM, mean over the passes: 0 looks as wrong as the
                most wrong label, 1 as right as no wrong one
    pass_aum    the AUM in the passes, mean over those in which the row was an original
    """
    if len(verdict.flagged) != len(datamap):
        raise ValueError(f"{len(verdict.flagged)} verdicts for {len(datamap)} rows")
    return pa.table(
        {
            "row_id": pa.array(datamap.row_ids.astype(np.str_), type=pa.string()),
            "label": pa.array(datamap.labels, mask=datamap.labels < 0),
            "flagged": pa.array(verdict.flagged, mask=verdict.unscored),
            "score": _nullable(verdict.level),
            "pass_aum": _nullable(verdict.aum),
        }
    )


def _names(labels: npt.NDArray[np.int64], names: tuple[str, ...]) -> pa.Array:
    """
    >>> _names(np.array([1, -1]), ("no", "yes")).to_pylist(), _names(np.array([1]), ()).to_pylist()
    (['yes', None], ['1'])
    """
    named = [None if label < 0 else names[label] if names else str(label) for label in labels.tolist()]
    return pa.array(named, type=pa.string())


def _nullable(values: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
