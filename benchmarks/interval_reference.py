"""Simulated models whose true errors are known: what `interval_coverage` draws samples from.

A population draws the probabilities that a model gives and those that labels really have. The truth of a
metric is its value on a large draw, with expectations over the labels in place of labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calmix.calibration.metrics.binning import assign_bins
from calmix.calibration.metrics.risk_coverage import best_aurc
from calmix.calibration.metrics.smooth import smooth_error_of_points
from calmix.calibration.predictions import Predictions

BINS = 15
# Numbers in the draw that stands for the whole population.
POPULATION_VALUES = 4_000_000
GRID = 4001

Floats = np.ndarray[Any, np.dtype[np.float64]]
# Given probabilities and true ones, both [rows, classes].
Draw = Callable[[int, np.random.Generator], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Population:
    """A model by name: `draw` gives its probabilities and the true ones of so many rows."""

    name: str
    draw: Draw
    classes: int = 2

    def sample(self, rows: int, generator: np.random.Generator) -> Predictions:
        given, true = self.draw(rows, generator)
        return Predictions.from_probabilities(given, draw_labels(true, generator))

    @cached_property
    def truth(self) -> Truth:
        return Truth(*self.draw(POPULATION_VALUES // self.classes, np.random.default_rng(3)))


def draw_labels(true: Floats, generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    below = true.cumsum(axis=1) < generator.random((len(true), 1))
    return np.minimum(below.sum(axis=1), true.shape[1] - 1)


def matthews(true: Floats, best: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """(accuracy - sum_k p_k t_k) / sqrt((1 - sum p_k^2)(1 - sum t_k^2)): p_k predicted, t_k true shares."""
    rows, classes = true.shape
    said = np.bincount(best, minlength=classes) / rows
    shares = true.mean(axis=0)
    spread = (1.0 - said @ said) * (1.0 - shares @ shares)
    hits = true[np.arange(rows), best].mean()
    return float((hits - said @ shares) / np.sqrt(spread)) if spread > 0 else 0.0


class Truth:
    """What the metrics of an infinitely large sample would be."""

    def __init__(self, given: Floats, true: Floats) -> None:
        rows, best = np.arange(len(given)), given.argmax(axis=1)
        classes = given.shape[1]
        order = np.argsort(-given[rows, best], kind="stable")
        confidence, accuracy = given[rows, best][order], true[rows, best][order]
        n = len(confidence)
        gap = accuracy - confidence
        risk = float((1.0 - accuracy).mean())
        errors = np.cumsum(1.0 - accuracy)
        logs = np.log(np.maximum(given, np.finfo(np.float64).eps))
        placed = assign_bins(confidence, BINS)
        share = np.bincount(placed, minlength=BINS) / n
        by_bin = np.bincount(placed, weights=gap, minlength=BINS) / n
        mean = np.bincount(placed, weights=confidence, minlength=BINS) / n / np.maximum(share, 1e-300)
        held = share > 0
        mass = np.array([part.sum() for part in np.array_split(gap, BINS)]) / n
        cell = assign_bins(given.ravel(), BINS) + np.tile(BINS * np.arange(classes), n)
        class_share = np.bincount(cell, minlength=BINS * classes) / n
        by_class = np.bincount(cell, weights=(true - given).ravel(), minlength=BINS * classes) / n
        square = (given**2).sum(axis=1) - 2.0 * (given * true).sum(axis=1) + 1.0
        aurc = float((errors / np.arange(1, n + 1)).mean())
        top = np.argsort(-given, axis=1, kind="stable")[:, :5]
        self.values = {
            "accuracy": 1.0 - risk,
            "mcc": matthews(true, best),
            "top5_accuracy": float(np.take_along_axis(true, top, axis=1).sum() / n),
            "confidence_gap": float(-gap.mean()),
            "nll": float(-(true * logs).sum() / n),
            "brier": float(square.mean()),
            "ece": float(np.abs(by_bin).sum()),
            "rmsce": float(np.sqrt((by_bin[held] ** 2 / share[held]).sum())),
            "mce": float(np.abs(by_bin[held] / share[held]).max()),
            "oe": float((mean[held] * np.maximum(-by_bin[held], 0)).sum()),
            "adaptive_ece": float(np.abs(mass).sum()),
            "debiased_rmsce": float(np.sqrt((mass**2 * BINS).sum())),
            "ks": float(np.abs(np.cumsum(gap[::-1])).max() / n),  # from the least confident up
            "aurc": aurc,
            "e_aurc": aurc - best_aurc(n, round(risk * n)),
            "augrc": float(errors.mean() / n),
            "classwise_ece": float(np.abs(by_class).sum() / classes),
            "brier_calibration": float((by_class**2 / np.maximum(class_share, 1e-12)).sum()),
        }
        self.values["brier_refinement"] = self.values["brier"] - self.values["brier_calibration"]
        place = np.minimum((confidence * (GRID - 1)).astype(int), GRID - 1)
        self._residual = np.bincount(place, weights=-gap, minlength=GRID)
        self._mass = np.bincount(place, minlength=GRID).astype(float)
        self._points = (np.arange(GRID) + 0.5).clip(max=GRID - 1) / (GRID - 1)

    def smooth(self, bandwidth: float) -> float:
        return smooth_error_of_points(self._points, self._residual, self._mass, bandwidth=bandwidth).error


def two_classes(
    confidence: Floats, accuracy: Floats, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Either class is predicted equally often, with this confidence; the prediction has this accuracy."""
    first = generator.random(len(confidence)) < 0.5
    both = []
    for share in (confidence, accuracy):
        one = np.where(first, share, 1.0 - share)
        both.append(np.stack([one, 1.0 - one], axis=1))
    return both[0], both[1]


