"""The logits of a finished run: those of the validation rows were measured after the chosen epoch already."""

import numpy as np
import pytest

from calmix.calibration.files.prediction_files import read_predictions
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.inference.prediction import predict_with_checkpoint
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline import final_logits
from calmix.training.pipeline.stages import train_staged
from calmix.training.trainer import MixupTrainer
from tiny import read_json


@pytest.fixture
def train(reviews, encoders, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))

    def run(name="run", **options):
        config = TrainConfig(
            train=str(reviews / "train.csv"),
            validation=str(reviews / "validation.csv"),
            test=(str(reviews / "test.csv"),),
            model=str(encoders("bert", layers=2)),
            output=str(tmp_path / name),
            **{"epochs": 3, "learning_rate": 5e-3, "device": "cpu", **options},
        )
        return train_staged(config)

    return run


@pytest.fixture
def predicted(monkeypatch):
    """The number of rows of every split that is predicted at the end."""
    sizes = []

    def counted(trainer, rows):
        sizes.append(len(rows))
        return original(trainer, rows)

    original = final_logits.predict_logits
    monkeypatch.setattr(final_logits, "predict_logits", counted)
    return sizes


def by_the_checkpoint(run, reviews, split):
    """Logits of the saved checkpoint, its temperature taken out again."""
    names = tuple(read_json(run.metrics_file)["label_names"])
    rows = read_rows(str(reviews / f"{split}.csv"), split, ColumnNames(), names)
    return predict_with_checkpoint(run.model, rows, device="cpu"), rows.row_ids


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"select_by": "last"},
        {"method": "input-mixup"},
        {"class_weights": "balanced"},
        {"keep_epoch_predictions": True},
        {"freeze_layers": 1},
    ],
    ids=lambda given: next(iter(given.values()), "plain") if given else "plain",
)
def test_validation_rows_are_not_predicted_again(train, predicted, reviews, options):
    run = train(**options)
    validation = read_predictions(run.predictions_file("validation"))
    test = read_predictions(run.predictions_file("test"))
    assert predicted == [len(test)]
    temperature = read_json(run.metrics_file)["temperature"]
    for split, known in (("validation", validation), ("test", test)):
        logits, ids = by_the_checkpoint(run, reviews, split)
        assert list(ids) == list(known.ids)
        spread = np.ptp(known.values, axis=0).max()
        assert np.abs(logits * temperature - known.values).max() < 1e-5 * max(spread, 1.0)


def test_other_weights_than_those_of_the_chosen_epoch_are_predicted(train, predicted, monkeypatch):
    """As when the best checkpoint was removed under the Trainer, which then keeps the last weights."""

    def keep_other_weights(self):
        for parameter in self.model.parameters():
            parameter.data.mul_(1.01)

    monkeypatch.setattr(MixupTrainer, "_load_best_model", keep_other_weights)
    monkeypatch.setattr("calmix.training.pipeline.finalise.NLL_TOLERANCE", 1.0)
    run = train()
    sizes = [len(read_predictions(run.predictions_file(split))) for split in ("validation", "test")]
    assert predicted == sizes


def test_half_precision_of_the_cache_is_not_in_the_predictions(train, predicted):
    run = train(freeze_layers=1, freeze_cache="float16")
    assert len(predicted) == 2

    assert run.metrics_file.is_file()
