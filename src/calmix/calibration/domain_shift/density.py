"""Density-aware calibration: a temperature that rises with the distance to the training rows.

    s(x) = mean squared distance of x to its 50 nearest training rows, features scaled to unit length
    T(x) = t + w (s(x) - s₀),   w >= 0,   t > 0,   s₀ the least distance of the fitting rows

t and w minimise the negative log-likelihood of rows with labels: validation rows and, so that far rows are
among them, their perturbed copies. A checkpoint holds one temperature, not one for every row: that of a
target is the one whose probabilities are closest (mean Kullback-Leibler divergence) to those of T(x) on its
rows. Right where the model errs as much on target rows as on source rows of the same distance.

Reference: Tomani, Waseda, Shen & Cremers, ICML 2023, whose T(x) also sees earlier layers, is fitted on
validation rows alone and is applied row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.calibrators.temperature import TemperatureLoss, best_temperature
from calmix.calibration.input_checks import Floats, Integers

NEIGHBOURS = 50
LOWEST, HIGHEST = 0.01, 100.0


def neighbour_distances(training: Floats, rows: Floats) -> Floats:
    """The mean squared distance of the features of rows to those of their nearest training rows.

    >>> training, rows = np.array([[2.0, 0.0], [3.0, 0.0]]), np.array([[5.0, 0.0], [0.0, 1.0]])
    >>> neighbour_distances(training, rows).round(6).tolist()
    [0.0, 2.0]
    """
    from sklearn.neighbors import NearestNeighbors

    known, asked = _unit_length(training), _unit_length(rows)
    search = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(known)), algorithm="brute").fit(known)
    distances, _ = search.kneighbors(asked)
    return np.asarray((distances**2).mean(axis=1))


def _unit_length(features: Floats) -> Floats:
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-10))


@dataclass(frozen=True)
class DistanceTemperature:
    """T(x) = lowest + slope · (distance - origin), never below `LOWEST`."""

    lowest: float
    slope: float
    origin: float

    @classmethod
    def fit(cls, logits: Floats, labels: Integers, distances: Floats) -> DistanceTemperature:
        """By maximum likelihood, from one temperature for all rows on."""
        origin, reach = float(distances.min()), float(np.ptp(distances)) or 1.0
        near = (distances - origin) / reach
        rows = np.arange(len(labels))
        start = float(
            np.clip(1 / best_temperature(TemperatureLoss(logits, labels, None)).beta, LOWEST, HIGHEST)
        )

        def loss(parameters: Floats) -> tuple[float, Floats]:
            temperatures = parameters[0] + parameters[1] * near
            scaled = log_softmax(logits / temperatures[:, None], axis=1)
            gold = logits[rows, labels]
            slope = (gold - (np.exp(scaled) * logits).sum(axis=1)) / temperatures**2
            return -float(scaled[rows, labels].mean()), np.array([slope.mean(), (slope * near).mean()])

        bounds = ((LOWEST, HIGHEST), (0.0, HIGHEST))
        found = minimize(loss, np.array([start, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
        return cls(float(found.x[0]), float(found.x[1]) / reach, origin)

    def at(self, distances: Floats) -> Floats:
        return np.asarray(np.maximum(self.lowest + self.slope * (distances - self.origin), LOWEST))


def density_temperature(
    fitted: DistanceTemperature, target_logits: Floats, target_distances: Floats
) -> ShrunkScaling:
    """The one temperature that is closest to those of all target rows."""
    wanted = softmax(target_logits / fitted.at(target_distances)[:, None], axis=1)

    def divergence(log_temperature: float) -> float:
        scaled = log_softmax(target_logits / np.exp(log_temperature), axis=1)
        return -float((wanted * scaled).sum(axis=1).mean())

    bounds = np.log([LOWEST, HIGHEST])
    found = minimize_scalar(divergence, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return ShrunkScaling.of(float(np.exp(found.x)), np.zeros(target_logits.shape[1]))