def rare_errors(shape: str, accuracy: float) -> Population:
    """Errors in one row of a hundred, or of a thousand.

    constant      every confidence is 0.999
    calibrated    confidences 1 - e with e from a gamma distribution, all of them true
    overconfident a fifth of the errors are where the confidences say, the others anywhere
    """
    error = 1.0 - accuracy

    def draw(rows: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        if shape == "constant":
            return two_classes(np.full(rows, 0.999), np.full(rows, accuracy), generator)
        expected = error * generator.gamma(0.5, 2.0, rows)
        if shape == "overconfident":
            believed = np.clip(expected / 5.0, 1e-12, 0.499)
            return two_classes(1.0 - believed, 1.0 - np.minimum(believed + 0.8 * error, 1.0), generator)
        believed = np.clip(expected, 1e-12, 0.499)
        return two_classes(1.0 - believed, 1.0 - believed, generator)

    return Population(f"{shape}, accuracy {accuracy}", draw)


def many_classes(classes: int, temperature: float) -> Population:
    """Logits with one that stands out; labels follow the logits divided by `temperature`: above 1, the model
    is overconfident."""

    def draw(rows: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        logits = generator.standard_normal((rows, classes))
        chosen = generator.integers(0, classes, rows)
        logits[np.arange(rows), chosen] += generator.normal(7.0, 2.0, rows)
        return softmax(logits), softmax(logits / temperature)

    name = "calibrated" if temperature == 1.0 else f"overconfident (temperature {temperature})"
    return Population(f"{classes} classes, {name}", draw, classes)


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def binary_model(shape: str, error: float) -> Population:
    """Confidence c in [0.5, 1] and accuracy c - gap(c), with a true ECE of `error`.

    everywhere    overconfident by the same amount at every confidence
    one_bin       all of it in one bin
    alternating   over- and underconfident in turn, bin by bin
    saturated     overconfident everywhere, and most confidences close to 1 (a typical fine-tuned network)
    """

    def draw(rows: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        confidence = 1.0 - 0.5 * generator.beta(0.25 if shape == "saturated" else 1.0, 2.5, rows)
        placed = assign_bins(confidence, BINS)
        if shape == "one_bin":
            # Bin 11 of 15, (11/15, 12/15], holds this share of the rows: 1 - c = x / 2, x from Beta(1, 2.5).
            share = (1 - 6 / 15) ** 2.5 - (1 - 8 / 15) ** 2.5
            gap = np.where(placed == 11, error / share, 0.0)
        elif shape == "alternating":
            gap = np.where(placed % 2 == 0, error, -error)
        else:
            gap = np.full(rows, error)
        return two_classes(confidence, np.clip(confidence - gap, 0.0, 1.0), generator)

    return Population(f"{shape}, error {error}", draw)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two models on the same rows: `draw` gives the probabilities of either, and the true ones."""

    name: str
    draw: Callable[[int, np.random.Generator], tuple[Floats, Floats, Floats]]

    def sample(self, rows: int, generator: np.random.Generator) -> tuple[Predictions, Predictions]:
        first, second, true = self.draw(rows, generator)
        labels = draw_labels(true, generator)
        return Predictions.from_probabilities(first, labels), Predictions.from_probabilities(second, labels)

    @cached_property
    def truth(self) -> dict[str, float]:
        first, second, true = self.draw(POPULATION_VALUES // 2, np.random.default_rng(4))
        values, others = Truth(first, true).values, Truth(second, true).values
        return {name: values[name] - others[name] for name in values}


def disagreeing(base: Population, first: float, second: float, moved: float = 0.0) -> Pair:
    """Two models that give the answers of `base`, the second with its confidences lowered by `moved` and its
    log-odds a little off; the first gives the other answer in a share `first` of the rows, the second in a
    share `second`."""

    def draw(rows: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        given, true = base.draw(rows, generator)
        best = given.max(axis=1)
        odds = np.log(best / (1.0 - best)) * (1.0 + 0.02 * generator.standard_normal(rows))
        lowered = np.maximum(1.0 / (1.0 + np.exp(-np.maximum(odds, 0.0))) - moved, 0.5)[:, None]
        other = np.where(given == best[:, None], lowered, 1.0 - lowered)
        chance = generator.random(rows)[:, None]
        turned_first = np.where(chance < first, given[:, ::-1], given)
        turned_second = np.where(chance > 1.0 - second, other[:, ::-1], other)
        return turned_first, turned_second, true

    return Pair(f"{base.name}; other answers in {first} and {second}, moved by {moved}", draw)


def tempered(classes: int, temperature: float) -> Pair:
    """A model and the same model with its logits divided by `temperature`, which makes it calibrated."""
    base = many_classes(classes, temperature)

    def draw(rows: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        given, true = base.draw(rows, generator)
        return given, true, true

    return Pair(f"{base.name}, and divided by it", draw)


@dataclass(frozen=True, eq=False)
class Detection:
    """Scores of familiar rows and of others."""

    name: str
    draw: Callable[[int, int, np.random.Generator], tuple[Floats, Floats]]


def shifted_scores(distance: float) -> Detection:
    """Two normal distributions with this distance between their means."""
    return Detection(
        f"normal, distance {distance}",
        lambda inside, outside, generator: (
            generator.normal(distance, 1.0, inside),
            generator.normal(0.0, 1.0, outside),
        ),
    )


def mixed_scores(share: float) -> Detection:
    """Separable scores, but that a share of the other rows looks like the familiar ones."""

    def draw(inside: int, outside: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        familiar = generator.random(outside) < share
        return generator.normal(20.0, 1.0, inside), generator.normal(np.where(familiar, 20.0, 0.0), 1.0)

    return Detection(f"separable but for {share}", draw)
