"""The rule that turns an effect into a verdict."""

from dataclasses import replace

import pytest

from calmix.experiments.significance import Spread
from calmix.reproduction.verdicts import HELD, REVERSED, UNDECIDED, Evidence, judge, judge_all


def evidence(difference, error=0.005, seeds=5, direction="lower", **more):
    """An effect whose whole variance comes from the rows: the interval is ± 1.96 errors."""
    return Evidence(Spread(difference, error**2, 0.0, seeds), direction, **more)


@pytest.mark.parametrize(
    ("difference", "direction", "word"),
    [
        (-0.03, "lower", HELD),
        (0.03, "lower", REVERSED),
        (0.03, "higher", HELD),
        (-0.03, "higher", REVERSED),
        (-0.009, "lower", UNDECIDED),
        (0.009, "higher", UNDECIDED),
        (0.0, "lower", UNDECIDED),
    ],
)
def test_an_interval_on_one_side_of_0_decides(difference, direction, word):
    assert judge(evidence(difference, direction=direction)).word == word


def test_an_interval_that_ends_at_0_decides_nothing():
    found = judge(evidence(0.0, error=0.0))
    assert (found.low, found.high, found.word) == (0.0, 0.0, UNDECIDED)


def test_a_difference_without_any_spread_decides():
    assert judge(evidence(-0.01, error=0.0)).word == HELD


@pytest.mark.parametrize(
    ("difference", "word"),
    [(0.0, HELD), (0.009, HELD), (0.015, UNDECIDED), (0.03, REVERSED), (-0.03, REVERSED)],
)
def test_equality_is_a_matter_of_the_margin(difference, word):
    # The interval is ± 0.0059.
    assert judge(evidence(difference, error=0.003, direction="equal", margin=0.02)).word == word


def test_a_wide_interval_around_0_does_not_show_equality():
    assert judge(evidence(0.0, error=0.05, direction="equal", margin=0.01)).word == UNDECIDED


def test_one_seed_decides_nothing_however_large_the_effect():
    found = judge(evidence(-0.5, seeds=1))
    assert found.word == UNDECIDED
    assert "one seed" in found.reason


def test_two_arms_within_the_noise_floor_are_undecided():
    clear = evidence(-0.02, values=(0.01, 0.03), floors=(0.015, 0.02))
    assert judge(clear).word == HELD
    noise = replace(clear, floors=(0.03, 0.03))
    assert (judge(noise).word, judge(noise).reason) == (UNDECIDED, "both arms are within the noise floor")


def test_a_metric_without_a_floor_is_judged_by_its_interval():
    assert judge(evidence(-0.02, values=(0.01, 0.03))).word == HELD


def test_few_seeds_widen_the_interval_by_students_quantile():
    spread = Spread(-0.03, 0.0, 0.01**2, 3)
    found = judge(Evidence(spread, "lower"))
    assert found.high == pytest.approx(-0.03 + 4.302653 * 0.01, abs=1e-6)
    assert found.word == UNDECIDED


def test_verdicts_of_a_table_are_corrected_for_their_number():
    # 2.2 standard errors: p = 0.028, enough alone and not among three.
    alone = evidence(-0.011)
    assert judge_all([alone])[0].word == HELD
    three = judge_all([alone, evidence(-0.001), evidence(-0.05)])
    assert [found.word for found in three] == [UNDECIDED, UNDECIDED, HELD]
    assert [found.level for found in three] == pytest.approx([0.025, 0.025, 0.05 / 3])


def test_holm_goes_on_to_the_next_step_after_a_rejection():
    two = judge_all([evidence(-0.011), evidence(-0.05)])
    assert [found.word for found in two] == [HELD, HELD]
    assert [found.level for found in two] == pytest.approx([0.05, 0.025])


def test_tests_that_are_still_to_be_run_count():
    found = judge_all([evidence(-0.011), evidence(-0.05)], waiting=1)
    assert [one.word for one in found] == [UNDECIDED, HELD]
    assert [one.level for one in found] == pytest.approx([0.025, 0.05 / 3])


def test_single_seeds_are_not_counted_among_the_tests():
    found = judge_all([evidence(-0.011), evidence(-0.5, seeds=1), evidence(-0.5, seeds=1)])
    assert [one.word for one in found] == [HELD, UNDECIDED, UNDECIDED]


def test_no_claims_no_verdicts():
    assert judge_all([]) == []
