"""The rows to look at first.

With a verdict of the threshold filter they are the rows it flagged. Without one they are the rows of the
lowest area under the margin within their class: a reading order and no test, since hard and ambiguous rows
have low margins too. Each class is compared with itself, so that a small or hard class is not listed as a
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import id_column
from calmix.dynamics.label_noise import NoiseVerdict

# Without a test the list is what a person may read: a twentieth of the rows, at least 50.
LISTED_SHARE, LEAST_LISTED = 0.05, 50


def relative_aum(aum: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(AUM - median of the class) / spread of the class below it; rows of unknown label are one class.

    The spread is the distance from the median to the 10 % quantile over 1.2816, a standard deviation where
    margins are normal: of a class that is easy but for a few rows it is small, of a hard one large. It is at
    least a tenth of that of all rows, and that of all rows for a class of fewer than 10.

    >>> aum, labels = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0]), np.array([0, 0, 0, 1, 1, 1])
    >>> relative_aum(aum, labels).argsort(kind="stable").tolist()
    [0, 3, 1, 4, 2, 5]
    """
    relative = np.full(len(aum), np.nan)
    scored = ~np.isnan(aum)
    if not scored.any():
        return relative
    whole = _lower_spread(aum[scored]) or 1.0
    for one in np.unique(labels[scored]):
        rows = scored & (labels == one)
        values = aum[rows]
        spread = whole if len(values) < 10 else max(_lower_spread(values), 0.1 * whole)
        relative[rows] = (values - np.median(values)) / spread
    return relative


def _lower_spread(values: npt.NDArray[np.float64]) -> float:
    middle, low = np.quantile(values, [0.5, 0.1])
    return float(middle - low) / 1.2816


def suspect_rows(datamap: DataMap, verdict: NoiseVerdict | None = None) -> npt.NDArray[np.int64]:
    """Their positions, the most suspicious first."""
    if verdict is not None:
        return verdict.most_suspicious()
    relative = relative_aum(datamap.aum, datamap.labels)
    scored = np.flatnonzero(~np.isnan(relative))
    count = max(round(LISTED_SHARE * len(scored)), LEAST_LISTED)
    # Whatever its class: a row whose label outranked all others on average is not worth the reading.
    listed = scored[(datamap.aum[scored] < 0)]
    return listed[np.lexsort((datamap.aum[listed], relative[listed]))][:count].astype(np.int64)


def list_suspects(
    datamap: DataMap, verdict: NoiseVerdict | None = None, texts: Sequence[str] | None = None
) -> pa.Table:
    """One line per suspect, the most suspicious first.

    row_id, label, predicted_label   names where the map has them; the class predicted in most epochs
    aum, confidence                  those of the map
    relative_aum                     the AUM within the class, see `relative_aum`
    score, pass_aum                  with a verdict: see `verdict_table`
    text                             with texts, one per row of the map
    """
    rows = suspect_rows(datamap, verdict)
    predicted = datamap.predicted_label
    columns: dict[str, Any] = {
        "row_id": id_column(datamap.row_ids[rows]),
        "label": _names(datamap.labels[rows], datamap.class_names),
        "predicted_label": pa.nulls(len(rows), pa.string())
        if predicted is None
        else _names(predicted[rows], datamap.class_names),
        "aum": _nullable(datamap.aum[rows]),
        "relative_aum": _nullable(relative_aum(datamap.aum, datamap.labels)[rows]),
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
            "row_id": id_column(datamap.row_ids),
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
    indices = pa.array(labels, pa.int64(), mask=labels < 0)
    return pa.array(names, pa.string()).take(indices) if names else indices.cast(pa.string())


def _nullable(values: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
