"""`filtered_data_map`: the threshold passes of a run, for users of `MixupTrainer`."""

import numpy as np
import pytest
from datasets import Dataset
from transformers import AutoTokenizer, DataCollatorWithPadding

import calmix
from calmix.data.rows import Rows
from calmix.mixing.known_rows import LabelFilter
from calmix.models.loading import load_classifier
from calmix.training.configuration import TrainConfig
from calmix.training.label_noise.threshold_passes import FAKE_CLASS, find_label_noise
from calmix.training.label_noise.trainer_map import margins_of_pass
from calmix.user_error import UserError
from tiny import sentences

NAMES = ("negative", "positive")


@pytest.fixture(scope="module")
def data():
    texts, labels = sentences(60, seed=5, noise=0.1)
    indices = [NAMES.index(label) for label in labels]
    return Rows.from_columns([f"train-{i}" for i in range(60)], texts, labels=indices, label_names=NAMES)


@pytest.fixture(scope="module")
def make_model(encoders):
    directory = str(encoders("bert", dropout=0.0))
    return lambda classes: load_classifier(
        directory, task="single", label_names=(*NAMES, FAKE_CLASS)[:classes], seed=0
    )


@pytest.fixture(scope="module")
def make_trainer(data, make_model, encoders, tmp_path_factory):
    tokenizer = AutoTokenizer.from_pretrained(encoders("bert"))
    encoded = tokenizer(data.texts(), truncation=True, max_length=32)

    def make(method, label="labels", **known):
        return calmix.MixupTrainer(
            model=make_model(2),
            args=calmix.MixupArguments(
                output_dir=str(tmp_path_factory.mktemp("trainer")), method=method, num_train_epochs=2, seed=0,
                per_device_train_batch_size=8, learning_rate=1e-3, use_cpu=True, disable_tqdm=True,
                logging_strategy="no", save_strategy="no", dataloader_pin_memory=False,
            ),
            train_dataset=Dataset.from_dict({**encoded, label: data.labels.tolist()}),
            data_collator=DataCollatorWithPadding(tokenizer),
            processing_class=tokenizer,
            **known,
        )  # fmt: skip

    return make


@pytest.fixture(scope="module")
def plain(make_trainer):
    trainer = make_trainer("plain", label="label")
    trainer.train()
    return trainer


@pytest.mark.parametrize("rule", [LabelFilter(), LabelFilter(0.6, passes=2, unscored="keep")])
def test_the_rows_that_are_kept_are_those_of_a_run(plain, make_model, data, encoders, tmp_path, rule):
    positions = np.arange(0, 60, 2)
    config = TrainConfig(
        train="train.csv", output="run", model=str(encoders("bert", dropout=0.0)), epochs=2, batch_size=8,
        learning_rate=1e-3, max_length=32, device="cpu", threads=1,
    )  # fmt: skip
    search = find_label_noise(
        config, data.select(positions), tmp_path, runs=rule.passes, percentile=rule.percentile
    )
    kept = search.verdict.kept | (search.verdict.unscored if rule.unscored == "keep" else False)
    assert 0 < kept.sum() < len(positions)
    known = calmix.filtered_data_map(plain, make_model)
    np.testing.assert_array_equal(known.clean(positions, rule), positions[kept])


def test_a_guided_trainer_filters_its_easy_rows_with_it(plain, make_trainer, make_model, monkeypatch):
    passes = []

    def counted(*arguments):
        passes.append(margins_of_pass(*arguments))
        return passes[-1]

    monkeypatch.setattr("calmix.training.label_noise.trainer_map.margins_of_pass", counted)
    known = calmix.filtered_data_map(plain, make_model)
    np.testing.assert_array_equal(known.datamap.aum, calmix.DataMap.from_recorder(plain.recorder).aum)
    guided = make_trainer("tdmixup", data_map=known)
    assert len(passes) == 1
    easy = np.flatnonzero(known.regions().easy)
    chosen = guided.groups.positions[guided.groups.names.index("easy")]
    assert set(chosen) < set(easy)
    guided.train()
    assert guided.state.global_step == 2 * guided.steps_per_epoch


def test_what_is_no_trained_plain_trainer_is_refused(make_trainer, make_model):
    with pytest.raises(UserError, match="recorded no dynamics"):
        calmix.filtered_data_map(make_trainer("plain"), make_model)
    with pytest.raises(UserError, match="not of cls-mixup"):
        calmix.filtered_data_map(make_trainer("cls-mixup"), make_model)


def test_without_a_filter_the_error_names_the_call(plain, make_trainer):
    with pytest.raises(UserError, match="filtered_data_map"):
        make_trainer("tdmixup", data_map=calmix.DataMap.from_recorder(plain.recorder))
