"""Which epoch a run keeps, what it keeps of the others, and what it says it was made with."""

import json

import numpy as np
import pytest

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import read_predictions
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.agreement import matthews_correlation
from calmix.data.sampling import random_sample
from calmix.data.splits import read_splits
from calmix.training.pipeline.stages import train_staged

RULES = {
    "nll-after-temperature": ("validation_nll_calibrated", min),
    "nll": ("validation_nll", min),
    "accuracy": ("accuracy", max),
    "mcc": ("validation_mcc", max),
    "last": ("epoch", max),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_epoch_is_kept_that_the_rule_names(tiny, tmp_path, rule):
    run = train_staged(tiny(tmp_path / "run", epochs=4, learning_rate=2e-2, select_by=rule, bins="7,20"))
    metrics = run.metrics()
    key, best = RULES[rule]
    history = metrics["history"]
    (kept,) = [entry for entry in history if entry["chosen"]]
    assert kept[key] == best(entry[key] for entry in history)
    assert metrics["select_by"] == rule == run.config()["select_by"]
    # The saved predictions are those of that epoch.
    predictions = predictions_of_run(run, "validation")
    found = evaluate(predictions, bins=[7, 20])
    assert metrics["ece_bins"] == 7
    assert metrics["splits"]["validation"]["uncalibrated"]["ece_20_bins"] == found["ece_20_bins"]
    assert found["nll"] == pytest.approx(kept["validation_nll"], abs=1e-6)
    assert found["ece"] == pytest.approx(kept["validation_ece"], abs=1e-6)  # the bins of the run
    mcc = matthews_correlation(predictions.values.argmax(axis=1), predictions.labels)
    assert mcc == pytest.approx(kept["validation_mcc"])
    assert not run.checkpoints.exists()


@pytest.mark.parametrize("rule", ["nll-after-temperature", "last"])
def test_only_epochs_that_were_evaluated_can_be_kept(tiny, tmp_path, rule):
    run = train_staged(tiny(tmp_path / "run", epochs=5, learning_rate=2e-2, select_by=rule, evaluate_every=2))
    history = run.metrics()["history"]
    assert [entry["epoch"] for entry in history] == [2, 4, 5]  # the last one always
    (kept,) = [entry for entry in history if entry["chosen"]]
    key, best = RULES[rule]
    assert kept[key] == best(entry[key] for entry in history)
    found = evaluate(predictions_of_run(run, "validation"))
    assert found["nll"] == pytest.approx(kept["validation_nll"], abs=1e-6)


def test_the_predictions_of_every_epoch_are_kept_and_change_nothing(tiny, tmp_path):
    plain = train_staged(tiny(tmp_path / "plain", epochs=2, select_by="last"))
    kept = train_staged(tiny(tmp_path / "kept", epochs=2, select_by="last", keep_epoch_predictions=True))
    ours, theirs = (json.dumps(run.metrics()["splits"]) for run in (plain, kept))
    assert ours == theirs
    for split in ("test", "other"):
        first, last = (read_predictions(kept.path / "epochs" / str(e) / f"{split}.parquet") for e in (1, 2))
        final = predictions_of_run(kept, split)
        assert last.ids.tolist() == final.ids.tolist()
        np.testing.assert_allclose(last.values, final.values, atol=1e-5)
        assert np.abs(first.values - final.values).max() > 1e-3


def test_a_temperature_on_the_grid_of_the_papers(tiny, tmp_path):
    run = train_staged(tiny(tmp_path / "run", temperature_fit="grid"))
    temperature = run.metrics()["temperature"]
    assert temperature == round(temperature, 2)
    validation = predictions_of_run(run, "validation")
    grid = np.arange(1, 501) / 100
    losses = [-validation.with_temperature(t).gold_log_probability().mean() for t in grid]
    assert temperature == pytest.approx(grid[int(np.argmin(losses))])


def test_a_run_says_what_it_was_made_with(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    run = train_staged(tiny(tmp_path / "run", method="aum-saliency"))
    found = run.metrics()["effective_options"]
    assert found["method.alpha"] == 0.4 and found["method.preset"] == "paper"
    classes = len(run.metrics()["label_names"])
    assert found["method.saliency"] == ("gradient-input" if classes == 2 else "logits")
    assert np.isfinite(found["aum_median"])
    assert found["rows_available"] == run.metrics()["sizes"]["train"] == 96


def test_the_training_rows_are_those_that_were_trained_on(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    options = {"aum_filter": False, "disjoint": True}
    run = train_staged(tiny(tmp_path / "run", method="tdmixup", method_options=options))
    groups = {group["name"]: group["rows"] for group in run.guidance()["groups"]}
    assert run.metrics()["sizes"]["train"] == groups["easy"] + groups["ambiguous"] < 96
    assert run.metrics()["effective_options"]["rows_available"] == 96


def test_a_random_sample_is_not_stratified(reviews):
    rows = read_splits(str(reviews / "train.csv"), str(reviews / "validation.csv"), ()).train
    samples = [random_sample(rows, 20, seed) for seed in range(60)]
    counts = np.array([np.bincount(one.labels, minlength=rows.class_count) for one in samples])
    share = rows.label_counts / len(rows)
    # As uneven as draws without replacement are: hypergeometric.
    variance = 20 * share * (1 - share) * (len(rows) - 20) / (len(rows) - 1)
    assert counts.std(axis=0) == pytest.approx(np.sqrt(variance), rel=0.35)
    assert counts.mean(axis=0) == pytest.approx(20 * share, abs=4 * np.sqrt(variance / 60).max())
    assert random_sample(rows, 20, 3).row_ids.tolist() == samples[3].row_ids.tolist()
    assert all(len(np.unique(random_sample(rows, 2, seed).labels)) == 2 for seed in range(30))
