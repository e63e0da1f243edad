"""The seeds of an arm as an ensemble, against the mean written out, and a student of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import read_predictions
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.experiments.comparison_plan import Plan
from calmix.experiments.seed_ensemble import SeedEnsemble
from calmix.user_error import UserError
from calmix.workflows.compare import Comparison
from experiments.drawn_runs import noisy, write_comparison


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    directory = tmp_path_factory.mktemp("drawn")
    write_comparison(directory, {"plain": noisy(1.5), "cls-mixup": noisy(0.6)}, seeds=(0, 1, 2))
    return directory


def test_probabilities_are_averaged_and_then_calibrated(drawn, tmp_path):
    found = SeedEnsemble.of(drawn, "cls-mixup")
    result = found.write(tmp_path / "out")
    mean = {
        split: np.mean(
            [softmax(predictions_of_run(run, split).values, axis=1) for run in found.members], axis=0
        )
        for split in ("validation", "test")
    }
    labels = predictions_of_run(found.members[0], "validation").labels

    def nll(temperature):
        scores = log_softmax(np.log(mean["validation"]) / temperature, axis=1)
        return -scores[np.arange(len(labels)), labels].mean()

    best = minimize_scalar(nll, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-8}).x
    assert result["temperature"] == pytest.approx(best, rel=1e-4)
    saved = read_predictions(tmp_path / "out" / "predictions" / "test.parquet")
    np.testing.assert_allclose(
        saved.probabilities(), softmax(np.log(mean["test"]) / result["temperature"], axis=1), atol=1e-6
    )
    test = result["splits"]["test"]
    assert test["calibrated"]["nll"] < test["members_mean"]["nll"]  # independent noise is averaged out
    assert result["splits"]["validation"]["calibrated"]["in_sample"]
    assert test["calibrated"]["ci_includes_fit"]
    assert "ci_includes_fit" not in result["splits"]["validation"]["calibrated"]
    assert json.loads((tmp_path / "out" / "ensemble.json").read_text())["seeds"] == [0, 1, 2]


def test_members_and_ensemble_are_measured_with_the_bins_of_the_comparison(tmp_path):
    """The runs of a store may have been measured with others."""
    write_comparison(tmp_path / "cmp", {"plain": noisy(1.5)}, seeds=(0, 1))
    plan = Plan.read(tmp_path / "cmp")
    replace(plan, config={**plan.config, "bins": "4,10", "closed": "left"}).write(tmp_path / "cmp")
    found = SeedEnsemble.of(tmp_path / "cmp", "plain")
    result = found.write(tmp_path / "out")
    members = [predictions_of_run(run, "test", calibrated=True) for run in found.members]
    alone = [evaluate(one, bins=4, closed="left", intervals=False)["ece"] for one in members]
    assert alone[0] != pytest.approx(found.members[0].metrics()["splits"]["test"]["calibrated"]["ece"])
    test = result["splits"]["test"]
    assert test["members_mean"]["ece"] == pytest.approx(np.mean(alone))
    saved = read_predictions(tmp_path / "out" / "predictions" / "test.parquet")
    assert test["calibrated"]["ece"] == pytest.approx(evaluate(saved, bins=4, closed="left")["ece"], rel=1e-6)
    assert "ece_10_bins" in test["uncalibrated"]
    assert (result["ece_bins"], result["ece_edges"]) == (4, "left")


def test_what_cannot_be_an_ensemble_is_refused(drawn, tmp_path):
    with pytest.raises(UserError, match="no method 'focal' in this comparison; it has: plain, cls-mixup"):
        SeedEnsemble.of(drawn, "focal")
    write_comparison(tmp_path / "one", {"plain": noisy(1.0)}, seeds=(0,))
    with pytest.raises(UserError, match="plain has finished runs of 1 seeds, and an ensemble needs two"):
        SeedEnsemble.of(tmp_path / "one", "plain")


@pytest.mark.trains
def test_an_ensemble_and_its_student_are_one_step_from_the_comparison(calmix, reviews, encoders, tmp_path):
    code, out, err = calmix(
        "compare", "--methods", "plain", "--seeds", "0,1", "--train", reviews / "train.csv", "--validation",
        reviews / "validation.csv", "--test", reviews / "test.csv", "--model", encoders("bert", layers=1),
        "--epochs", 1, "--learning-rate", 1e-3, "--threads", 1, "--executor", "inline",
        "--keep-models", "all", "--output", tmp_path / "cmp", "--ensemble", tmp_path / "mean",
        "--student", tmp_path / "student", "--json",
    )  # fmt: skip
    assert code == 0, err
    made = json.loads(out)
    assert made["ensemble"]["arm"] == "plain" and set(made["student"]["splits"]) == {"validation", "test"}
    metrics = json.loads((tmp_path / "student" / "metrics.json").read_text())
    assert len(metrics["distillation"]["teachers"]) == 2
    code, out, err = calmix("compare", "--from", tmp_path / "cmp", "--ensemble", tmp_path / "again")
    assert code == 0, err
    assert "ensemble of 2 seeds of plain" in out
    comparison = Comparison.open(tmp_path / "cmp")
    assert comparison.best_arm == "plain"
    of_python = comparison.ensemble(tmp_path / "python")
    assert of_python["temperature"] == made["ensemble"]["temperature"]
    code, _, err = calmix("compare", "--from", tmp_path / "cmp", "--arm", "plain")
    assert code == 2 and "the method of an ensemble or a student" in err
    code, _, err = calmix("compare", "--from", tmp_path / "cmp", "--ensemble", tmp_path / "mean")
    assert code == 2 and "exists already" in err
