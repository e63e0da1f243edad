"""Binned calibration errors: oracles, slow loops, outside references, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from calmix.calibration.metrics.binning import equal_width_sums
from calmix.calibration.metrics.errors import (
    adaptive_calibration_error,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_square_calibration_error,
    total_error,
)


def total_calibration_error(confidence, correct, *, bins=10, closed="left", weights=None):
    return total_error(equal_width_sums(confidence, correct, bins=bins, closed=closed, weights=weights))


BINNED = (
    expected_calibration_error,
    maximum_calibration_error,
    root_mean_square_calibration_error,
    overconfidence_error,
    total_calibration_error,
)
VECTOR_ERRORS = (*BINNED, adaptive_calibration_error, debiased_calibration_error)

# By hand; 1.0, 0.9 and 0.6 stand on edges of ten bins.
CONFIDENCE = [0.95, 0.9, 0.85, 0.6, 0.55, 1.0, 0.3]
CORRECT = [1, 1, 0, 1, 0, 1, 0]

rows = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)
conventions = pytest.mark.parametrize("closed", ["right", "left"])


def random_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    confidence = generator.beta(4, 1.5, n)
    return confidence, generator.random(n) < confidence**1.5


def random_probabilities(n: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((n, classes))
    return softmax(1.7 * logits, axis=1), (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


def bins_by_hand(confidence, correct, bins, closed):
    """(share, mean confidence, accuracy) of every filled bin, row by row from the definition."""
    members = [[] for _ in range(bins)]
    for c, y in zip(confidence, correct, strict=True):
        for m in range(bins):
            low, high = m / bins, (m + 1) / bins
            inside = low < c <= high if closed == "right" else low <= c < high
            if inside or (c == 0 and m == 0) or (c == 1 and m == bins - 1):
                members[m].append((c, y))
                break
    return [
        (len(one) / len(confidence), sum(c for c, _ in one) / len(one), sum(y for _, y in one) / len(one))
        for one in members
        if one
    ]


@pytest.mark.parametrize(
    ("bins", "closed", "ece", "oe"),
    [
        (10, "left", 0.3214285714, 0.1592857143),
        (10, "right", 0.1785714286, 0.1189285714),
        (15, "left", 0.3214285714, None),
        (15, "right", 0.2071428571, 0.1283928571),
    ],
)
def test_the_oracles(bins, closed, ece, oe):
    assert expected_calibration_error(CONFIDENCE, CORRECT, bins=bins, closed=closed) == pytest.approx(
        ece, abs=1e-9
    )
    if oe is not None:
        assert overconfidence_error(CONFIDENCE, CORRECT, bins=bins, closed=closed) == pytest.approx(
            oe, abs=1e-9
        )


@conventions
@pytest.mark.parametrize("bins", [1, 10, 15, 100])
def test_every_binned_error_is_its_formula(bins, closed):
    confidence, correct = random_rows(700, seed=bins)
    confidence = np.concatenate([confidence, np.arange(bins + 1) / bins])  # edges among them
    correct = np.concatenate([correct, np.arange(bins + 1) % 2 == 0])
    found = bins_by_hand(confidence, correct, bins, closed)
    expected = (
        sum(w * abs(a - c) for w, c, a in found),
        max(abs(a - c) for _, c, a in found),
        sum(w * (a - c) ** 2 for w, c, a in found) ** 0.5,
        sum(w * c * max(c - a, 0) for w, c, a in found),
        sum(abs(a - c) for _, c, a in found),
    )
    values = [error(confidence, correct, bins=bins, closed=closed) for error in BINNED]
    assert values == pytest.approx(expected, abs=1e-9)


def test_equal_mass_and_debiased_errors_are_their_formulas():
    confidence, correct = random_rows(600, seed=3)
    order = np.argsort(confidence)
    parts = [order[40 * m : 40 * (m + 1)] for m in range(15)]
    gaps = [abs(correct[part].mean() - confidence[part].mean()) for part in parts]
    assert adaptive_calibration_error(confidence, correct) == pytest.approx(np.mean(gaps), abs=1e-9)
    noise = [correct[part].mean() * (1 - correct[part].mean()) / (len(part) - 1) for part in parts]
    square = np.mean([gap**2 - one for gap, one in zip(gaps, noise, strict=True)])
    assert debiased_calibration_error(confidence, correct) == pytest.approx(max(square, 0) ** 0.5, abs=1e-9)


@conventions
@pytest.mark.parametrize(("classes", "bins"), [(2, 15), (4, 10), (30, 15), (7, 100)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classwise_error_is_the_mean_of_the_classes_own(classes, bins, closed, dtype):
    probabilities, labels = random_probabilities(400, classes, seed=classes)
    probabilities = probabilities.astype(dtype)
    own = [
        expected_calibration_error(probabilities[:, k], labels == k, bins=bins, closed=closed)
        for k in range(classes)
    ]
    found = classwise_calibration_error(probabilities, labels, bins=bins, closed=closed)
    assert found == pytest.approx(np.mean(own), abs=1e-9)


@conventions
@pytest.mark.parametrize("bins", [10, 15, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classwise_error_places_exact_edges_like_the_others(bins, closed, dtype):
    share = (np.arange(bins + 1) / bins).astype(dtype)
    probabilities = np.stack([share, (1 - share.astype(np.float64)).astype(dtype)], axis=1)
    labels = np.arange(bins + 1) % 2
    own = [
        expected_calibration_error(probabilities[:, k], labels == k, bins=bins, closed=closed) for k in (0, 1)
    ]
    found = classwise_calibration_error(probabilities, labels, bins=bins, closed=closed)
    assert found == pytest.approx(np.mean(own), abs=1e-12)


@conventions
@given(rows)
def test_overconfidence_ece_rmsce_and_mce_are_in_order(closed, sample):
    confidence, correct = zip(*sample, strict=True)
    ece, mce, rmsce, oe, total = (error(confidence, correct, bins=15, closed=closed) for error in BINNED)
    assert -1e-12 <= oe <= ece + 1e-12
    assert ece <= rmsce + 1e-12
    assert rmsce <= mce + 1e-12
    assert mce <= total + 1e-12
    assert mce <= 1 + 1e-12


@given(rows, st.randoms())
def test_the_order_of_the_rows_changes_nothing(sample, random):
    shuffled = list(sample)
    random.shuffle(shuffled)
    for error in VECTOR_ERRORS:
        first = error(*zip(*sample, strict=True))
        assert error(*zip(*shuffled, strict=True)) == pytest.approx(first, abs=1e-7)


@given(rows, st.integers(1, 5))
def test_weights_are_repeated_rows(sample, times):
    confidence, correct = (np.array(column) for column in zip(*sample, strict=True))
    repeats = 1 + np.arange(len(sample)) % times
    for error in (*BINNED, adaptive_calibration_error):
        weighted = error(confidence, correct, weights=repeats)
        assert weighted == pytest.approx(
            error(np.repeat(confidence, repeats), np.repeat(correct, repeats)), abs=1e-9
        )


def test_perfect_calibration_is_zero():
    confidence = np.repeat([0.25, 0.5, 0.75], 4)
    correct = [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]
    for error in VECTOR_ERRORS:
        assert error(confidence, correct) == pytest.approx(0, abs=1e-12)


@given(st.floats(0.01, 1), st.integers(1, 40), st.data())
def test_one_confidence_gives_its_distance_from_the_accuracy(confidence, n, data):
    correct = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    gap = abs(np.mean(correct) - confidence)
    for error in (*BINNED[:3], adaptive_calibration_error):
        assert error([confidence] * n, correct) == pytest.approx(gap, abs=1e-9)


def test_empty_bins_add_nothing():
    assert expected_calibration_error([0.999], [1], bins=1000) == pytest.approx(0.001, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision_is_accumulated_in_float64(dtype):
    # In the input's own precision the sums stop growing: float16 at 2,048 rows, float32 at 16.7 million.
    confidence = np.full(100_000, 0.75, dtype=dtype)
    assert expected_calibration_error(confidence, np.zeros(100_000)) == 0.75
    mixed = np.random.default_rng(0).random(50_000).astype(dtype)
    correct = np.random.default_rng(1).random(50_000) < 0.5
    expected = expected_calibration_error(mixed.astype(np.float64), correct)
    assert expected_calibration_error(mixed, correct) == pytest.approx(expected, abs=1e-12)


@pytest.mark.simulates
def test_more_rows_in_one_bin_than_float32_can_count_keep_their_error():
    # float32 counters stop at 2^24 = 16.8 million.
    n = 18_000_000
    correct = np.zeros(n, dtype=bool)
    correct[: n // 2] = True
    found = expected_calibration_error(np.broadcast_to(0.9, n), correct)
    assert found == pytest.approx(0.4, abs=1e-9)


# References.


@pytest.mark.processes  # the import of torchmetrics starts one
@pytest.mark.parametrize("seed", range(3))
def test_torchmetrics_agrees_to_its_float32(seed):
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchmetrics.functional.classification")
    probabilities, labels = random_probabilities(3000, 5, seed)
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    # Its bins are closed on the left; its sums are in float32.
    for norm, error in zip(("l1", "max", "l2"), BINNED[:3], strict=True):
        peer = functional.multiclass_calibration_error(
            torch.as_tensor(probabilities), torch.as_tensor(labels), 5, n_bins=15, norm=norm
        )
        assert error(confidence, correct, bins=15, closed="left") == pytest.approx(float(peer), abs=2e-5)
    positive = random_probabilities(3000, 2, seed)[0][:, 1]
    happened = np.random.default_rng(seed).random(3000) < positive
    peer = functional.binary_calibration_error(
        torch.as_tensor(positive), torch.as_tensor(happened.astype(np.int64)), n_bins=15
    )
    assert expected_calibration_error(positive, happened, closed="left") == pytest.approx(
        float(peer), abs=2e-5
    )


@pytest.mark.parametrize("bins", [10, 15, 100])
def test_netcal_agrees(bins):
    netcal = pytest.importorskip("netcal.metrics")
    confidence, correct = random_rows(4000, seed=bins)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ece = netcal.ECE(bins).measure(confidence, correct.astype(int))
        mce = netcal.MCE(bins).measure(confidence, correct.astype(int))
    assert expected_calibration_error(confidence, correct, bins=bins) == pytest.approx(ece, abs=1e-9)
    assert maximum_calibration_error(confidence, correct, bins=bins) == pytest.approx(mce, abs=1e-9)


@pytest.mark.processes
@pytest.mark.parametrize("bins", [10, 15, 100])
def test_relplot_and_uncertainty_calibration_agree(bins):
    metrics = pytest.importorskip("relplot.metrics")
    peer = pytest.importorskip("calibration")
    probabilities, labels = random_probabilities(2000, 4, seed=bins)
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    found = expected_calibration_error(confidence, correct, bins=bins)
    assert found == pytest.approx(metrics.binnedECE(confidence, correct * 1.0, nbins=bins), abs=1e-9)
    assert found == pytest.approx(peer.get_ece(probabilities, labels, num_bins=bins), abs=1e-9)
    classwise = classwise_calibration_error(probabilities, labels, bins=bins)
    marginal = [peer.get_ece(probabilities[:, k], (labels == k).astype(int), num_bins=bins) for k in range(4)]
    assert classwise == pytest.approx(np.mean(marginal), abs=1e-9)


def test_the_debiased_error_is_that_of_its_authors_package():
    pytest.importorskip("calibration.utils")  # `calibration` alone would find the folder of these tests
    import calibration as peer

    confidence, correct = random_rows(3000, seed=9)
    expected = peer.lower_bound_scaling_ce(
        confidence, correct.astype(int), p=2, debias=True, num_bins=15, binning_scheme=peer.get_equal_bins
    )
    assert debiased_calibration_error(confidence, correct) == pytest.approx(expected, abs=1e-9)


def test_the_reliability_curve_is_scikit_learns():
    from sklearn.calibration import calibration_curve

    from calmix.calibration.metrics.binning import reliability_bins

    confidence, correct = random_rows(5000, seed=4)
    accuracy, mean = calibration_curve(correct, confidence, n_bins=15)
    diagram = reliability_bins(confidence, correct)
    filled = diagram.count > 0
    np.testing.assert_allclose(diagram.accuracy[filled], accuracy, atol=1e-9)
    np.testing.assert_allclose(diagram.mean_confidence[filled], mean, atol=1e-9)


# Refusals.


@pytest.mark.parametrize("error", VECTOR_ERRORS)
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "empty"),
        ([np.nan, 0.5], [1, 0], "must lie in"),
        ([0.5, np.inf], [1, 0], "must lie in"),
        ([0.5, -0.1], [1, 0], r"must lie in .*row 1"),
        ([1.0001], [1], "must lie in"),
        ([[0.5]], [1], "shape"),
        ([0.5, 0.5], [1], "shape"),
        ([0.5], [2], "0 or 1"),
        ([0.5], [np.nan], "0 or 1"),
        (["high"], [1], "numbers"),
        ([0.5 + 1j], [1], "numbers"),
    ],
)
def test_what_is_no_confidence_or_outcome_is_refused(error, confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        error(confidence, correct)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0], "shape"), ([1.0, -1.0], "not negative"), ([np.nan, 1.0], "finite"), ([0.0, 0.0], "all 0")],
)
def test_weights_that_weigh_nothing_are_refused(weights, message):
    for error in VECTOR_ERRORS:
        with pytest.raises(ValueError, match=message):
            error([0.5, 0.6], [1, 0], weights=weights)


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (np.empty((0, 3)), [], "empty"),
        ([[0.5, np.nan]], [0], "finite"),
        ([[np.inf, 0.5]], [0], "finite"),
        ([[1.1, -0.1]], [0], "negative"),
        ([[0.6, 0.6]], [0], "sum to 1"),
        ([[2.0, -1.0], [3.0, 4.0]], [0, 1], "sum to 1"),
        ([[0.5, 0.5]], [2], "outside"),
        ([[0.5, 0.5]], [-1], "outside"),
        ([[0.5, 0.5]], [0.5], "class indices"),
        ([[0.5, 0.5]], [0, 1], "1 rows of scores but 2 labels"),
        ([[0.5, 0.5]], [[0]], "shape"),
        ([0.5, 0.5], [0, 1], "shape"),
        ([[1.0]], [0], "two classes"),
    ],
)
def test_what_is_no_distribution_or_label_is_refused(probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        classwise_calibration_error(probabilities, labels)
