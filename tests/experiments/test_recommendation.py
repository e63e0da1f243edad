"""The recommendation on cases whose answer is known."""

import json
import re

import pytest

from calmix.experiments.comparison import gather, report_data, with_margin
from calmix.experiments.results import Results
from experiments.drawn_runs import noisy, timid, wild, write_comparison


def recommendation(directory, draws, seeds=(0, 1, 2, 3, 4)):
    write_comparison(directory, draws, seeds)
    return report_data(gather(directory), directory)["recommendation"]


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def test_two_equal_methods_cannot_be_told_apart_by_few_rows(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0), "mix": noisy(1.0)})
    assert found["verdict"] in ("cannot_tell", "no_worse")
    assert "as good as any" not in found["sentence"]
    assert (found["chosen"], found["alternative"]) == ("plain", "mix")
    assert "take `mix`" not in found["choice"]


def test_within_a_large_enough_margin_plain_is_no_worse(tmp_path):
    write_comparison(tmp_path, {"plain": noisy(1.0), "mix": noisy(1.0)})
    found = report_data(with_margin(gather(tmp_path), 20.0), tmp_path)["recommendation"]
    assert found["verdict"] == "no_worse"
    assert "not better by more than 20 points of accuracy and 0.4 of NLL" in found["sentence"]
    assert found["chosen"] == "plain"
    assert found["next_step"] == ""


def test_two_noisy_seeds_ask_for_more_with_the_command_that_makes_them(tmp_path):
    draws = {"plain": noisy(1.0, spread=0.1), "mix": noisy(0.6, spread=0.1)}
    write_comparison(tmp_path, draws, seeds=(0, 1))
    (tmp_path / "config.yaml").write_text("seeds: [0, 1]\n")
    found = report_data(gather(tmp_path), tmp_path)["recommendation"]
    assert found["verdict"] == "cannot_tell"
    assert found["sentence"].startswith("Cannot tell whether `mix` is better than plain + TS (acc")
    assert re.match(r"About \d+ seeds would tell", found["next_step"])
    seeds = ",".join(map(str, found["next_seeds"]))
    assert found["next_seeds"][:3] == (0, 1, 2)
    config = tmp_path / "config.yaml"
    assert found["command"] == f"calmix compare --config {config} --seeds {seeds} --output {tmp_path}"


def test_better_only_out_of_domain(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0, other=2.0), "mix": noisy(1.0, other=1.4)})
    # Validation is in domain and sees no difference: it must not choose by what the test sets say.
    assert found["verdict"] in ("cannot_tell", "no_worse")
    assert found["chosen"] == "plain"
    line = next(line for line in found["lines"] if line.startswith("out of domain (`other`), 1,500 rows: "))
    assert line.endswith(": better")
    assert found["choice"].endswith("Where the data to come look like `other`, take `mix`.")


def test_better_but_less_accurate_is_a_trade_off_and_plain_is_kept(tmp_path):
    found = recommendation(tmp_path, {"plain": wild, "mix": timid})
    assert found["verdict"] == "trade_off"
    assert found["sentence"].startswith("Use plain + TS where accuracy counts, `mix` where the prob")
    validation = next(one for one in found["evidence"] if one["split"] == "validation")
    assert validation["accuracy"]["high"] < 0
    assert validation["nll"]["high"] < 0
    assert found["chosen"] == "plain"


@pytest.mark.parametrize("mix", [noisy(1.0), noisy(0.3)], ids=["equal", "seemingly better"])
def test_one_seed_cannot_tell(tmp_path, mix):
    found = recommendation(tmp_path, {"plain": noisy(1.0), "mix": mix}, seeds=(0,))
    assert found["verdict"] == "cannot_tell"
    assert "one seed cannot tell a method from luck" in found["sentence"]
    assert found["next_seeds"] == (0, 1, 2, 3, 4)
    assert found["chosen"] == "plain"


def test_better_everywhere(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6)})
    assert found["verdict"] == "better"
    assert found["sentence"].startswith("Use `mix`: it is better than plain + TS (accuracy +")
    assert [line.rpartition(": ")[2] for line in found["lines"]] == ["better"] * 3
    amount, low, high = numbers(found["lines"][0].partition("NLL")[2].replace("−", "-"))
    assert low < amount < high < 0
    assert found["chosen"] == "mix"
    assert found["model"] == str(tmp_path / "runs" / found["run"] / "model")
    assert found["alternative_model"] == str(tmp_path / "runs" / found["alternative_run"] / "model")


def test_worse_everywhere(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(0.6), "mix": noisy(2.0)})
    assert found["verdict"] == "worse"
    assert found["sentence"].startswith("Use plain + TS: `mix` is worse (accuracy −")
    assert found["chosen"] == "plain"


