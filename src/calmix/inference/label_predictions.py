"""What a saved classifier says about rows of several labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.data.columns import ColumnNames
from calmix.data.images.embedded import PREFIX
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.inference.saved_classifier import SavedClassifier
from calmix.io.memory_tables import is_in_memory


def predict_label_rows(
    classifier: SavedClassifier, source: str, columns: ColumnNames, settings: Mapping[str, Any]
) -> tuple[Rows, MultiLabelPredictions]:
    """The labelled rows of a source, and the calibrated predictions for them."""
    from calmix.inference.prediction import classify, label_names_of, label_predictions
    from calmix.models.loading import trained_labels

    names = classifier.label_names or trained_labels(classifier.checkpoint)
    # Numbered under the name of the file, as the rows of a run are: `test.csv` meets the split `test`.
    name = "data" if is_in_memory(source) else source.removeprefix(PREFIX).rpartition("/")[2].split(".")[0]
    rows = read_rows(source, "test", columns, names, task=classifier.task, name=name or "data")
    logits = classify(classifier, rows, **settings).logits
    assert label_names_of(classifier, logits.shape[1]) == rows.label_names
    return rows, label_predictions(logits.astype("float32"), rows)
