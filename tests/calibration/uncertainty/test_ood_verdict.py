"""Which score to reject rows by: against scikit-learn's AUROC and a bootstrap of the difference."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from calmix.calibration.uncertainty.ood_verdict import _deviation, placements, recommend_score, verdict


@pytest.fixture
def drawn():
    generator = np.random.default_rng(4)
    truth_in, truth_out = generator.normal(1, 1, 300), generator.normal(0, 1, 200)
    noisy = generator.normal(0, 2, 300), generator.normal(0, 2, 200)
    inside = {"energy": truth_in, "msp": truth_in + noisy[0]}
    return inside, {"energy": truth_out, "msp": truth_out + noisy[1]}


def test_both_means_of_placements_are_the_auroc(drawn):
    inside, outside = drawn
    for name in inside:
        values, others = np.round(inside[name], 1), np.round(outside[name], 1)  # with ties
        expected = roc_auc_score(np.repeat([1, 0], [300, 200]), np.concatenate([values, others]))
        within, beyond = placements(values, others)
        assert within.mean() == pytest.approx(expected)
        assert beyond.mean() == pytest.approx(expected)


def test_the_error_of_a_difference_is_that_of_a_bootstrap_over_rows(drawn):
    inside, outside = drawn
    pairs = {name: [placements(inside[name], outside[name])] for name in inside}
    generator = np.random.default_rng(0)
    differences = []
    for _ in range(400):
        ins, outs = generator.integers(0, 300, 300), generator.integers(0, 200, 200)
        aurocs = {name: placements(inside[name][ins], outside[name][outs])[0].mean() for name in inside}
        differences.append(aurocs["energy"] - aurocs["msp"])
    assert _deviation(pairs["energy"], pairs["msp"]) == pytest.approx(np.std(differences), rel=0.15)


def test_another_score_is_recommended_only_if_it_is_significantly_better(drawn):
    inside, outside = drawn
    found = recommend_score(inside, [outside])
    assert (found.score, "significantly higher" in found.reason) == ("energy", True)
    few_in = {name: values[:12] for name, values in inside.items()}
    few_out = {name: values[:10] for name, values in outside.items()}
    assert recommend_score(few_in, [few_out]).score == "msp"
    same = dict.fromkeys(inside, inside["msp"])
    assert recommend_score(same, [dict.fromkeys(outside, outside["msp"])]).score == "msp"


def test_a_rare_difference_is_recommended_by_chance_no_more_often_than_stated():
    generator = np.random.default_rng(9)
    chosen = 0
    for _ in range(300):
        base_in, base_out = generator.normal(0.5, 1, 80), generator.normal(0, 1, 60)
        names = ("msp", "energy", "entropy", "max_logit")
        inside = {name: base_in + generator.normal(0, 0.5, 80) for name in names}
        outside = {name: base_out + generator.normal(0, 0.5, 60) for name in names}
        chosen += recommend_score(inside, [outside]).score != "msp"
    assert chosen / 300 < 0.05


@pytest.mark.parametrize(
    ("auroc", "said"),
    [
        (0.95, "separates b from a well"),
        (0.8, "separates b from a fairly well"),
        (0.6, "separates b from a poorly"),
        (0.549, "does not distinguish b from a better than chance"),
        (0.451, "does not distinguish b from a better than chance"),
        (0.3, "is higher on b than on a"),
    ],
)
def test_sentences(auroc, said):
    assert said in verdict("msp", "a", "b", {"auroc": auroc, "auroc_ci": [auroc - 0.02, auroc + 0.02]})
