"""The predictions of every epoch on the test sets: how confidence and accuracy develop while training.

    RUN/epochs/<epoch>/<split>.parquet    as `predictions/<split>.parquet`: row id, label, uncalibrated logits

They are a record: no epoch is chosen by them. A resumed run makes again what it trains again, to the same
bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from calmix.calibration.files.prediction_files import write_predictions
from calmix.data.rows import Rows
from calmix.inference.prediction import predict_logits, row_predictions
from calmix.io.run_directory import RunDirectory
from calmix.models.inputs import Encoded

if TYPE_CHECKING:
    from calmix.training.trainer import MixupTrainer

DIRECTORY = "epochs"


class EpochPredictions(TrainerCallback):
    """Predicts on the test sets whenever the validation rows were measured."""

    def __init__(
        self,
        trainer: MixupTrainer,
        run: RunDirectory,
        encoded: Mapping[str, Encoded],
        tests: Mapping[str, Rows],
    ) -> None:
        self.trainer, self.run, self.encoded, self.tests = trainer, run, encoded, tests

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # A loader draws a seed when it starts: training goes on with the random numbers it had.
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with torch.random.fork_rng(devices):
            for name, rows in self.tests.items():
                logits = predict_logits(self.trainer, self.encoded[name]) - self.trainer.prior_shift
                if state.is_world_process_zero:
                    place = self.run.path / DIRECTORY / f"{state.epoch:g}"
                    place.mkdir(parents=True, exist_ok=True)
                    write_predictions(place / f"{name}.parquet", row_predictions(logits, rows))
