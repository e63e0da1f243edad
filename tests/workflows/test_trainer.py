"""`MixupTrainer.save_calibrated`: one call from a trained trainer to a calibrated standard checkpoint."""

import pytest
from datasets import Dataset
from scipy.special import softmax
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

import calmix as api
from calmix.user_error import UserError
from marking import marking


@pytest.fixture(scope="module")
@marking("trains")
def trainer(frames, encoders, tmp_path_factory):
    tokenizer = AutoTokenizer.from_pretrained(encoders("bert"))

    def encode(name):
        frame = frames(name)
        encoded = tokenizer(frame["text"].tolist(), truncation=True, max_length=32)
        return Dataset.from_dict({**encoded, "labels": (frame["label"] == "positive").astype(int).tolist()})

    arguments = api.MixupArguments(
        output_dir=str(tmp_path_factory.mktemp("trainer")), method="cls-mixup", num_train_epochs=1,
        use_cpu=True,
        learning_rate=1e-3, report_to="none", disable_tqdm=True, logging_strategy="no", save_strategy="no",
    )  # fmt: skip
    made = api.MixupTrainer(
        model=AutoModelForSequenceClassification.from_pretrained(encoders("bert"), num_labels=2),
        args=arguments,
        train_dataset=encode("train"),
        eval_dataset=encode("validation"),
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    made.train()
    return made


def test_the_saved_checkpoint_is_the_model_at_its_temperature(trainer, tmp_path):
    temperature = trainer.save_calibrated(tmp_path / "model", trainer.eval_dataset)
    output = trainer.predict(trainer.eval_dataset)
    expected = api.TemperatureScaling().fit(output.predictions, output.label_ids).temperature_
    assert temperature == pytest.approx(expected, rel=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = DataCollatorWithPadding(tokenizer)([dict(trainer.eval_dataset[place]) for place in range(8)])
    batch.pop("labels")
    logits = model(**batch).logits.detach().numpy()
    assert softmax(logits, 1) == pytest.approx(softmax(output.predictions[:8] / temperature, 1), abs=1e-5)
    assert str(temperature) in (tmp_path / "model" / "config.json").read_text()
    # The trainer's own model is as it was: a second call finds the same temperature.
    assert trainer.save_calibrated(tmp_path / "again") == temperature


def test_nothing_is_written_over(trainer, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="the output exists already"):
        trainer.save_calibrated(tmp_path, trainer.eval_dataset)
