"""Which rows to label, so that a fit and a metric on the labelled rows are unbiased for all of them.

    random       n of N rows, each with the same probability; every weight is N / n
    confidence   the rows in five strata of equal size by confidence, n_h drawn from stratum h of N_h rows,
                 with weight N_h / n_h

The numbers n_h follow Neyman (1934): proportional to N_h times the standard deviation within the stratum of
what is to be measured. Whether a row is right is a coin of probability c, its confidence, so that is
sqrt(c (1 - c)): more labels at low confidence. Every stratum gets at least two rows.

The weighted sum over the sample has the sum over all rows as its expectation (Horvitz & Thompson, 1952).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.calibration.input_checks import Floats, Integers
from calmix.runtime.randomness import stream

DESIGNS = ("confidence", "random")
STRATA = 5
FEWEST_IN_STRATUM = 2


@dataclass(frozen=True)
class LabelRequest:
    """The rows to label, in random order, and what each of them stands for."""

    positions: Integers
    weights: Floats
    strata: Integers
    """From 0, the least confident rows."""


def request_labels(
    confidence: npt.ArrayLike, count: int, *, design: str = "confidence", seed: int = 0
) -> LabelRequest:
    """Draw `count` rows to label by the confidences of all.

    >>> found = request_labels(np.linspace(0.5, 1.0, 100), 20)
    >>> len(set(found.positions.tolist())), round(float(found.weights.sum()), 6)
    (20, 100.0)
    """
    values = np.asarray(confidence, dtype=np.float64)
    if design not in DESIGNS:
        raise ValueError(f"design must be one of {', '.join(DESIGNS)}, not {design!r}")
    if not 1 <= count <= len(values):
        raise ValueError(f"{count} rows to label of {len(values)}")
    groups = min(STRATA, count // FEWEST_IN_STRATUM) if design == "confidence" else 1
    stratum = strata_of(values, max(groups, 1))
    sizes = allocation(values, stratum, count)
    positions, weights = [], []
    for number, size in enumerate(sizes):
        members = np.flatnonzero(stratum == number)
        drawn = stream(seed, "labels", number).permutation(members)[:size]
        positions.append(drawn)
        weights.append(np.full(len(drawn), len(members) / size))
    chosen, weight = np.concatenate(positions), np.concatenate(weights)
    # In random order: who stops early has labelled some of every stratum.
    order = stream(seed, "labels", len(sizes)).permutation(len(chosen))
    return LabelRequest(chosen[order], weight[order], stratum[chosen][order])


def strata_of(values: Floats, groups: int) -> Integers:
    """Groups of equal size, up to one row, from the lowest values on.

    >>> strata_of(np.array([0.9, 0.5, 0.7, 0.6]), 2).tolist()
    [1, 0, 1, 0]
    """
    stratum = np.empty(len(values), dtype=np.int64)
    stratum[np.argsort(values, kind="stable")] = np.arange(len(values)) * groups // len(values)
    return stratum


def allocation(values: Floats, stratum: Integers, count: int) -> Integers:
    """How many rows of each stratum: by size and spread, at least two, and no more than there are.

    >>> allocation(np.array([0.5] * 50 + [1.0] * 50), np.repeat([0, 1], 50), 20).tolist()
    [18, 2]
    """
    sizes = np.bincount(stratum)
    clipped = np.clip(values, 0.0, 1.0)
    spread = np.bincount(stratum, np.sqrt(clipped * (1 - clipped))) + 1e-9 * sizes
    given = np.minimum(np.minimum(FEWEST_IN_STRATUM, count // len(sizes) or 1), sizes)
    while given.sum() < count:
        # The next row goes where the share is furthest behind.
        lag = np.where(given < sizes, count * spread / spread.sum() - given, -np.inf)
        given[int(np.argmax(lag))] += 1
    return np.asarray(given, dtype=np.int64)