def test_better_here_and_worse_there(tmp_path):
    found = recommendation(tmp_path, {"plain": noisy(1.0, other=2.0), "mix": noisy(2.0, other=1.0)})
    assert found["verdict"] == "worse"
    assert found["chosen"] == "plain"
    assert found["choice"].endswith("Where the data to come look like `other`, take `mix`.")


@pytest.mark.simulates
def test_more_arms_widen_the_interval_of_the_challenger(tmp_path):
    pair = {"plain": noisy(1.0), "mix": noisy(0.9)}
    alone = recommendation(tmp_path / "two", pair)
    crowd = recommendation(tmp_path / "many", pair | {f"other{'x' * n}": noisy(1.2) for n in range(4)})
    assert crowd["challenger"] == "mix"
    assert "corrected for 5 arms (Holm)" in crowd["choice"]
    assert "the best of the 5 others on validation" in crowd["sentence"] or crowd["verdict"] == "better"
    for one, many in zip(alone["evidence"], crowd["evidence"], strict=True):
        assert one["nll"]["difference"] == pytest.approx(many["nll"]["difference"])
        assert many["nll"]["high"] - many["nll"]["low"] >= one["nll"]["high"] - one["nll"]["low"]


def failed_to_learn(directory, arm, seeds):
    """Write the finding of `training.learning` into the metrics of these runs."""
    for seed in seeds:
        file = directory / "runs" / f"{arm}-{seed}" / "metrics.json"
        learning = {"learned": False, "reasons": ["accuracy_at_majority"], "messages": ["accuracy 21 %"],
                    "advice": "Train again with --learning-rate 2e-4."}  # fmt: skip
        file.write_text(json.dumps(json.loads(file.read_text()) | {"learning": learning}))


def test_runs_that_have_not_learned_get_no_advice_but_that(tmp_path):
    write_comparison(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6)}, seeds=(0, 1, 2))
    failed_to_learn(tmp_path, "plain", (0, 1))
    results = gather(tmp_path)
    results.write(tmp_path)
    found = report_data(Results.read(tmp_path), tmp_path)["recommendation"]
    assert found["verdict"] == "not_learned"
    assert found["sentence"].startswith("No advice: plain has not learned")
    assert found["notes"] == ("`plain`: 2 of 3 runs have not learned; accuracy 21 %",)
    assert found["next_step"] == "Train again with --learning-rate 2e-4."
    assert found["command"] is None
    assert found["chosen"] == "plain", "a comparison has a model, advice or not"


def test_runs_that_were_stopped_early_get_advice_with_a_note(tmp_path):
    write_comparison(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6)}, seeds=(0, 1, 2))
    alone = report_data(gather(tmp_path), tmp_path)["recommendation"]
    for arm, seeds in (("plain", (0, 1)), ("mix", (2,))):
        for seed in seeds:
            file = tmp_path / "runs" / f"{arm}-{seed}" / "metrics.json"
            learning = {"learned": True, "reasons": [], "messages": [],
                        "notes": ["the validation NLL still fell: more epochs may help"],
                        "advice": "Train again with --epochs 8."}  # fmt: skip
            file.write_text(json.dumps(json.loads(file.read_text()) | {"learning": learning}))
    results = gather(tmp_path)
    results.write(tmp_path)
    found = report_data(Results.read(tmp_path), tmp_path)["recommendation"]
    assert found["notes"] == (
        "3 runs (`plain`, `mix`) may have been stopped early; in the first, the validation NLL still fell: "
        "more epochs may help. Train again with --epochs 8",
    )
    assert {**found, "notes": ()} == {**alone, "notes": ()}


def test_an_arm_that_has_not_learned_is_left_out_and_one_bad_seed_is_named(tmp_path):
    write_comparison(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6), "stuck": noisy(0.1)}, seeds=(0, 1, 2))
    failed_to_learn(tmp_path, "stuck", (0, 1, 2))
    failed_to_learn(tmp_path, "mix", (1,))
    found = report_data(gather(tmp_path), tmp_path)["recommendation"]
    assert (found["verdict"], found["challenger"]) == ("better", "mix")
    assert found["notes"] == (
        "`mix`: 1 of 3 runs has not learned; accuracy 21 %",
        "`stuck`: 3 of 3 runs have not learned; accuracy 21 %",
    )


def test_where_only_plain_has_learned_there_is_no_advice(tmp_path):
    write_comparison(tmp_path, {"plain": noisy(2.0), "mix": noisy(0.6)}, seeds=(0, 1))
    failed_to_learn(tmp_path, "mix", (0, 1))
    found = report_data(gather(tmp_path), tmp_path)["recommendation"]
    assert found["verdict"] == "not_learned"
    assert found["sentence"].startswith("No advice: no other method has learned")
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
