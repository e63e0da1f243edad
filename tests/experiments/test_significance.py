"""p-values, Holm's correction, and intervals that agree with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from calmix.calibration.uncertainty.multiplicity import holm, holm_levels
from calmix.experiments.grid import Arm
from calmix.experiments.results import Results
from calmix.experiments.significance import (
    ALPHA,
    Spread,
    p_value,
    with_significance,
)


def test_without_noise_of_rows_the_p_value_is_that_of_the_paired_t_test():
    generator = np.random.default_rng(0)
    for seeds in (2, 3, 6):
        points = generator.normal(0.3, 1.0, seeds)
        spread = Spread(points.mean(), 0.0, points.var(ddof=1) / seeds, seeds)
        assert p_value(spread) == pytest.approx(ttest_1samp(points, 0.0).pvalue, abs=1e-6)


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=8))
def test_holm_rejects_what_the_step_down_loop_rejects(p_values):
    rejected, order = set(), sorted(range(len(p_values)), key=lambda place: p_values[place])
    for step, place in enumerate(order):
        if p_values[place] > ALPHA / (len(p_values) - step):
            break
        rejected.add(place)
    adjusted, levels = holm(p_values), holm_levels(p_values)
    for place, p in enumerate(p_values):
        if abs(p / levels[place] - 1) > 1e-9:  # but for rounding at the very limit
            assert (adjusted[place] <= ALPHA) == (place in rejected)
            assert (p <= levels[place]) == (place in rejected), "the corrected interval agrees with Holm"


def results_of(values):
    """Runs of arms [arm][seed] on one split, and their differences without noise of the rows."""
    arms = [Arm(name, name) for name in values]
    runs = [
        {"split": "test", "stage": "calibrated", "arm": arm, "seed": seed, "nll": value}
        for arm, one in values.items()
        for seed, value in enumerate(one)
    ]
    differences = []
    for arm, one in values.items():
        if arm == "plain":
            continue
        points = np.subtract(one, values["plain"])
        half = 4.302653 * points.std(ddof=1) / np.sqrt(3)
        differences.append(
            {
                "split": "test", "arm": arm, "stage": "calibrated", "reference": "plain",
                "reference_stage": "calibrated", "metric": "nll", "difference": points.mean(),
                "low": points.mean() - half, "high": points.mean() + half, "seeds": 3,
            }
        )  # fmt: skip
    return Results({}, arms, runs, differences)


def test_a_difference_that_only_the_uncorrected_interval_leaves_0_out_of_is_not_marked():
    plain = [1.0, 1.1, 0.9]
    weak = [0.89, 1.02, 0.77]  # p about 0.02 alone
    arms = {"plain": plain, "mix": weak}
    (alone,) = with_significance(results_of(arms))
    assert alone["high"] < 0
    assert alone["significant"]
    many = arms | {f"other {number}": [1.0, 1.0, 1.0] for number in range(4)}
    corrected = with_significance(results_of(many))[0]
    assert corrected["p"] == pytest.approx(alone["p"])
    assert corrected["p_holm"] == pytest.approx(5 * alone["p"])
    assert not corrected["significant"]


def test_one_seed_is_never_significant():
    results = results_of({"plain": [1.0, 1.0], "mix": [0.1, 0.1]})
    results.differences[0] |= {"seeds": 1, "low": -1.0, "high": -0.8}
    (found,) = with_significance(results)
    assert (found["p"], found["significant"]) == (None, False)
