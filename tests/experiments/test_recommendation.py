"""The recommendation on cases whose answer is known."""

import re

import pytest

from calmix.experiments.comparison import gather, report_data
from experiments.drawn_runs import noisy, timid, wild, write_comparison


def recommendation(directory, draws, seeds=(0, 1, 2, 3, 4)):
    write_comparison(directory, draws, seeds)
    return report_data(gather(directory), directory)["recommendation"]


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def test_two_equal_methods(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0), "mix": noisy(1.0)})
    assert found["verdict"] == "equal"
    assert found["sentence"].startswith("Plain + temperature is as good as any: `mix`")
    assert "accuracy unchanged within ±" in found["sentence"]
    assert (found["chosen"], found["alternative"]) == ("plain", "mix")
    assert "the simpler wins" in found["choice"]
    assert "take `mix`" not in found["choice"]


def test_better_only_out_of_domain(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0, other=2.0), "mix": noisy(1.0, other=1.4)})
    assert found["verdict"] == "better"
    text = found["sentence"]
    assert text.startswith("`mix` lowers NLL out of domain (`other`) by ")
    assert "against plain + temperature" in text
    assert re.search(r"; in domain \(`test`, .*\), plain \+ temperature is as good\.$", text)
    amount, low, high = numbers(text)[:3]
    assert 0 < low < amount < high
    # Validation is in domain and sees no difference: it must not choose by what the test sets say.
    assert found["chosen"] == "plain"
    assert found["choice"].endswith("Where the data to come look like `other`, take `mix`.")


def test_better_but_less_accurate(tmp_path):
    found = recommendation(tmp_path, {"plain": wild, "mix": timid})
    assert found["verdict"] == "trade_off"
    assert found["sentence"].startswith("`mix` lowers NLL in domain (`test`) by ")
    assert "at a cost in accuracy of" in found["sentence"]
    cost = numbers(found["sentence"].partition("at a cost in accuracy of")[2])
    assert 0 < cost[1] < cost[0] < cost[2]
    assert found["chosen"] == "mix", "NLL on validation chooses, and it is lower"
    assert found["choice"].endswith("Where accuracy counts for more, take plain + temperature.")


@pytest.mark.parametrize("mix", [noisy(1.0), noisy(0.3)], ids=["equal", "seemingly better"])
def test_one_seed_cannot_tell(tmp_path, mix):
    found = recommendation(tmp_path, {"plain": noisy(1.0), "mix": mix}, seeds=(0,))
    assert found["verdict"] == "cannot_tell"
    assert found["sentence"].startswith("One seed cannot tell a method from luck")
    assert "compare at least three seeds" in found["sentence"]
    assert found["chosen"] == "plain"


def test_better_everywhere(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6)})
    assert found["verdict"] == "better"
    assert "in domain (`test`) by" in found["sentence"]
    assert "out of domain (`other`) by" in found["sentence"]
    assert found["chosen"] == "mix"
    assert found["model"] == str(tmp_path / "runs" / found["run"] / "model")
    assert found["alternative_model"] == str(tmp_path / "runs" / found["alternative_run"] / "model")


def test_worse_everywhere(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(0.6), "mix": noisy(2.0)})
    assert found["verdict"] == "worse"
    assert found["sentence"].startswith("Plain + temperature is best: `mix`")
    assert found["chosen"] == "plain"


def test_better_here_and_worse_there(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0, other=2.0), "mix": noisy(2.0, other=1.0)})
    assert found["verdict"] == "mixed"
    assert re.search(r"lowers NLL out of domain .* but raises it in domain", found["sentence"])
    assert found["chosen"] == "plain"


def test_the_challenger_is_the_best_of_the_others_on_validation_not_on_a_test_set(tmp_path):
    draws = {
        "plain": noisy(1.5),
        "steady": noisy(1.0),
        "lucky": noisy(1.5, test=0.1, other=0.1),  # by far the best on both test sets
    }
    found = recommendation(tmp_path, draws)
    assert found["challenger"] == "steady"
    assert found["chosen"] == "steady"


def test_the_chosen_run_is_the_seed_with_the_lowest_validation_nll(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6)}, seeds=(3, 4, 5))
    runs = gather(tmp_path).select(split="validation", stage="calibrated", arm="mix")
    best = min(runs, key=lambda record: record["nll"])
    assert (found["seed"], found["run"]) == (best["seed"], best["run"])


def test_plain_alone_has_nothing_to_be_compared_with(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0)})
    assert found["verdict"] == "nothing_to_compare"
    assert found["chosen"] == "plain"
