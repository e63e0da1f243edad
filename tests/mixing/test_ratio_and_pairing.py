import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma

from calmix.mixing.pairing import draw_ratio, random_involution


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.4, 1.0])
def test_the_entropy_of_mixed_targets_follows_its_closed_form(alpha):
    """E[H(λ, 1 − λ)] = ψ(2α + 1) − ψ(α + 1) nats."""
    ratio = draw_ratio(alpha, np.random.default_rng(0), size=200_000)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum([ratio * np.log(ratio), (1 - ratio) * np.log1p(-ratio)], axis=0)
    assert entropy.mean() == pytest.approx(digamma(2 * alpha + 1) - digamma(alpha + 1), abs=2e-3)


def test_folded_ratios_hold_more_of_the_row_itself():
    raw, folded = (draw_ratio(0.4, np.random.default_rng(0), size=100, fold=fold) for fold in (False, True))
    assert np.array_equal(folded, np.maximum(raw, 1 - raw))


@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 1000))
def test_partners_are_mutual_and_padding_stays_alone(rows, padding, seed):
    partner = random_involution(rows, np.random.default_rng(seed), padding=padding)
    assert np.array_equal(partner[partner], np.arange(rows + padding))
    assert np.array_equal(partner[rows:], np.arange(rows, rows + padding))
    assert (partner[:rows] == np.arange(rows)).sum() == rows % 2


def test_every_other_row_is_equally_likely_as_a_partner():
    counts = np.zeros((6, 6))
    for seed in range(6000):
        counts[np.arange(6), random_involution(6, np.random.default_rng(seed))] += 1
    assert np.abs(counts[~np.eye(6, dtype=bool)] / 6000 - 0.2).max() < 0.02
