"""The metrics inside a real `transformers.Trainer`, whole and batch by batch."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from calmix.calibration.evaluation import evaluate
from calmix.calibration.integrations.trainer_metrics import CalibrationMetrics
from calmix.calibration.predictions import Predictions
from tiny import sentences

ROWS = 45  # no multiple of the batch size


@pytest.fixture(scope="module")
def evaluation_set(encoders):
    """The tiny network, its tokenizer and encoded sentences."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    directory = encoders("bert", dropout=0.0)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(directory, num_labels=2)
    with torch.no_grad():
        model.classifier.weight *= 20  # a network that says something
    texts, names = sentences(ROWS, seed=5)
    rows = [
        {**tokenizer(text), "labels": int(name == "positive")}
        for text, name in zip(texts, names, strict=True)
    ]
    return model, tokenizer, rows


def trainer_of(evaluation_set, output, metrics, **settings):
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    model, tokenizer, rows = evaluation_set
    arguments = TrainingArguments(
        output_dir=str(output), per_device_eval_batch_size=8, use_cpu=True, disable_tqdm=True,
        report_to="none", dataloader_pin_memory=False, **settings,
    )  # fmt: skip
    return Trainer(
        model=model,
        args=arguments,
        eval_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=metrics,
    )


def test_the_trainer_reports_the_same_metrics_whole_and_batch_by_batch(evaluation_set, tmp_path):
    batched_trainer = trainer_of(evaluation_set, tmp_path, CalibrationMetrics(), batch_eval_metrics=True)
    batched = batched_trainer.evaluate()
    again = batched_trainer.evaluate()
    whole_trainer = trainer_of(evaluation_set, tmp_path, CalibrationMetrics())
    whole = whole_trainer.evaluate()

    output = whole_trainer.predict(whole_trainer.eval_dataset)
    expected = evaluate(Predictions.from_logits(output.predictions, output.label_ids), intervals=False)
    for name in ("accuracy", "nll", "brier", "ece", "mce", "oe", "rmsce", "classwise_ece"):
        for result in (batched, again, whole):
            assert type(result[f"eval_{name}"]) is float
            assert result[f"eval_{name}"] == pytest.approx(expected[name], abs=1e-12)
    assert expected["nll"] == pytest.approx(whole["eval_loss"], rel=1e-6)
    assert 0 < expected["ece"] < 1


@pytest.mark.trains
def test_the_trainer_selects_a_model_by_them(evaluation_set, tmp_path):
    trainer = trainer_of(
        evaluation_set, tmp_path, CalibrationMetrics(), batch_eval_metrics=True, num_train_epochs=2,
        eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
        metric_for_best_model="nll", greater_is_better=False, logging_strategy="no",
    )  # fmt: skip
    trainer.train_dataset = trainer.eval_dataset
    trainer.train()
    seen = [entry["eval_nll"] for entry in trainer.state.log_history if "eval_nll" in entry]
    assert len(seen) == 2
    assert trainer.state.best_metric == min(seen)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_size_of_a_batch_changes_nothing(size):
    generator = np.random.default_rng(0)
    logits = (4 * generator.standard_normal((300, 5))).astype(np.float32)
    labels = generator.integers(0, 5, 300)
    whole = CalibrationMetrics()(SimpleNamespace(predictions=logits, label_ids=labels))
    metrics = CalibrationMetrics()
    for start in range(0, 300, size):
        part = slice(start, start + size)
        batch = SimpleNamespace(predictions=logits[part], label_ids=labels[part])
        result = metrics(batch, compute_result=start + size >= 300)
    assert result == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_of_any_precision_are_read_without_loss(dtype):
    import torch

    values = [[3.0, 0.0], [0.25, 0.0], [0.0, 1.5]]  # exact in every precision
    logits = torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=True)
    labels = torch.tensor([0, 1, 1])
    expected = CalibrationMetrics()(SimpleNamespace(predictions=values, label_ids=[0, 1, 1]))
    assert CalibrationMetrics()(SimpleNamespace(predictions=logits, label_ids=labels)) == expected
    # Models that return hidden states hand over a tuple that begins with the logits.
    both = SimpleNamespace(predictions=(logits, torch.zeros(3, 7)), label_ids=(labels,))
    assert CalibrationMetrics()(both) == expected


def test_an_evaluation_that_was_broken_off_can_be_forgotten():
    metrics = CalibrationMetrics()
    metrics(SimpleNamespace(predictions=[[9.0, 0.0]], label_ids=[1]), compute_result=False)
    metrics.reset()
    assert metrics(SimpleNamespace(predictions=[[9.0, 0.0]], label_ids=[0]))["accuracy"] == 1.0


def test_what_makes_no_sense_is_refused():
    metrics = CalibrationMetrics()
    with pytest.raises(ValueError, match="finite"):
        metrics(SimpleNamespace(predictions=[[np.nan, 0.0]], label_ids=[0]))
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        metrics(SimpleNamespace(predictions=[[0.0, 0.0]], label_ids=[-100]))
    with pytest.raises(ValueError, match="bins"):
        CalibrationMetrics(bins=0)
    metrics.reset()
    metrics(SimpleNamespace(predictions=[[0.0, 0.0]], label_ids=[0]), compute_result=False)
    with pytest.raises(ValueError, match="3 classes"):
        metrics(SimpleNamespace(predictions=[[0.0, 0.0, 0.0]], label_ids=[0]))


def test_the_batched_signature_is_the_one_the_trainer_looks_for():
    assert "compute_result" in inspect.signature(CalibrationMetrics()).parameters


@pytest.mark.processes
def test_the_module_does_not_load_torch():
    code = "import sys, calmix.calibration.integrations.trainer_metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
