"""The label issues found, in the form cleanlab users know.

    is_label_issue, label_quality, given_label, predicted_label

as in `CleanLearning.get_label_issues()`, one line per row of the data set in its order, with `row_id` in
front, labels as indices. `CleanLearning().fit(X, labels, label_issues=table.to_pandas())` takes it where
every row was judged: after `calmix map RUN --retrain`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
from scipy.special import expit

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import id_column
from calmix.dynamics.label_noise import NoiseVerdict
from calmix.io.run_directory import replacing
from calmix.io.spreadsheet import spreadsheet_safe


def cleanlab_issues(datamap: DataMap, verdict: NoiseVerdict | None = None) -> pa.Table:
    """One line per row: whether its label is an issue, how good the label is (0 bad, 1 good), what it may be.

    An issue is a row that the threshold filter flagged. Without a `verdict` nothing was tested, and the
    column is null; it is null for a row that the filter could not judge, too. The quality is
    1/(1 + exp(−AUM)): the probability of the given class against its strongest rival at the mean margin. The
    predicted label is the class predicted in most epochs. Rows without a score have a null quality.
    """
    aum = datamap.aum if verdict is None else verdict.aum
    issue = (
        pa.nulls(len(datamap), pa.bool_())
        if verdict is None
        else pa.array(verdict.flagged, mask=verdict.unscored)
    )
    if len(aum) != len(datamap):
        raise ValueError(f"{len(aum)} verdicts for {len(datamap)} rows")
    predicted = datamap.predicted_label
    return pa.table(
        {
            "row_id": id_column(datamap.row_ids),
            "is_label_issue": issue,
            "label_quality": pa.array(expit(aum), mask=np.isnan(aum)),
            "given_label": _indices(datamap.labels),
            "predicted_label": _indices(np.full(len(datamap), -1) if predicted is None else predicted),
        }
    )


def write_cleanlab_issues(path: str | Path, datamap: DataMap, verdict: NoiseVerdict | None = None) -> None:
    """The table of `cleanlab_issues` as csv."""
    with replacing(Path(path)) as fresh:
        pa.csv.write_csv(spreadsheet_safe(cleanlab_issues(datamap, verdict)), fresh)


def _indices(labels: npt.NDArray[Any]) -> pa.Array:
    return pa.array(labels.astype(np.int64), mask=labels < 0)
