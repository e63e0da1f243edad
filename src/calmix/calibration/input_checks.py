"""What the metrics accept: arrays become float64; invalid values are refused, never repaired.

Every refusal is a `ValueError` that says what is wrong and in which row (counted from 0). Files know rows
and columns by other names, so a row that is known travels along in `BadRow.row`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Half precision and files rounded to four digits sum to 1 within this; anything further off is no
# distribution.
NORMALISATION_TOLERANCE = 1e-3
# Values per block of rows.
BLOCK_VALUES = 1 << 17
# Weights whose largest lies between 2^-300 and 2^300 are taken as they are: their squares, and the sums of
# those, stay far within float64.
WEIGHT_EXPONENTS = 300


Flaw = Literal["not finite", "not normalised", "negative", "label", "other"]


class BadRow(ValueError):
    """A value that makes no sense: what is wrong with it, the row (from 0) in which it first stands and,
    where one score is to blame, its class."""

    def __init__(self, problem: str, row: int, flaw: Flaw = "other", *, place: int | None = None) -> None:
        super().__init__(f"{problem} (row {row})")
        self.problem = problem
        self.row = row
        self.flaw = flaw
        self.place = place


def as_array(values: Any) -> npt.NDArray[Any]:
    """What numpy does not take by itself: tensors with a gradient or in bfloat16, and nullable columns of
    pandas, whose gaps become NaN."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if "bfloat16" in str(values.dtype):
            values = values.float()
    array = np.asarray(values)
    if array.dtype.name == "bfloat16":  # of ml_dtypes
        return array.astype(np.float32)
    if array.dtype == object and hasattr(values, "to_numpy"):
        if any(isinstance(value, str | bytes) for value in array.flat):
            return array  # "1" may be the name of a class: a text is no number, whatever it looks like
        try:
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            return array
    return array


def both_classes(scores: npt.NDArray[Any], name: str) -> Floats:
    """Two columns from one score of the second of two classes: (1 - p, p), or (0, z) for log-odds z.

    >>> both_classes(np.array([0.25]), "probabilities").tolist()
    [[0.75, 0.25]]
    >>> both_classes(np.array([-3.0]), "logits").tolist()
    [[0.0, -3.0]]
    """
    positive = _as_float64(scores, name)
    if name == "logits":
        return np.stack([np.zeros(len(positive)), positive], axis=1)
    outside = np.flatnonzero(~((positive >= 0) & (positive <= 1)))
    if outside.size:
        row = int(outside[0])
        if not np.isfinite(positive[row]):
            raise BadRow("probabilities must be finite", row, "not finite")
        raise BadRow(f"a probability must lie in [0, 1], not {positive[row]:.6g}", row, "negative")
    return np.stack([1 - positive, positive], axis=1)


def check_scores(scores: npt.ArrayLike, *, name: str) -> npt.NDArray[np.floating[Any]]:
    """A finite, non-empty [n, C] array with C >= 2; float16 becomes float32 (lossless), integers float64."""
    array = as_array(scores)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    if array.dtype not in (np.float32, np.float64):
        array = _as_float64(array, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape [rows, classes], not {array.shape}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} are empty")
    if array.shape[1] < 2:
        raise ValueError(f"{name} need at least two classes, one column each; there is {array.shape[1]}")
    return array


def check_logits(logits: npt.ArrayLike, *, ruled_out: bool = False) -> npt.NDArray[np.floating[Any]]:
    """Finite logits [n, C]. With `ruled_out`, minus infinity is one too: a class of probability 0."""
    array = check_scores(logits, name="logits")
    # A finite sum proves finite terms in one pass; only an overflow or a bad value needs the closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total) and not (finite := np.isfinite(array)).all():
        bad = ~finite & ~(np.isneginf(array) & ruled_out)
        bad |= ~finite.any(axis=1, keepdims=True)  # no class is left
        if bad.any():
            row, place = (int(index) for index in np.argwhere(bad)[0])
            raise BadRow("logits must be finite", row, "not finite", place=place)
    return array


