"""Logits for rows, from a trainer or a saved checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import Trainer

from calmix.calibration.calibrators.calibrator import load_calibrator
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames
from calmix.data.images.embedded import PREFIX
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.inference.answers import Answers
from calmix.inference.forward_passes import best_device, forward_logits
from calmix.inference.saved_classifier import ONNX_FILE, SavedClassifier
from calmix.io.memory_tables import is_in_memory
from calmix.models.inputs import Encoded, Inputs, TextInputs
from calmix.models.loading import load_inputs, load_trained, trained_labels
from calmix.runtime.hardware import check_device, prepared_processor
from calmix.runtime.progress import silence_transformers
from calmix.user_error import UserError


def predict_logits(trainer: Trainer, rows: Encoded) -> NDArray[np.float32]:
    """Logits in the order of the rows; batches are made from long to short, so that little is padded."""
    view, order = rows.by_length()
    output: Any = trainer.predict(view)  # type: ignore[arg-type]
    by_length = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    logits = np.empty(by_length.shape, dtype=np.float32)
    logits[order] = by_length
    return logits


def predict_with_checkpoint(
    directory: Path,
    rows: Rows,
    *,
    max_length: int | None = None,
    batch_size: int = 64,
    device: str = "auto",
    threads: int | None = None,
    trust_remote_code: bool = False,
) -> NDArray[np.float32]:
    """What a saved classifier says about rows."""
    silence_transformers()
    check_device(device)
    model, inputs = load_saved(directory, max_length=max_length, trust_remote_code=trust_remote_code)
    encoded = inputs.encode(rows)
    collator = inputs.collator(is_choice=encoded.is_choice)
    with prepared_processor(threads):
        return forward_logits(model, encoded, collator, batch_size=batch_size, device=place_of(model, device))


def load_saved(
    directory: Path, *, max_length: int | None = None, trust_remote_code: bool = False
) -> tuple[nn.Module, Inputs]:
    """A saved classifier, a checkpoint or exported, and what turns rows into its inputs."""
    if (directory / ONNX_FILE).is_file():
        from calmix.inference.onnx.running import load_exported

        return load_exported(directory, max_length=max_length)
    model = load_trained(directory, trust_remote_code=trust_remote_code)
    return model, load_inputs(directory, model, max_length=max_length, trust_remote_code=trust_remote_code)


def place_of(model: nn.Module, device: str) -> torch.device:
    """Where it runs. An exported network has no weights of its own to move: it stays on the CPU."""
    has_weights = next(model.parameters(), None) is not None
    return best_device(device) if has_weights else torch.device("cpu")


def row_predictions(logits: NDArray[np.float32], rows: Rows) -> Predictions:
    """With the weights and soft labels of the rows, where they have any."""
    made = Predictions.from_logits(logits, rows.labels, ids=rows.row_ids, class_names=rows.label_names)
    return made.with_rows(weights=rows.weights, targets=rows.soft_labels)


def label_predictions(logits: NDArray[np.float32], rows: Rows) -> MultiLabelPredictions:
    """Of rows with several labels, or none."""
    return MultiLabelPredictions.from_logits(
        logits, rows.multi_hot, ids=rows.row_ids, label_names=rows.label_names
    )


def classify(
    classifier: SavedClassifier,
    rows: Rows,
    *,
    batch_size: int = 64,
    device: str = "auto",
    threads: int | None = None,
    title: str | None = None,
    trust_remote_code: bool = False,
) -> Answers:
    """The calibrated logits of a saved classifier, and which texts were cut; progress under a `title`."""
    silence_transformers()
    check_device(device)
    model, inputs = load_saved(
        classifier.checkpoint, max_length=classifier.max_length, trust_remote_code=trust_remote_code
    )
    encoded = inputs.encode(rows)
    collator = inputs.collator(is_choice=encoded.is_choice)
    with prepared_processor(threads):
        logits: NDArray[Any] = forward_logits(
            model, encoded, collator, batch_size=batch_size, device=place_of(model, device), title=title
        )
    if classifier.calibrator is not None:
        calibrator = load_calibrator(classifier.calibrator)
        if calibrator.n_features_in_ != logits.shape[1]:
            raise UserError(
                f"a calibrator of {calibrator.n_features_in_} classes beside a network of {logits.shape[1]}",
                file=classifier.calibrator,
                remedy="calibrate the network again",
            )
        logits = calibrator.transform(logits)
    truncated = getattr(encoded, "truncated", np.zeros(len(rows), dtype=np.bool_))
    limit = inputs.max_length if isinstance(inputs, TextInputs) else None
    return Answers(
        rows.row_ids,
        logits,
        label_names_of(classifier, logits.shape[1]),
        truncated,
        limit,
        classifier.multi_label,
        classifier.thresholds,
    )


def label_names_of(classifier: SavedClassifier, classes: int) -> tuple[str, ...]:
    """The classes in the order of the logits; the choices of a row are numbered."""
    names = classifier.label_names or trained_labels(classifier.checkpoint)
    return names or tuple(str(index) for index in range(classes))


def predict_label_rows(
    classifier: SavedClassifier, source: str, columns: ColumnNames, settings: Mapping[str, Any]
) -> tuple[Rows, MultiLabelPredictions]:
    """The labelled rows of a source, and the calibrated predictions for them."""
    names = classifier.label_names or trained_labels(classifier.checkpoint)
    # Numbered under the name of the file, as the rows of a run are: `test.csv` meets the split `test`.
    name = "data" if is_in_memory(source) else source.removeprefix(PREFIX).rpartition("/")[2].split(".")[0]
    rows = read_rows(source, "test", columns, names, task=classifier.task, name=name or "data")
    logits = classify(classifier, rows, **settings).logits
    assert label_names_of(classifier, logits.shape[1]) == rows.label_names
    return rows, label_predictions(logits.astype("float32"), rows)
