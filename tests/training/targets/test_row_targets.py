"""Weights of rows and soft labels in training: against explicit steps, and in a run from end to end."""

import json

import numpy as np
import pytest
import torch

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.data.batches.epoch_order import epoch_batches
from calmix.io.run_directory import RunDirectory
from calmix.mixing.target_mass import TargetMass
from calmix.mixing.targets import mixed
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError
from tiny import POSITIVE, read_json, sentences

SGD = {"dropout": 0.0, "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0}


def with_rows(**given):
    return lambda **settings: MixupTrainer(**settings, **given)


def test_weighted_soft_training_equals_an_explicit_loop(make_trainer):
    generator = np.random.default_rng(0)
    weights, soft = generator.gamma(1.0, size=40), generator.dirichlet([1, 1], size=40)
    trainer = make_trainer(trainer=with_rows(row_weights=weights, soft_labels=soft), **SGD)
    model = make_trainer(dropout=0.0).model
    trainer.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=trainer.args.learning_rate)
    rows = trainer.train_dataset
    model.train()
    for epoch in range(2):
        for batch in epoch_batches(40, 8, seed=trainer.args.seed, epoch=epoch, lengths=rows.lengths):
            inputs = trainer.data_collator([rows[int(i)] for i in batch])
            inputs.pop("labels")
            log_p = torch.log_softmax(model(**inputs).logits, 1)
            loss = 0.0
            for place, row in enumerate(batch):
                for k in range(2):
                    loss = loss - weights[row] / weights.mean() * soft[row, k] * log_p[place, k]
            optimiser.zero_grad()
            (loss / len(batch)).backward()
            optimiser.step()
    for name, tensor in model.named_parameters():
        assert torch.allclose(tensor, dict(trainer.model.named_parameters())[name], atol=1e-6), name


def test_mixed_rows_have_the_mix_of_weighted_targets():
    soft, weights = np.array([[0.2, 0.8], [1.0, 0.0]]), np.array([0.5, 1.5])
    mass = TargetMass(2, row_weights=weights, soft_labels=soft)
    own = mass.of(torch.tensor([1, 0]), np.array([0, 1]))
    both = mixed(own, torch.tensor([1, 0]), torch.tensor(0.25))
    assert both[0].tolist() == pytest.approx((0.25 * 0.5 * soft[0] + 0.75 * 1.5 * soft[1]).tolist())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"row_weights": [-1.0] * 40}, "row_weights: weights must be finite and not negative"),
        ({"row_weights": [1.0] * 3}, "row_weights: weights must have shape"),
        ({"row_weights": [0.0] * 40}, "row_weights: weights are all 0"),
        ({"soft_labels": [[0.5, 0.2]] * 40}, "soft_labels: probabilities must sum to 1"),
        ({"soft_labels": [[0.5, 0.5]] * 3}, "soft_labels of the shape (3, 2) for 40 rows of 2 classes"),
    ],
)
def test_targets_that_make_no_sense_are_refused(make_trainer, given, message):
    with pytest.raises(UserError) as caught:
        make_trainer(trainer=with_rows(**given)).preflight()
    assert message in str(caught.value)


def annotated(path, rows, seed):
    """Sentences with three annotators, who disagree at random, and a weight."""
    generator = np.random.default_rng(seed)
    texts, _ = sentences(rows, seed=seed)
    lines = []
    for text in texts:
        rate = 0.85 if set(text.split()) & set(POSITIVE) else 0.15
        votes = ["positive" if generator.random() < rate else "negative" for _ in range(3)]
        lines.append(json.dumps({"text": text, "votes": votes, "w": float(generator.integers(1, 4))}))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, encoders):
    from calmix.cli.app import main

    folder = tmp_path_factory.mktemp("annotated")
    files = [
        annotated(folder / f"{name}.jsonl", 120, seed) for seed, name in enumerate(("train", "dev", "test"))
    ]
    arguments = ["train", "--train", files[0], "--validation", files[1], "--test", files[2]]
    arguments += ["--annotations-column", "votes", "--weight-column", "w", "--method", "cls-mixup"]
    arguments += ["--model", encoders("bert", layers=1), "--epochs", "3", "--learning-rate", "5e-3"]
    arguments += ["--dynamics", "epoch_end", "--output", folder / "run"]
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code
    return RunDirectory(folder / "run")


def test_a_run_is_fitted_and_measured_with_weights_and_annotators(run):
    held, test = (predictions_of_run(run, name) for name in ("validation", "test"))
    metrics = read_json(run.metrics_file)
    expanded, weights = held.weighted_rows()
    assert set(np.round(held.targets.ravel() * 3, 9)) == {0, 1, 2, 3}
    fitted = TemperatureScaling().fit(expanded.values, expanded.labels, sample_weight=weights).temperature_
    assert metrics["temperature"] == pytest.approx(fitted, rel=1e-6)
    found = metrics["splits"]["test"]["calibrated"]
    assert found["has_soft_labels"] and found["is_weighted"]
    assert found["nll"] == pytest.approx(evaluate(test.with_temperature(fitted))["nll"], rel=1e-5)
    slow = sum(
        v * t @ -np.log(p)
        for v, t, p in zip(
            test.weights, test.targets, test.with_temperature(fitted).probabilities(), strict=True
        )
    )
    assert found["nll"] == pytest.approx(slow / test.weights.sum(), rel=1e-5)


def test_dynamics_are_those_of_the_majority_label(run):
    import pyarrow.parquet as parquet

    from calmix.data.reading import read_rows
    from calmix.training.configuration import TrainConfig

    config = TrainConfig.from_dict(run.config())
    rows = read_rows(config.train, "train", config.columns())
    table = parquet.read_table(run.dynamics_file)
    names = [rows.label_names[place] for place in rows.soft_labels.argmax(axis=1)]
    labels = table.column("label").to_pylist()
    assert labels in (names, rows.labels.tolist())


def test_evaluate_calibrate_and_report_know_the_run(calmix, run, tmp_path):
    code, out, _ = calmix("evaluate", run.path, "--json")
    assert code == 0
    assert json.loads(out)["files"][0]["has_soft_labels"]
    code, _, err = calmix("calibrate", run.path, "--fit-on", "validation", "--output", tmp_path / "again")
    assert code == 0, err
    assert "class" in (run.path / "report.html").read_text()