def check_probabilities(probabilities: npt.ArrayLike) -> npt.NDArray[np.floating[Any]]:
    """Rows of an [n, C] array that are distributions: no NaN, none below 0, sum 1 within 1e-3."""
    array = check_scores(probabilities, name="probabilities")
    # Block by block, so that the second look finds the values still in the processor's cache.
    step = max(BLOCK_VALUES // array.shape[1], 1)
    for start in range(0, len(array), step):
        check_distributions(array[start : start + step], start)
    return array


def check_distributions(block: npt.NDArray[np.floating[Any]], start: int) -> None:
    """Refuse rows that are no distributions; the first row of the block is the row `start` of the whole."""
    # NaN and infinity make the sum of their row NaN or infinite, so this one test refuses them too.
    sums = block @ np.ones(block.shape[1], dtype=block.dtype)
    normalised = np.abs(sums - 1.0) <= NORMALISATION_TOLERANCE
    if not normalised.all():
        row = int(np.flatnonzero(~normalised)[0])
        if not (finite := np.isfinite(block[row])).all():
            place = int(np.flatnonzero(~finite)[0])
            raise BadRow("probabilities must be finite", start + row, "not finite", place=place)
        raise BadRow(f"probabilities must sum to 1, not {sums[row]:.6g}", start + row, "not normalised")
    if block.min() < 0:
        row, place = (int(index) for index in np.argwhere(block < 0)[0])
        raise BadRow("probabilities must not be negative", start + row, "negative", place=place)


def check_labels(labels: npt.ArrayLike, *, rows: int, classes: int) -> Integers:
    """Class indices 0..C-1, one per row; booleans and integral floats are taken as integers."""
    array = as_array(labels)
    if array.ndim != 1:
        raise ValueError(f"labels must have shape [rows], not {array.shape}")
    if len(array) != rows:
        raise ValueError(f"{rows} rows of scores but {len(array)} labels")
    if array.dtype.kind not in "iub":
        numbers = _as_float64(array, "labels")
        fractional = ~(numbers == np.floor(numbers))  # NaN is caught here as well
        if fractional.any():
            row = int(np.flatnonzero(fractional)[0])
            raise BadRow(f"labels must be class indices, not {numbers[row]}", row, "label")
        array = numbers
    # Compare before the cast: an unsigned 2**64 - 1 must not become -1.
    outside = (array < 0) | (array >= classes)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise BadRow(f"label {array[row]} is outside 0..{classes - 1}", row, "label")
    return array.astype(np.int64, copy=False)


def check_confidence(confidence: npt.ArrayLike) -> Floats:
    """A non-empty vector in [0, 1], as float64: cast before anything is compared with a bin edge."""
    array = _as_float64(np.asarray(confidence), "confidence")
    if array.ndim != 1:
        raise ValueError(f"confidence must have shape [rows], not {array.shape}")
    if array.size == 0:
        raise ValueError("confidence is empty")
    low, high = array.min(), array.max()
    if not (low >= 0.0 and high <= 1.0):
        row = int(np.flatnonzero(~((array >= 0.0) & (array <= 1.0)))[0])
        raise BadRow(f"confidence must lie in [0, 1], not {array[row]:.6g}", row)
    return array


def check_correct(correct: npt.ArrayLike, *, rows: int) -> Floats:
    """One 0 or 1 (or boolean) per row, as float64."""
    array = np.asarray(correct)
    if array.shape != (rows,):
        raise ValueError(f"correct must have shape ({rows},) like confidence, not {array.shape}")
    if array.dtype == np.bool_:
        return array.astype(np.float64)
    array = _as_float64(array, "correct")
    wrong = (array != 0.0) & (array != 1.0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadRow(f"correct must be 0 or 1, not {array[row]:.6g}", row)
    return array


def check_weights(weights: npt.ArrayLike | None, *, rows: int) -> Floats | None:
    """One finite weight >= 0 per row, not all of them 0; None means equal weights.

    No metric depends on the weights' common scale, so extreme ones are brought near 1 by a power of two,
    which rounds nothing: the squares of 1e160 are beyond float64.
    """
    array = check_batch_weights(weights, rows=rows)
    if array is None:
        return None
    largest = float(array.max(initial=0.0))
    if largest == 0.0:
        raise ValueError("weights are all 0")
    exponent = weight_exponent(largest)
    return array if abs(exponent) <= WEIGHT_EXPONENTS else np.ldexp(array, -exponent)


def check_batch_weights(weights: npt.ArrayLike | None, *, rows: int) -> Floats | None:
    """The weights of one batch of several, as they are: all of them may be 0."""
    if weights is None:
        return None
    array = _as_float64(np.asarray(weights), "weights")
    if array.shape != (rows,):
        raise ValueError(f"weights must have shape ({rows},), not {array.shape}")
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadRow(f"weights must be finite and not negative, not {array[row]}", row)
    return array


def weight_exponent(largest: float) -> int:
    """The power of two just above a weight.

    >>> weight_exponent(1.0), weight_exponent(5.0)
    (1, 3)
    """
    return math.frexp(largest)[1]


def check_fraction(value: float, *, name: str) -> float:
    """A number strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value}")
    return float(value)


def check_level(level: float) -> float:
    """The level of an interval, as 0.95."""
    return check_fraction(level, name="level")


def _as_float64(array: npt.NDArray[Any], name: str) -> Floats:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, not {array.dtype}")
    return array.astype(np.float64, copy=False)
