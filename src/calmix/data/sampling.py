"""Parts of `Rows`: stratified, so that every class keeps its share, or random.

Which rows are taken depends on their ids and the seed alone, not on their order: the rows of a class
are ranked by a hash of seed, purpose and id. A file that was shuffled but has an id column gives the
same parts.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from calmix.data.duplicates import input_keys, repeated
from calmix.data.rows import Rows
from calmix.io.arrow_values import ArrowColumn


def stratified_split(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """Cut a fraction off every class: (the rest, the part), both in their old order.

    The part has ⌊fraction · n + ½⌋ rows and at least one, but leaves a row of every class in the rest; it
    is empty if every class has a single row. Rows with the same input stay on one side, which moves the size
    of the part a little where there are such rows.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction {fraction}: expected a number between 0 and 1")
    counts = _class_counts(rows)
    spare = np.maximum(counts - 1, 0)
    # The tiny term keeps 0.29 · 100 = 28.999... from losing its row.
    wanted = max(1, math.floor(fraction * len(rows) + 0.5 + 1e-9))
    part = _pick(rows, apportion(counts, wanted, np.zeros_like(counts), spare), seed, "split")
    part = _together(rows, part, seed)
    rest = np.setdiff1d(np.arange(len(rows)), part)
    return rows.select(rest), rows.select(part)


def stratified_sample(rows: Rows, n: int, seed: int) -> Rows:
    """At most n rows, every class with its share and, where n allows it, at least one row; in old order."""
    if n < 1:
        raise ValueError(f"a sample of {n} rows: expected at least one")
    if n >= len(rows):
        return rows
    counts = _class_counts(rows)
    present = np.minimum(counts, 1)
    lower = present if present.sum() <= n else np.zeros_like(counts)
    return rows.select(_pick(rows, apportion(counts, n, lower, counts), seed, "sample"))


def random_sample(rows: Rows, n: int, seed: int) -> Rows:
    """At most n rows, each as likely as any other whatever its class; in old order.

    The classes of a small sample are then as uneven as chance has it, as where papers draw 32 rows. Where not
    one row of a second class is among them, the last one makes room for one: one class cannot be trained on.
    """
    if n < 1:
        raise ValueError(f"a sample of {n} rows: expected at least one")
    if n >= len(rows):
        return rows
    order = np.argsort(_ranks(rows, seed, "random sample"), kind="stable")
    taken = order[:n]
    strata = rows.strata
    if n > 1 and len(np.unique(strata[taken])) == 1:
        others = order[strata[order] != strata[taken[0]]]
        taken = np.append(taken[:-1], others[:1]) if len(others) else taken
    return rows.select(np.sort(taken))


def apportion(
    counts: NDArray[np.int64], total: int, lower: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Divide `total` in proportion to `counts` by largest remainders, within bounds, in exact integers.

    >>> apportion(np.array([50, 30, 20]), 10, np.zeros(3, int), np.array([50, 30, 20])).tolist()
    [5, 3, 2]
    >>> apportion(np.array([97, 2, 1]), 10, np.array([1, 1, 1]), np.array([97, 2, 1])).tolist()
    [8, 1, 1]
    """
    total = int(np.clip(total, lower.sum(), upper.sum()))
    whole = max(int(counts.sum()), 1)
    shares = np.clip(counts * total // whole, lower, upper)
    while shares.sum() != total:
        shortfall = counts * total - shares * whole
        if shares.sum() < total:
            shares[np.where(shares < upper, shortfall, np.iinfo(np.int64).min).argmax()] += 1
        else:
            shares[np.where(shares > lower, shortfall, np.iinfo(np.int64).max).argmin()] -= 1
    return shares


def _together(rows: Rows, part: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The part with every group of equal inputs on one side: where its row of the lowest rank is."""
    groups = repeated(input_keys(rows))
    if not groups:
        return part
    ranks = _ranks(rows, seed, "split")
    labels = rows.strata
    inside = np.zeros(len(rows), dtype=bool)
    inside[part] = True
    left = np.bincount(labels[~inside], minlength=int(labels.max()) + 1)
    for group in groups:
        members = np.asarray(group)
        if inside[members].all() or not inside[members].any():
            continue
        leaving = np.bincount(labels[members[~inside[members]]], minlength=len(left))
        # Not if a class would then have no row to train on.
        goes = (
            inside[members[ranks[members].argmin()]] and not (leaving[leaving > 0] == left[leaving > 0]).any()
        )
        left += np.bincount(labels[members[inside[members]]], minlength=len(left)) if not goes else -leaving
        inside[members] = goes
    return np.flatnonzero(inside)


def _class_counts(rows: Rows) -> NDArray[np.int64]:
    least = rows.class_count if rows.is_labelled else 1
    return np.bincount(rows.strata, minlength=least).astype(np.int64)


def _pick(rows: Rows, shares: NDArray[np.int64], seed: int, purpose: str) -> NDArray[np.int64]:
    """The first `shares[c]` rows of every class c by hash, as sorted positions."""
    labels = rows.strata
    order = np.lexsort((_ranks(rows, seed, purpose), labels))
    starts = np.searchsorted(labels[order], np.arange(len(shares)))
    picked = [order[start : start + share] for start, share in zip(starts, shares, strict=True)]
    return np.sort(np.concatenate(picked)).astype(np.int64)


def _ranks(rows: Rows, seed: int, purpose: str) -> NDArray[np.uint64]:
    key = f"{purpose}/{seed}/"
    ids = ArrowColumn(rows.table.column("row_id"), rows.source, "row_id")
    digests = (hashlib.blake2b((key + row_id).encode(), digest_size=8).digest() for row_id in ids)
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)
