"""Rows with weights and soft labels: against slow loops, scikit-learn and rows that are written out."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from evaluated_files import evaluate_files

SHARED = ("accuracy", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "mce", "rmsce", "oe", "aurc",
          "augrc", "mean_confidence", "confidence_gap")  # fmt: skip


def sample(rows=300, classes=3, seed=0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes)) * 2
    labels = np.array([generator.choice(classes, p=np.exp(z) / np.exp(z).sum()) for z in logits / 1.5])
    return Predictions.from_logits(logits, labels), generator


def test_equal_weights_are_the_metrics_of_rows_without_them():
    predictions, _ = sample()
    plain, weighted = evaluate(predictions), evaluate(predictions.with_rows(weights=np.full(300, 2.5)))
    for name in SHARED:
        assert weighted[name] == pytest.approx(plain[name], abs=1e-12), name
    assert weighted["effective_n"] == pytest.approx(300)
    assert weighted["ece_noise_floor"] == pytest.approx(plain["ece_noise_floor"], rel=0.15)
    for name in ("accuracy", "nll", "brier"):
        assert weighted[f"{name}_ci"] == pytest.approx(plain[f"{name}_ci"], abs=0.03)


def test_whole_weights_are_rows_written_several_times():
    predictions, generator = sample()
    weights = generator.integers(0, 4, size=300)
    written = predictions.select(np.repeat(np.arange(300), weights))
    plain, weighted = evaluate(written, intervals=False), evaluate(predictions.with_rows(weights=weights))
    for name in SHARED:
        if name != "aurc":  # a row written twice is ranked twice
            assert weighted[name] == pytest.approx(plain[name], abs=1e-9), name
    assert weighted["n"] == (weights > 0).sum()


def test_accuracy_and_nll_are_those_of_scikit_learn():
    predictions, generator = sample()
    weights = generator.gamma(1.0, size=300)
    found = evaluate(predictions.with_rows(weights=weights), intervals=False)
    expected = accuracy_score(predictions.labels, predictions.predicted(), sample_weight=weights)
    assert found["accuracy"] == pytest.approx(expected)
    probabilities = predictions.probabilities()
    assert found["nll"] == pytest.approx(log_loss(predictions.labels, probabilities, sample_weight=weights))


def test_soft_labels_are_expectations_over_annotators():
    predictions, generator = sample()
    targets = generator.dirichlet(np.ones(3), size=300)
    weights = generator.gamma(1.0, size=300)
    found = evaluate(predictions.with_rows(targets=targets, weights=weights), bins=10, intervals=False)
    probabilities, total = predictions.probabilities(), weights.sum()
    nll = brier = right = 0.0
    gaps = np.zeros(10)
    for p, t, v in zip(probabilities, targets, weights, strict=True):
        for k in range(3):
            nll -= v * t[k] * np.log(p[k])
            brier += v * t[k] * sum((p[j] - (j == k)) ** 2 for j in range(3))
        best = int(p.argmax())
        right += v * t[best]
        gaps[int(np.ceil(p[best] * 10)) - 1] += v * (t[best] - p[best])
    assert found["nll"] == pytest.approx(nll / total)
    assert found["brier"] == pytest.approx(brier / total)
    assert found["accuracy"] == pytest.approx(right / total)
    assert found["ece"] == pytest.approx(np.abs(gaps).sum() / total)


def test_one_hot_soft_labels_are_hard_labels():
    predictions, _ = sample()
    soft = predictions.with_rows(targets=np.eye(3)[predictions.labels])
    plain, found = evaluate(predictions, intervals=False), evaluate(soft, intervals=False)
    for name in SHARED:
        assert found[name] == pytest.approx(plain[name], abs=1e-12), name


def test_the_temperature_minimises_the_soft_nll():
    predictions, generator = sample()
    noise = generator.dirichlet(np.ones(3), size=300)
    targets = 0.7 * predictions.with_temperature(2).probabilities() + 0.3 * noise
    soft = predictions.with_rows(targets=targets, weights=generator.random(300))
    fitted = TemperatureScaling().fit(soft).temperature_
    around = [evaluate(soft.with_temperature(fitted * f), intervals=False)["nll"] for f in (0.98, 1.0, 1.02)]
    assert around[1] == min(around)


@pytest.mark.simulates
def test_intervals_hold_the_truth():
    generator = np.random.default_rng(1)
    inside = {"nll": 0, "accuracy": 0, "ece": 0}
    for repetition in range(200):
        confidence = generator.uniform(0.5, 1, size=200)
        weights = generator.gamma(2.0, size=200)
        right = generator.random(200) < confidence - 0.15
        given = Predictions.from_probabilities(
            np.column_stack([confidence, 1 - confidence]), 1 - right.astype(int)
        )
        found = evaluate(given.with_rows(weights=weights), seed=repetition)
        truth = {"accuracy": 0.6, "ece": 0.15}
        p = np.linspace(0.5, 1, 20001)[:-1]
        truth["nll"] = float(-((p - 0.15) * np.log(p) + (1.15 - p) * np.log1p(-p)).mean())
        for name in inside:
            low, high = found[f"{name}_ci"]
            inside[name] += low <= truth[name] <= high
    assert all(count >= 180 for count in inside.values()), inside


def test_files_keep_weights_and_soft_labels(tmp_path):
    predictions, generator = sample(rows=20)
    soft = predictions.with_rows(
        targets=generator.dirichlet(np.ones(3), size=20), weights=generator.random(20)
    )
    write_predictions(tmp_path / "soft.parquet", soft)
    again = read_predictions(tmp_path / "soft.parquet")
    assert again.weights == pytest.approx(soft.weights)
    assert again.targets == pytest.approx(soft.targets)
    found = evaluate_files([tmp_path / "soft.parquet", tmp_path / "soft.parquet"])
    assert found["files"][0]["nll"] == pytest.approx(evaluate(soft)["nll"])
    assert "weights or soft labels" in found["differences"][0]["reason"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("1,-2,1", "row 2, column 'w': weights must be finite and not negative, not -2"),
        ("1,nan,1", "weights must be finite"),
        ("0,0,0", "weights are all 0"),
        ("1,x,1", "row 2, column 'w': scores must be numbers"),
    ],
)
def test_weights_of_files_that_make_no_sense_are_refused(calmix, tmp_path, weights, message):
    rows = [f"{label},0.5,0.5,{w}" for label, w in zip((0, 1, 0), weights.split(","), strict=True)]
    (tmp_path / "p.csv").write_text("\n".join(["label,prob_0,prob_1,w", *rows]))
    code, _, err = calmix("evaluate", tmp_path / "p.csv", "--weight-column", "w")
    assert code == 2
    assert message in " ".join(err.split())


def test_the_command_line_measures_with_weights(calmix, tmp_path):
    import json

    (tmp_path / "p.csv").write_text("label,prob_0,prob_1,w\n0,0.9,0.1,3\n1,0.8,0.2,1\n")
    code, out, _ = calmix("evaluate", tmp_path / "p.csv", "--weight-column", "w", "--json")
    assert code == 0
    assert json.loads(out)["files"][0]["accuracy"] == 0.75
    code, _, err = calmix("evaluate", tmp_path / "p.csv", "--weight-column", "wait")
    assert code == 2 and "no column 'wait'" in err


def test_soft_labels_of_another_shape_are_refused():
    predictions, _ = sample(rows=4)
    with pytest.raises(ValueError, match="soft labels of the shape"):
        predictions.with_rows(targets=np.full((4, 2), 0.5))


def test_rounded_soft_labels_count_by_the_weight_of_their_row():
    given = Predictions.from_probabilities([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    rounded = given.with_rows(targets=[[0.6, 0.4009], [0.3, 0.7]])
    np.testing.assert_allclose(rounded.targets.sum(axis=1), 1.0, rtol=1e-15)
    expected = (0.6 / 1.0009 + 0.7) / 2
    assert evaluate(rounded, intervals=False)["accuracy"] == pytest.approx(expected, abs=1e-12)
