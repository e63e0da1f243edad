"""Packed rows: sums between borders of a sorted sample, and which stretch a confidence is in."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.metrics.binning import assign_bins, bin_edges, sum_bins
from calmix.calibration.uncertainty.confidence_sample import BUCKETS, ConfidenceSample, StretchLookup
from calmix.calibration.uncertainty.random_groups import deal_rows, group_sizes

KINDS = ("spread", "near 1", "ties", "edges")


def confidences(kind: str, rows: int = 200_000) -> np.ndarray:
    generator = np.random.default_rng(1)
    if kind == "spread":
        return generator.random(rows)
    if kind == "near 1":
        return 1 - 10.0 ** -generator.uniform(0, 17, rows)
    if kind == "ties":
        return generator.choice([0.0, 1e-300, 0.25, 0.5, np.nextafter(1, 0), 1.0], rows)
    return generator.integers(0, 16, rows) / 15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 14, 2047])
def test_the_stretch_is_that_of_a_binary_search(kind, count):
    confidence = confidences(kind)
    borders = np.unique(confidence[:count])
    assert len(confidence) > BUCKETS // 8  # by the table
    expected = np.searchsorted(borders, confidence, side="right")
    np.testing.assert_array_equal(StretchLookup(borders).find(confidence), expected)
    np.testing.assert_array_equal(StretchLookup(borders).find(confidence[:50]), expected[:50])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("bins", [1, 15, 1000])
def test_sums_between_bin_edges_are_those_of_the_bins(kind, closed, bins):
    confidence = confidences(kind)
    correct = (np.random.default_rng(2).random(len(confidence)) < confidence).astype(float)
    ordered = ConfidenceSample.pack(confidence, correct).sorted()
    edges = ordered.rows_below(bin_edges(bins)[1:-1], or_at=closed == "right")
    found = ordered.sums_between(edges)
    expected = sum_bins(assign_bins(confidence, bins, closed), bins, confidence, correct, None)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.correct, expected.correct)
    for name in ("confidence", "square", "bernoulli"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 1024, 1025, 700_000])
def test_the_sizes_of_groups_count_their_rows(rows):
    expected = np.bincount(deal_rows(0, rows), minlength=1024)
    np.testing.assert_array_equal(group_sizes(rows), expected)


def splitmix64(position: int) -> int:
    mask = 2**64 - 1
    mixed = (position + 0x9E3779B97F4A7C15) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return mixed ^ (mixed >> 31)


@pytest.mark.parametrize("groups", [1024, 1000])
def test_rows_are_dealt_by_a_hash_of_their_position(groups):
    expected = [k if k < groups else splitmix64(k) % groups for k in range(990, 1100)]
    assert deal_rows(990, 110, groups).tolist() == expected
