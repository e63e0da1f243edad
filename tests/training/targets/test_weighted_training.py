"""Class weights and balanced sampling in training: against explicit steps, and in a run from end to end."""

import json

import numpy as np
import pytest
import torch

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.data.batches.epoch_order import epoch_batches
from calmix.io.run_directory import RunDirectory
from calmix.mixing.method import get_method
from calmix.user_error import UserError
from tiny import read_json, sentences

SGD = {"dropout": 0.0, "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0}


def shares(trainer):
    return np.bincount(trainer.train_dataset.labels, minlength=2) / len(trainer.train_dataset)


def test_weighted_training_equals_an_explicit_loop(make_trainer):
    trainer = make_trainer(class_weights="positive=20", **SGD)
    model = make_trainer(dropout=0.0).model
    trainer.train()
    weight = torch.tensor([1.0, 20.0]) / float(shares(trainer) @ [1, 20])
    optimiser = torch.optim.SGD(model.parameters(), lr=trainer.args.learning_rate)
    rows = trainer.train_dataset
    model.train()
    for epoch in range(2):
        for batch in epoch_batches(len(rows), 8, seed=trainer.args.seed, epoch=epoch, lengths=rows.lengths):
            inputs = trainer.data_collator([rows[int(i)] for i in batch])
            labels = inputs.pop("labels")
            losses = torch.nn.functional.cross_entropy(
                model(**inputs).logits, labels, weight=weight, reduction="none"
            )
            optimiser.zero_grad()
            losses.mean().backward()
            optimiser.step()
    for name, tensor in model.named_parameters():
        assert torch.allclose(tensor, dict(trainer.model.named_parameters())[name], atol=1e-6), name


METHODS = {
    "plain": {},
    "cls-mixup": {},
    "input-mixup": {},
    "features-only": {},
    "regmixup": {},
    "rankmixup": {},
    "kernel-warping": {},
    "focal": {},
    "erl": {},
    "aum-saliency": {"split": "random"},
    "aum-saliency, global": {"split": "random", "scope": "global", "saliency": "logits", "metric": "l2_raw"},
}


@pytest.mark.parametrize("name", METHODS)
def test_weights_of_one_are_no_weights(make_trainer, name):
    trained = []
    for weights in ("none", "positive=1"):
        method = get_method(name.partition(",")[0], **METHODS[name])
        settings = {"num_train_epochs": 2 if "global" in name else 1, "rows": 24}
        trainer = make_trainer(method=method, class_weights=weights, **settings, **SGD)
        trainer.train()
        trained.append(trainer.model)
    for first, second in zip(trained[0].parameters(), trained[1].parameters(), strict=True):
        assert torch.allclose(first, second, atol=1e-6)


def test_balanced_batches_hold_both_classes_and_an_epoch_stays_as_long(make_trainer):
    trainer = make_trainer(sampling="balanced", rows=40)
    labels = trainer.train_dataset.labels
    rare = int(np.bincount(labels).argmin())
    drawn = [[key.position for key in batch] for batch in trainer.batches]
    assert sum(map(len, drawn)) == 40
    for batch in drawn:
        assert (labels[batch] == rare).sum() == len(batch) / 2
    counts = np.bincount([position for batch in drawn for position in batch], minlength=40)[labels == rare]
    assert counts.max() - counts.min() <= 1


def test_saved_checkpoint_is_corrected(make_trainer, tmp_path):
    from transformers import AutoModelForSequenceClassification

    trainer = make_trainer(class_weights="positive=20", num_train_epochs=1)
    trainer.train()
    trainer.eval_dataset = trainer.train_dataset
    temperature = trainer.save_calibrated(tmp_path / "model")
    saved = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    batch.pop("labels")
    trainer.model.eval()
    with torch.no_grad():
        before, after = trainer.model(**batch).logits, saved(**batch).logits
    difference = (before[:, 1] - before[:, 0]) - temperature * (after[:, 1] - after[:, 0])
    assert difference.numpy() == pytest.approx(np.log(20), abs=1e-4)
    assert saved.config.calmix_prior_correction["folded"]


def test_methods_with_groups_of_their_own_take_weights_but_no_sampling(make_trainer):
    with pytest.raises(UserError, match="composes its batches itself; use class_weights=balanced"):
        make_trainer(method=get_method("aum-saliency", split="random"), sampling="balanced")


def test_a_head_without_a_bias_is_refused_before_training(make_trainer):
    def without_bias(model):
        model.classifier.bias = None
        return model

    with pytest.raises(UserError, match="has no bias to correct the shift"):
        make_trainer(class_weights="balanced", wrap=without_bias)


def test_a_student_is_not_weighed(make_trainer):
    trainer = make_trainer(class_weights="balanced")
    with pytest.raises(UserError, match="with a teacher"):
        trainer.learn_from(np.zeros((40, 2)))


@pytest.fixture
def files(tmp_path):
    texts, labels = sentences(300, seed=5)
    lines = ["text,label", *(f"{text},{label}" for text, label in zip(texts, labels, strict=True))]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    return tmp_path / "train.csv"


@pytest.mark.trains
def test_a_run_says_what_was_corrected(calmix, files, encoders, tmp_path):
    run = tmp_path / "run"
    arguments = [
        *("train", "--train", str(files), "--test", str(files), "--model", str(encoders("bert", layers=1))),
        *("--class-weights", "positive=20", "--epochs", "4", "--learning-rate", "5e-3", "--output", str(run)),
    ]
    assert calmix(*arguments)[0] == 0
    metrics = read_json(run / "metrics.json")
    facts = metrics["prior_correction"]
    assert facts["log_shift"]["positive"] - facts["log_shift"]["negative"] == pytest.approx(np.log(20))
    corrected, uncorrected = metrics["splits"]["test"]["uncalibrated"], facts["uncorrected"]["test"]
    assert uncorrected["nll"] > corrected["nll"]
    assert uncorrected["nll_ci"][0] < uncorrected["nll"] < uncorrected["nll_ci"][1]
    held = predictions_of_run(RunDirectory(run), "test")
    assert held.confidence().mean() < 1
    assert json.loads((run / "model" / "config.json").read_text())["calmix_prior_correction"]["folded"]
    card = (run / "model" / "README.md").read_text()
    assert "Classes were weighted in training" in card and "class_weights: positive=20" in card
    assert "Scores without and with the correction" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (("--class-weights", "neutral=3"), "--class-weights names 'neutral', which is no class"),
        (("--class-weights", "positive=0"), "the weight of 'positive' is 0"),
        (("--sampling", "even"), "--sampling is 'even'; choose one of natural, balanced"),
    ],
)
def test_bad_weights_end_with_one_line(calmix, files, encoders, tmp_path, option, line):
    run = tmp_path / "run"
    arguments = [
        "train",
        "--train",
        str(files),
        "--model",
        str(encoders("bert")),
        "--output",
        str(run),
        *option,
    ]
    code, _, err = calmix(*arguments)
    assert code == 2
    assert line in " ".join(err.split())
    assert not run.exists()
