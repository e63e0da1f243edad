"""One forward pass of a row: its margin, the probability of its label, the predicted class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Observations(NamedTuple):
    """One forward pass of a batch, row by row."""

    gold_probability: npt.NDArray[np.float64]
    margin: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.int64]


def observe(logits: npt.ArrayLike, labels: npt.ArrayLike) -> Observations:
    """Gold probability, margin and prediction of each row, in float64 whatever the logits' dtype.

        p_y = exp(z_y − log Σ_k exp z_k)        M = z_y − max_{k≠y} z_k        prediction = argmax_k z_k

    The prediction is the lowest index on ties. The largest other logit is read off the two largest, so no
    −∞ mask is needed (it overflows or turns to NaN in half precision).

    >>> seen = observe([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 4.0], [0.5, 0.0, -0.5]], [0, 2, 2, 1])
    >>> seen.margin.tolist()
    [1.0, -2.0, 3.0, -0.5]
    >>> seen.gold_probability.round(4).tolist()
    [0.6652, 0.1142, 0.9094, 0.3072]
    >>> seen.predicted.tolist()
    [0, 1, 2, 0]
    """
    given = np.asarray(logits)
    y = np.asarray(labels)
    if given.ndim != 2 or given.shape[1] < 2:
        raise ValueError(f"logits must be [rows, classes] with at least two classes, got shape {given.shape}")
    if y.shape != given.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(f"labels must be {len(given)} integers, got {y.dtype} of shape {y.shape}")
    z = given.astype(np.float64)
    if not np.isfinite(z).all():
        row = int(np.flatnonzero(~np.isfinite(z).all(axis=1))[0])
        raise ValueError(f"logits are not finite: row {row} of the batch is {given[row].tolist()}")
    if len(y) and (y.min() < 0 or y.max() >= z.shape[1]):
        raise ValueError(f"labels must lie in 0..{z.shape[1] - 1}, got {y.min()}..{y.max()}")
    gold = z[np.arange(len(z)), y]
    predicted = z.argmax(axis=1)
    second, largest = np.partition(z, -2, axis=1)[:, -2:].T
    other = np.where(predicted == y, second, largest)
    # log Σ exp(z − z_max) ≥ 0 never overflows; p_y is exp of a number ≤ 0.
    normaliser = np.log(np.exp(z - largest[:, None]).sum(axis=1))
    return Observations(np.exp(gold - largest - normaliser), gold - other, predicted)
