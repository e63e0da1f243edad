"""The check that a saved checkpoint holds what was folded into it: it is loaded again, and predicts.

A fold can be lost between memory and disk. A head without a bias is given one that `from_pretrained` does
not load; a network may scale its logits after the layer that was folded into. So the reloaded checkpoint's
probabilities are compared, on real rows, with those that the calibrator gives for the original logits.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax

from calmix.data.rows import Rows
from calmix.inference.forward_passes import forward_logits
from calmix.models.hf_compat import has_independent_labels
from calmix.models.inputs import ImageInputs, Inputs
from calmix.models.loading import load_trained
from calmix.runtime.randomness import stream

ROWS = 32
# Float32 logits of a few hundred differ by some 1e-5 after their weights were scaled and rounded.
TOLERANCE = 1e-4


def scaled_tolerance(scale: NDArray[np.float64]) -> float:
    """Of logits that were scaled: what was rounded away in them before is as many times as large.

    >>> scaled_tolerance(np.array([0.5, 20.0])), scaled_tolerance(np.array([0.5]))
    (0.002, 0.0001)
    """
    return TOLERANCE * max(1.0, float(np.max(scale)))


def reloaded_error(
    directory: Path,
    encoded: Any,
    collator: Any,
    expected: NDArray[np.float64],
    *,
    device: torch.device,
    trust_remote_code: bool = False,
) -> float:
    """The largest difference between the probabilities of the checkpoint in `directory`, loaded as anybody
    would, and the expected ones [n, C] of the same rows."""
    model = load_trained(directory, trust_remote_code=trust_remote_code)
    logits = forward_logits(model, encoded, collator, device=device).astype(np.float64)
    probabilities = expit(logits) if has_independent_labels(model) else softmax(logits, axis=1)
    return float(np.abs(probabilities - expected).max())


def made_up_rows(inputs: Inputs, *, is_choice: bool) -> Rows:
    """Random words or pixels, for a run whose own rows are no longer there."""
    generator = stream(0, "fold proof")
    names = [f"made-up-{place}" for place in range(ROWS)]
    if isinstance(inputs, ImageInputs):
        from PIL import Image

        pictures = []
        for _ in names:
            file = io.BytesIO()
            pixels = generator.integers(0, 256, (*(inputs.size or (32, 32)), 3), dtype=np.uint8)
            Image.fromarray(pixels).save(file, "PNG")
            pictures.append(file.getvalue())
        return Rows.from_images(names, pictures)
    tokens = generator.integers(0, len(inputs.tokenizer), (ROWS, 4, 8))
    texts = [
        [str(inputs.tokenizer.decode(one.tolist(), skip_special_tokens=True)) or "a" for one in row]
        for row in tokens
    ]
    choices = [row[1:] for row in texts] if is_choice else None
    return Rows.from_columns(names, [row[0] for row in texts], choices=choices)
