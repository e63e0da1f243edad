"""What a 0 should count as in a file of rounded probabilities: rules compared where the logits are known.

    python benchmarks/rounded_probabilities.py

Normal logits of scale 3 and 8, labels drawn from their softmax, a model that is T times too sharp (0.7,
1, 2), 2, 3, 10 and 100 classes, 2,000 rows. Its probabilities are rounded to d digits (u = 10^-d), every
rule says what the zeros of a row are, and NLL, mean confidence and fitted temperature are compared with
those before rounding. Rules, with k zeros in a row:

    machine_epsilon   2.2e-16 each
    half_unit         u/2 each
    tenth_unit        u/10 each
    shared_half       u/2 together
    calmix            what the row lacks to 1, at least u/10 together, at most u/2 each (`restore_rounded`)

Writes benchmarks/results/rounded_probabilities.json.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from calmix.calibration.files.rounded_probabilities import SHARE_OF_UNIT

ROWS, SEEDS = 2_000, 3
CLASSES, DIGITS, SCALES, SHARPNESS = (2, 3, 10, 100), (2, 3, 4, 6), (3, 8), (0.7, 1.0, 2.0)
RESULTS = Path(__file__).parent / "results" / "rounded_probabilities.json"


def rules(rounded: np.ndarray, unit: float) -> dict[str, np.ndarray]:
    """The rounded probabilities with their zeros filled by every rule, divided by their sums."""
    is_zero = rounded == 0
    zeros = np.maximum(is_zero.sum(axis=1, keepdims=True), 1)
    lacking = 1 - rounded.sum(axis=1, keepdims=True)
    each = {
        "machine_epsilon": np.full(zeros.shape, np.finfo(np.float64).eps),
        "half_unit": np.full(zeros.shape, unit / 2),
        "tenth_unit": np.full(zeros.shape, unit / 10),
        "shared_half": unit / 2 / zeros,
        # As in `restore_rounded`, which leaves rows further from 1 than 0.02 alone.
        "calmix": np.clip(lacking, SHARE_OF_UNIT * unit, zeros * unit / 2) / zeros,
    }
    filled = {name: np.where(is_zero, share, rounded) for name, share in each.items()}
    return {name: values / values.sum(axis=1, keepdims=True) for name, values in filled.items()}


def fitted_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        return float(-log_softmax(logits / np.exp(log_temperature), axis=1)[rows, labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 5), method="bounded").x))


def one_draw(classes: int, digits: int, scale: float, sharpness: float, seed: int) -> dict[str, list[float]]:
    """(NLL, log T, mean confidence) of every rule minus those before rounding."""
    generator = np.random.default_rng([classes, digits, int(scale), int(10 * sharpness), seed])
    honest = generator.standard_normal((ROWS, classes)) * scale
    labels = (softmax(honest, axis=1).cumsum(axis=1) > generator.random((ROWS, 1))).argmax(axis=1)
    exact = log_softmax(honest * sharpness, axis=1)
    rows = np.arange(ROWS)
    temperature = fitted_temperature(exact, labels)
    found = {}
    for name, probabilities in rules(np.round(np.exp(exact), digits), 10.0**-digits).items():
        logits = np.log(probabilities)
        found[name] = [
            float(exact[rows, labels].mean() - logits[rows, labels].mean()),
            float(np.log(fitted_temperature(logits, labels) / temperature)),
            float(probabilities.max(axis=1).mean() - np.exp(exact).max(axis=1).mean()),
        ]
    return found


def main() -> None:
    started = time.perf_counter()
    cells: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for classes, digits, scale, sharpness in product(CLASSES, DIGITS, SCALES, SHARPNESS):
        draws = [one_draw(classes, digits, scale, sharpness, seed) for seed in range(SEEDS)]
        for name in draws[0]:
            mean = np.mean([draw[name] for draw in draws], axis=0).tolist()
            cells[name][f"{classes} classes, {digits} digits"].append(mean)
            cells[name]["all"].append(mean)
    table: dict[str, Any] = {
        name: {
            cell: dict(
                zip(("nll", "log_temperature", "confidence"), np.sqrt(np.square(values).mean(0)), strict=True)
            )
            for cell, values in by_cell.items()
        }
        for name, by_cell in cells.items()
    }
    for name, by_cell in table.items():
        print(name, {metric: round(float(value), 4) for metric, value in by_cell["all"].items()})
    facts = {"rows": ROWS, "seeds": SEEDS, "seconds": round(time.perf_counter() - started, 1)}
    content = {"command": "python benchmarks/rounded_probabilities.py", **facts, "root_mean_square": table}
    RESULTS.write_text(json.dumps(content, indent=2, default=float) + "\n")


if __name__ == "__main__":
    main()
