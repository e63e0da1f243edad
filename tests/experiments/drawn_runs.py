"""A comparison made of drawn predictions: what is true of it is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.experiments.cell import Cell
from calmix.experiments.comparison_plan import Plan
from calmix.experiments.grid import Arm
from calmix.io.run_directory import write_json
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.run_store import RunStore

SIZES = {"validation": 1500, "test": 1500, "other": 1500}
Draw = Callable[[np.ndarray, np.random.Generator, str], np.ndarray]


def true_logits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """What a perfect network would say about the rows of a split, and labels drawn from it."""
    generator = np.random.default_rng(sorted(SIZES).index(split))
    logits = generator.normal(scale=1.5, size=(SIZES[split], 2))
    return logits, (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


def noisy(scale: float, spread: float = 0.02, **by_split: float) -> Draw:
    """Logits with noise: the more, the worse in NLL even with the best temperature."""

    def draw(logits, generator, split):
        # Runs of one arm differ a little in how good they are, as runs do.
        own = by_split.get(split, scale) * generator.normal(1.0, spread)
        return 1.4 * logits + own * generator.normal(size=logits.shape)

    return draw


def wild(logits, generator, split):
    """Right as often as can be, but far overconfident on some rows, right or wrong."""
    drawn = 1.2 * logits + 0.5 * generator.normal(size=logits.shape)
    drawn[generator.permutation(len(drawn))[: len(drawn) // 8]] *= 10
    return drawn


def timid(logits, generator, split):
    """Turns many rows round, but only those it is unsure of: less accurate, and better in NLL than `wild`."""
    drawn = 1.2 * logits + 0.5 * generator.normal(size=logits.shape)
    close = np.abs(drawn[:, 0] - drawn[:, 1]).argsort()[: len(drawn) // 3]
    turned = generator.permutation(close)[: len(drawn) // 6]
    drawn[turned] = drawn[turned][:, ::-1]
    return drawn


def write_run(store: RunStore, cell: Cell, draw: Draw) -> None:
    """A finished run whose predictions are drawn."""
    run = store.run(cell.fingerprint)
    predictions = {}
    for split in SIZES:
        logits, labels = true_logits(split)
        generator = np.random.default_rng([cell.seed, len(cell.arm.name), sorted(SIZES).index(split)])
        ids = [f"{split}-{row}" for row in range(1, len(labels) + 1)]
        predictions[split] = Predictions.from_logits(draw(logits, generator, split), labels, ids=ids)
    validation = predictions["validation"]
    temperature = TemperatureScaling().fit(validation.values, validation.labels).temperature_
    for split, one in predictions.items():
        write_predictions(run.predictions_file(split), one)
    (run.model).mkdir(parents=True)
    write_json(
        run.metrics_file,
        {
            "temperature": temperature, "seconds": 1.0, "device": "cpu", "ece_bins": 15, "ece_edges": "right",
            "sizes": {"train": 100, **SIZES}, "label_names": ["no", "yes"],
            "splits": {
                split: {
                    "uncalibrated": evaluate(one, intervals=False),
                    "calibrated": evaluate(one.with_temperature(temperature), intervals=False),
                }
                for split, one in predictions.items()
            },
        },
    )  # fmt: skip


def write_comparison(directory: Path, draws: dict[str, Draw], seeds=(0, 1, 2, 3, 4)) -> Path:
    """A comparison of arms with drawn predictions, as `calmix compare` leaves it before it gathers."""
    store = RunStore(directory / "runs")
    arms = {name: Arm(name, name) for name in draws}
    cells = [Cell(arms[name], seed, f"{name}-{seed}") for seed in seeds for name in draws]
    for cell in cells:
        write_run(store, cell, draws[cell.arm.name])
    base = TrainConfig(train="train.csv", output=str(directory), threads=1).as_dict()
    Plan(base, list(arms.values()), cells).write(directory)
    return directory
