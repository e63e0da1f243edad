"""The paired interval of two accuracies: the score test it inverts, and its exact coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, norm

from calmix.calibration.differences import paired_differences
from calmix.calibration.predictions import Predictions
from calmix.calibration.uncertainty.paired_accuracy import accuracy_difference_limits


def profile_score(first_only, second_only, rows, difference):
    """The score statistic with the nuisance parameter found by a numerical search over the likelihood."""

    def minus_log_likelihood(q):
        both = 1.0 - 2 * q - difference
        parts = [(first_only, q + difference), (second_only, q), (rows - first_only - second_only, both)]
        return -sum(count * np.log(max(share, 1e-300)) for count, share in parts if count)

    low, high = max(0.0, -difference), (1.0 - difference) / 2
    q = minimize_scalar(
        minus_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-13}
    ).x
    return (first_only - second_only - rows * difference) / np.sqrt(
        rows * (2 * q + difference * (1 - difference))
    )


@pytest.mark.parametrize(
    ("first_only", "second_only", "rows"), [(12, 2, 50), (3, 9, 80), (1, 1, 40), (30, 5, 400)]
)
def test_the_limits_are_where_the_score_test_turns(first_only, second_only, rows):
    low, high = accuracy_difference_limits(first_only, second_only, rows)
    assert profile_score(first_only, second_only, rows, low) == pytest.approx(norm.ppf(0.975), abs=1e-3)
    assert profile_score(first_only, second_only, rows, high) == pytest.approx(norm.ppf(0.025), abs=1e-3)


def test_without_any_disagreement_the_limits_have_a_closed_form():
    low, high = accuracy_difference_limits(0, 0, 44)
    squared = norm.ppf(0.975) ** 2
    assert (low, high) == pytest.approx((-squared / (44 + squared), squared / (44 + squared)))


def test_swapping_the_models_turns_the_signs():
    low, high = accuracy_difference_limits(12, 2, 44)
    assert accuracy_difference_limits(2, 12, 44) == pytest.approx((-high, -low))
    assert accuracy_difference_limits(5, 0, 5)[1] == 1.0


@pytest.mark.parametrize("rows", [50, 100])
@pytest.mark.parametrize("disagreement", [0.005, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_the_exact_coverage_is_honest(rows, disagreement, share):
    """All outcomes of a trinomial draw, each with its probability."""
    first, second = disagreement * share, disagreement * (1 - share)
    covered = 0.0
    for b in range(int(binom.isf(1e-4, rows, first)) + 1):
        for c in range(int(binom.isf(1e-4, rows, second)) + 1 if second > 0 else 1):
            low, high = accuracy_difference_limits(b, c, rows)
            if low <= first - second <= high:
                covered += binom.pmf(b, rows, first) * binom.pmf(c, rows - b, second / (1 - first))
    assert covered >= 0.93


@pytest.mark.parametrize("rows", [60, 4000])
def test_evaluated_files_have_this_interval_of_their_accuracies(rows):
    generator = np.random.default_rng(rows)
    labels = generator.integers(0, 2, rows)
    logits = np.where(np.arange(2) == labels[:, None], 2.0, 0.0)
    first, second = logits.copy(), logits.copy()
    first[:1] *= -1.0
    second[5:12] *= -1.0
    models = [Predictions.from_logits(logits, labels) for logits in (first, second)]
    found = paired_differences(*models)
    assert found["accuracy"]["difference"] == pytest.approx(6 / rows)
    assert found["accuracy"]["ci"] == pytest.approx(accuracy_difference_limits(7, 1, rows))


def test_models_that_never_disagree_may_still_differ():
    """Bootstrapping rows that agree would give [0, 0]."""
    labels = np.zeros(50, dtype=int)
    rows = Predictions.from_logits(np.tile([1.0, 0.0], (50, 1)), labels)
    surer = Predictions.from_logits(np.tile([3.0, 0.0], (50, 1)), labels)
    low, high = paired_differences(rows, surer)["accuracy"]["ci"]
    assert (low, high) == pytest.approx((-0.0713, 0.0713), abs=1e-3)


def test_a_model_has_exactly_the_accuracy_it_has():
    labels = np.array([0, 1, 1, 0])
    rows = Predictions.from_logits([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 0.0]], labels)
    assert paired_differences(rows, rows)["accuracy"] == {"difference": 0.0, "ci": [0.0, 0.0]}


@pytest.mark.parametrize("counts", [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_counts_that_make_no_sense_are_refused(counts):
    with pytest.raises(ValueError, match="make no sense"):
        accuracy_difference_limits(*counts)
