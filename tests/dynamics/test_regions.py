import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.dynamics.regions import median_split, partition_regions, top_fraction_regions

# Few distinct values, so that ties are the rule.
scores = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25)


def slow_top_fraction(mu, sigma, ids, count):
    rows = range(len(mu))
    easy = sorted(rows, key=lambda row: (-mu[row], sigma[row], ids[row]))[:count]
    ambiguous = sorted(rows, key=lambda row: (-sigma[row], ids[row]))[:count]
    hard = sorted(rows, key=lambda row: (mu[row], sigma[row], ids[row]))[:count]
    return set(easy), set(ambiguous), set(hard)


def members(mask):
    return set(np.flatnonzero(mask).tolist())


@given(scores, st.randoms(use_true_random=False))
def test_the_sets_are_those_of_a_full_sort_by_score_then_id(rows, random):
    mu, sigma = (np.array(column) / 4 for column in zip(*rows, strict=True))
    ids = [f"train-{row}" for row in range(len(mu))]
    random.shuffle(ids)
    regions = top_fraction_regions(mu, sigma, ids)
    easy, ambiguous, hard = slow_top_fraction(mu, sigma, ids, round(len(mu) / 3))
    assert members(regions.easy) == easy
    assert members(regions.ambiguous) == ambiguous
    assert members(regions.hard) == hard


@given(scores)
def test_the_partition_gives_every_row_exactly_one_region(rows):
    mu, sigma = (np.array(column) / 4 for column in zip(*rows, strict=True))
    regions = partition_regions(mu, sigma, np.arange(len(mu)))
    assert (regions.easy.astype(int) + regions.ambiguous + regions.hard == 1).all()
    assert regions.ambiguous.sum() == round(len(mu) / 3)
    rest = len(mu) - regions.ambiguous.sum()
    assert regions.easy.sum() == (rest + 1) // 2
    if regions.easy.any() and regions.hard.any():
        assert mu[regions.easy].min() >= mu[regions.hard].max()
    if regions.ambiguous.any() and rest:
        assert sigma[regions.ambiguous].min() >= sigma[~regions.ambiguous].max()


def test_cartographys_sets_overlap_and_the_overlap_is_counted():
    mu, sigma = [0.9, 0.8, 0.1, 0.2, 0.5, 0.6], [0.4, 0.0, 0.5, 0.1, 0.2, 0.3]
    regions = top_fraction_regions(mu, sigma, list("abcdef"))
    assert members(regions.easy) == {0, 1}
    assert members(regions.ambiguous) == {0, 2}
    assert members(regions.hard) == {2, 3}
    assert regions.overlap() == {"easy_and_ambiguous": 1, "hard_and_ambiguous": 1, "easy_and_hard": 0}
    assert regions.sizes() == {"easy": 2, "ambiguous": 2, "hard": 2}


def test_disjoint_takes_from_easy_what_is_ambiguous():
    regions = top_fraction_regions([0.9, 0.8, 0.1], [0.4, 0.0, 0.1], list("abc"), disjoint=True)
    assert members(regions.easy) == set()
    assert members(regions.ambiguous) == {0}


def test_ties_are_broken_by_id_and_not_by_place():
    ids = ["c", "a", "b"]
    assert members(top_fraction_regions([0.5] * 3, [0.1] * 3, ids).easy) == {1}


def test_unscored_rows_belong_nowhere_and_do_not_count():
    mu = [np.nan, 0.9, 0.5, 0.1]
    regions = top_fraction_regions(mu, [np.nan, 0.0, 0.3, 0.1], list("abcd"))
    assert regions.sizes() == {"easy": 1, "ambiguous": 1, "hard": 1}
    assert not (regions.easy[0] or regions.ambiguous[0] or regions.hard[0])
    assert not partition_regions(mu, mu, list("abcd")).easy[0]


@pytest.mark.parametrize("rule", [top_fraction_regions, partition_regions])
def test_stratify_takes_the_fraction_of_each_class(rule):
    # The rare class is the unsure one: without stratification it is never easy.
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], [90, 30])
    mu = np.where(labels == 0, 0.9, 0.3) + 0.05 * generator.random(120)
    sigma = generator.random(120)
    plain = rule(mu, sigma, np.arange(120), labels=labels).class_balance(labels, 2)
    assert plain["easy"][1] == 0
    stratified = rule(mu, sigma, np.arange(120), labels=labels, stratify=True).class_balance(labels, 2)
    assert stratified == {"easy": [30, 10], "ambiguous": [30, 10], "hard": [30, 10]}


def test_class_balance_leaves_out_unknown_labels():
    regions = top_fraction_regions([0.9, 0.5, 0.1], [0.1, 0.5, 0.2], list("abc"))
    assert regions.class_balance([1, -1, 0], 3) == {
        "easy": [0, 1, 0],
        "ambiguous": [0, 0, 0],
        "hard": [1, 0, 0],
    }


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_the_median_split_puts_the_median_and_all_above_it_high(values):
    aum = np.array(values, dtype=float)
    low, high = median_split(aum)
    median = sorted(values)[len(values) // 2] if len(values) % 2 else None
    assert (low ^ high).all()
    assert low.sum() <= len(values) / 2
    if median is not None:
        assert (high == (aum >= median)).all()


def test_rows_tied_at_the_median_all_go_high():
    low, high = median_split([1.0, 2.0, 2.0, 2.0, 3.0])
    assert members(low) == {0}
    assert members(high) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_fraction_regions([0.5], [0.1], ["a"], stratify=True), "stratify needs labels"),
        (lambda: top_fraction_regions([0.5], [0.1], ["a"], fraction=0), "fraction must lie in"),
        (lambda: partition_regions([0.5], [0.1, 0.2], ["a"]), "shapes differ"),
        (lambda: median_split([np.nan]), "no row has an AUM"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
