"""The three answers, where the truth is known: how often each is given with 2, 3 and 6 seeds."""

import numpy as np
import pytest

from experiments.simulated_comparison import answers, simulate

COUNT = 200
# 5 %, and what 200 draws may add to it by chance (99.9 %).
FALSE_FINDINGS = 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / COUNT)


@pytest.mark.parametrize("seeds", [2, 3, 6])
@pytest.mark.parametrize("arms", [1, 4])
def test_equal_methods_are_called_better_in_at_most_5_percent(seeds, arms):
    nll = {"plain": 0.5} | {f"mix {number}": 0.5 for number in range(arms)}
    found = answers(COUNT, seeds, nll)
    assert found.get("better", 0) + found.get("trade_off", 0) <= FALSE_FINDINGS
    assert found.get("no_worse", 0) + found.get("cannot_tell", 0) >= 0.9


# The distance between two networks of the same method is about 0.014: two seeds see large effects only.
@pytest.mark.parametrize(("seeds", "gain", "power"), [(2, 0.4, 0.8), (3, 0.15, 0.9), (6, 0.06, 0.95)])
def test_a_better_method_is_found(seeds, gain, power):
    found = answers(COUNT // 2, seeds, {"plain": 0.8, "mix": 0.8 - gain})
    assert found["better"] >= power


@pytest.mark.parametrize("seeds", [3, 6])
def test_a_worse_method_is_never_recommended(seeds):
    found = answers(COUNT // 2, seeds, {"plain": 0.5, "mix": 0.65})
    assert found.get("better", 0) == 0
    assert found["worse"] >= 0.9


def test_equal_methods_with_little_spread_are_no_worse_and_with_much_spread_cannot_be_told():
    nll = {"plain": 0.5, "mix": 0.5}
    close = answers(COUNT // 2, 6, nll, seed_deviation=0.002, row_deviation=0.001)
    assert close["no_worse"] >= 0.9
    wide = answers(COUNT // 2, 6, nll, seed_deviation=0.05, row_deviation=0.01)
    assert wide["cannot_tell"] >= 0.9


def test_a_lower_nll_at_the_cost_of_accuracy_is_not_better():
    accuracy = {"plain": 0.90, "mix": 0.80}
    found = answers(COUNT // 2, 6, {"plain": 0.8, "mix": 0.6}, accuracy=accuracy)
    assert found["trade_off"] >= 0.9
    assert found.get("better", 0) <= 0.05


def test_the_seeds_asked_for_would_tell():
    """Of comparisons that ask for more seeds, most are decided with that many."""
    generator = np.random.default_rng(5)
    nll, asked = {"plain": 0.53, "mix": 0.5}, []
    while len(asked) < 60:
        found = simulate(generator, 4, nll)
        if found.verdict == "cannot_tell" and found.next_seeds:
            asked.append(len(found.next_seeds))
            assert f"About {asked[-1]} seeds would tell" in found.next_step
    decided = [simulate(generator, seeds, nll).verdict != "cannot_tell" for seeds in asked]
    assert np.mean(decided) >= 0.5, "an estimate of the median need, from the spread of four seeds"
