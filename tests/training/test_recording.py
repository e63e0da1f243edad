"""The mixin on someone else's Trainer, with plain `TrainingArguments`."""

import numpy as np
import pytest
import torch
from transformers import Trainer, TrainingArguments

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.rows import Rows
from calmix.dynamics.margins import observe
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.runtime.progress import quiet
from calmix.training.recording import DynamicsMixin
from tiny import sentences


class Recording(DynamicsMixin, Trainer):
    pass


@pytest.fixture
def foreign(encoders, tmp_path):
    def make(rows=17, kind=Recording, dropout=0.1, **settings):
        texts, labels = sentences(rows, seed=3)
        data = Rows.from_columns(
            [f"row-{i}" for i in range(rows)],
            texts,
            labels=[int(label == "positive") for label in labels],
            label_names=("negative", "positive"),
        )
        directory = str(encoders("bert", dropout=dropout))
        tokenizer = load_tokenizer(directory)
        defaults = {
            "output_dir": str(tmp_path / "out"), "num_train_epochs": 2, "per_device_train_batch_size": 8,
            "learning_rate": 1e-3, "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
            "use_cpu": True, "report_to": "none",
        }  # fmt: skip
        trainer = kind(
            model=load_classifier(directory, task="single", label_names=data.label_names, seed=0),
            args=TrainingArguments(**{**defaults, **settings}),
            train_dataset=encode_rows(data, tokenizer, max_length=64),
            data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
        )
        quiet(trainer)
        return trainer

    return make


def test_a_last_batch_of_one_row_is_recorded_like_any_other(foreign):
    trainer = foreign(rows=17, dropout=0.0, learning_rate=1e-12)  # weights stay put: logits can be had again
    trainer.train()
    dynamics = trainer.recorder.dynamics()
    assert (trainer.recorder.state()["times"] == 1).all()
    trainer.model.eval()
    rows = trainer.train_dataset
    with torch.no_grad():
        for position in range(17):
            batch = trainer.data_collator([rows[position]])
            label = batch.pop("labels")
            expected = observe(trainer.model(**batch).logits.numpy(), label.numpy())
            assert dynamics.margin[position] == pytest.approx([expected.margin[0]] * 2, abs=1e-5)
            gold = [expected.gold_probability[0]] * 2
            assert dynamics.gold_probability[position] == pytest.approx(gold, abs=1e-5)


def test_a_row_forwarded_twice_in_an_epoch_is_averaged_and_its_last_prediction_counts(foreign):
    """A Trainer of the R-drop kind forwards each batch twice, with two dropout masks."""
    passes = []

    class Twice(Recording):
        def compute_loss(self, *args, **kwargs):
            first = super().compute_loss(*args, **kwargs)
            return first + super().compute_loss(*args, **kwargs)

        def record(self, logits):
            passes.append((self.keys.positions.copy(), logits.detach().numpy().copy()))
            super().record(logits)

    trainer = foreign(rows=12, kind=Twice, num_train_epochs=1)
    trainer.train()
    labels = trainer.train_dataset.labels
    margins, predictions = [[] for _ in labels], [None for _ in labels]
    for positions, logits in passes:
        seen = observe(logits, labels[positions])
        for position, margin, predicted in zip(positions, seen.margin, seen.predicted, strict=True):
            margins[position].append(margin)
            predictions[position] = predicted
    assert all(len(seen) == 2 and seen[0] != seen[1] for seen in margins)
    dynamics = trainer.recorder.dynamics()
    assert dynamics.margin[:, 0] == pytest.approx([np.mean(seen) for seen in margins], abs=1e-12)
    assert dynamics.predicted_label[:, 0].tolist() == predictions


@pytest.mark.parametrize("step", [2, 4], ids=["in mid-epoch", "in a later epoch"])
def test_a_foreign_trainer_resumed_from_its_own_checkpoint_holds_the_same_bits(foreign, tmp_path, step):
    settings = {"save_strategy": "steps", "save_steps": step, "save_total_limit": 1}
    unbroken = foreign(**settings)
    unbroken.train()

    class Killed(Exception):
        pass

    class Stops(Recording):
        def training_step(self, *args, **kwargs):
            if self.state.global_step == step:
                raise Killed
            return super().training_step(*args, **kwargs)

    output = str(tmp_path / "broken")
    with pytest.raises(Killed):
        foreign(kind=Stops, output_dir=output, **settings).train()
    resumed = foreign(output_dir=output, **settings)
    resumed.train(resume_from_checkpoint=True)
    expected, got = unbroken.recorder.state(), resumed.recorder.state()
    assert expected.keys() == got.keys()
    for name, array in expected.items():
        assert np.array_equal(array, got[name]), name
    assert (got["times"] == 1).all()


def test_the_dynamics_name_the_classes_as_the_head_does(foreign):
    assert foreign().recorder.class_names == ("negative", "positive")
