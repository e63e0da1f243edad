"""Which runs of a comparison are asked about strange data, and how their answers are put together."""

import pytest

from calmix.calibration.uncertainty.ood_intervals import METRICS
from calmix.experiments.cell import Cell
from calmix.experiments.comparison_plan import Plan
from calmix.experiments.grid import Arm
from calmix.experiments.ood.detection import kept_runs, summarise_confidence, summarise_detection
from calmix.io.run_directory import write_json


@pytest.fixture
def comparison(tmp_path):
    """`comparison("best", plain="md-")`: seed 0 with its model, seed 1 without, seed 2 not finished."""

    def make(keep_models, **arms):
        made = [Arm(name, name) for name in arms]
        cells = [Cell(arm, seed, f"{arm.name}{seed}") for arm in made for seed in range(len(arms[arm.name]))]
        Plan({"keep_models": keep_models}, made, cells).write(tmp_path)
        for cell in cells:
            state = arms[cell.arm.name][cell.seed]
            run = tmp_path / "runs" / cell.fingerprint
            (run / "model" if state == "m" else run).mkdir(parents=True)
            if state != "-":
                write_json(run / "metrics.json", {})
        return kept_runs(tmp_path)

    return make


def test_runs_without_a_model_are_named(comparison):
    kept = comparison("best", plain="dmd", erl="md-", focal="ddd")
    assert [cell.title for cell, _ in kept.runs] == ["plain, seed 1", "erl, seed 0"]
    assert kept.notes() == [
        "7 of 9 runs have no saved model and are left out: plain (seeds 0, 2), erl (seeds 1, 2), "
        "focal (seeds 0, 1, 2)",
        "plain, erl: the number is of one model, kept because its validation NLL was lowest, and has no "
        "spread over seeds",
    ]


def test_one_seed_that_was_not_chosen_among_several_is_not_called_the_best(comparison):
    kept = comparison("best", plain="m", erl="m-")
    assert kept.notes() == [
        "1 of 3 runs has no saved model and is left out: erl (seed 1)",
        "plain, erl: the number is of one model and has no spread over seeds",
    ]


def test_nothing_is_said_where_all_models_are_there(comparison):
    assert comparison("all", plain="mm", erl="mm").notes() == []


def found(arm, *outs):
    scores = [
        {"out": out, "score": score, "stage": "calibrated"}
        | dict.fromkeys(METRICS, 0.9)
        | {f"{metric}_ci": [0.8, 0.95] for metric in METRICS}
        for out in outs
        for score in ("msp", "energy")
    ]
    sets = [{"name": out, "mean_confidence": {"calibrated": 0.7}} for out in outs]
    return {"arm": arm, "scores": scores, "sets": sets}


def test_methods_stand_side_by_side_for_every_set():
    runs = [found(arm, "letters", "noise") for arm in ("plain", "erl")]
    order = [("letters", "plain"), ("letters", "erl"), ("noise", "plain"), ("noise", "erl")]
    summary = summarise_detection(runs)
    assert list(dict.fromkeys((one["out"], one["arm"]) for one in summary)) == order
    assert [one["out"] for one in summary] == ["letters"] * 4 + ["noise"] * 4
    assert [(one["set"], one["arm"]) for one in summarise_confidence(runs)] == order


def test_one_seed_has_the_interval_over_rows_and_several_have_a_spread():
    single, *_ = summarise_detection([found("plain", "letters")])
    assert (single["fpr95_std"], single["fpr95_ci"]) == (None, [0.8, 0.95])
    several, *_ = summarise_detection([found("plain", "letters")] * 2)
    assert (several["fpr95_std"], several["fpr95_ci"]) == (0.0, None)
