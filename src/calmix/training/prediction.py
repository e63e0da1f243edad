"""Logits for rows, from a trainer or a saved checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax
from transformers import Trainer

from calmix.calibration.predictions import Predictions
from calmix.data.rows import Rows
from calmix.models.inputs import Encoded
from calmix.models.loading import load_inputs, load_trained
from calmix.training.forward_passes import best_device, forward_logits
from calmix.training.hardware import check_device, prepared_processor
from calmix.training.progress import hush


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
    hush()
    check_device(device)
    model = load_trained(directory, trust_remote_code=trust_remote_code)
    inputs = load_inputs(directory, model, max_length=max_length, trust_remote_code=trust_remote_code)
    encoded = inputs.encode(rows)
    collator = inputs.collator(is_choice=encoded.is_choice)
    with prepared_processor(threads):
        return forward_logits(model, encoded, collator, batch_size=batch_size, device=best_device(device))


def as_predictions(logits: NDArray[np.float32], rows: Rows) -> Predictions:
    return Predictions.from_logits(logits, rows.labels, ids=rows.row_ids, class_names=rows.label_names)


def answer_table(
    rows: Rows,
    logits: NDArray[np.float32],
    label_names: Sequence[str],
    threshold: float | None,
    *,
    decides: bool,
) -> pa.Table:
    """One line per row: its id, label, confidence, every class's probability and, where it `decides`, whether
    the answer is accepted. Without a threshold none is."""
    probabilities = softmax(logits.astype(np.float64), axis=1)
    confidence = probabilities.max(axis=1)
    columns: dict[str, Any] = {
        "row_id": rows.row_ids,
        "label": [label_names[index] for index in probabilities.argmax(axis=1)],
        "confidence": confidence,
    }
    if decides:
        columns["accept"] = confidence >= (np.inf if threshold is None else threshold)
    columns |= {f"prob_{name}": probabilities[:, index] for index, name in enumerate(label_names)}
    return pa.table(columns)
