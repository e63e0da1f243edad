"""The picture of the noise floor on the concepts page: python docs/pictures.py

The ECE of perfectly calibrated predictions, by the number of rows: simulated, so that the truth is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from calmix import Predictions

DOCS = Path(__file__).resolve().parent
CLASSES, REPETITIONS, SHARPNESS = 6, 50, 2.0
ROWS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


def calibrated_logits(rows: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels that are drawn from them: perfectly calibrated by construction."""
    logits = SHARPNESS * generator.standard_normal((rows, CLASSES))
    # A label drawn from softmax(z) is the largest of z plus Gumbel noise.
    return logits, np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)


def ece_of(predictions: Predictions) -> float:
    """The ECE of the predicted label in 15 bins of equal width."""
    from calmix import expected_calibration_error

    return float(expected_calibration_error(predictions.confidence(), predictions.correct()))


def noise_floor_picture() -> None:
    import matplotlib.pyplot as plt

    from calmix import Predictions

    generator = np.random.default_rng(0)
    draws = [
        [ece_of(Predictions.from_logits(*calibrated_logits(rows, generator))) for _ in range(REPETITIONS)]
        for rows in ROWS
    ]
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    low, high = 100 * np.quantile(draws, [0.025, 0.975], axis=1)
    axes.fill_between(ROWS, low, high, alpha=0.25, label="95 % of the repetitions")
    axes.plot(ROWS, 100 * np.mean(draws, axis=1), marker="o", label="mean")
    axes.set(xscale="log", xlabel="rows", ylabel="ECE %", ylim=(0, None))
    axes.set_title("ECE of a perfectly calibrated model", fontsize=10)
    axes.legend()
    figure.savefig(DOCS / "noise_floor.png", dpi=150)


if __name__ == "__main__":
    noise_floor_picture()
