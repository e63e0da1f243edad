"""TransCal: a temperature at which target confidence meets an estimate of target accuracy.

A domain classifier on the features says how much more common a source row would be in the target: weights
w. The error of the target is the weighted error e of the source validation rows, with two control
variates:

    risk = mean(w^λ e) + η1 (mean(w^λ) - 1) + η2 (mean(r) - confidence)
    η1 = -cov(w^λ e, w^λ) / var(w^λ),   η2 = -cov(w^λ e + η1 (w^λ - 1), r) / var(r),   r = 1 - e

and T minimises |mean target confidence at T - (1 - risk)|, together with λ in [0, 1], which tempers the
weights. As in the authors' code, T is at least 1, and the search starts at T = 2, λ = 0.5: the objective
alone does not tell λ from T. The weights of validation rows are cross-fitted here, where the authors'
classifier is fitted on the training rows. Right where only the distribution of inputs differs (covariate
shift), and the domains overlap.

Reference: Wang, Long, Wang & Jordan, NeurIPS 2020.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.input_checks import Floats, Integers

FOLDS = 5
MOST_WEIGHT = 1e3


def domain_weights(source: Floats, target: Floats) -> Floats:
    """Target over source density of every source row, by logistic regression on features, cross-fitted."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = np.concatenate([source, target])
    domain = np.repeat([0, 1], [len(source), len(target)])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    # Balanced: the numbers of rows say nothing about the densities.
    classifier = make_pipeline(
        StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=500)
    )
    chances = cross_val_predict(classifier, features, domain, cv=folds, method="predict_proba")
    mine = chances[: len(source)]
    return np.asarray(np.minimum(mine[:, 1] / np.maximum(mine[:, 0], 1e-12), MOST_WEIGHT))


def target_risk(weights: Floats, errors: Floats, confidence: float, power: float) -> float:
    """The estimated error rate of the target, with both control variates.

    Weights of 1 say that the domains are one: the error rate is that of the source.

    >>> errors = np.array([1.0, 0.0, 0.0, 0.0])
    >>> target_risk(np.ones(4), errors, 0.75, 0.5)
    0.25
    """
    tempered = weights**power
    weighted = tempered * errors
    first = _slope(weighted, tempered)
    correctness = 1 - errors
    second = _slope(weighted + first * (tempered - 1), correctness)
    risk = weighted.mean() + first * (tempered.mean() - 1) + second * (correctness.mean() - confidence)
    return float(risk)


def _slope(values: Floats, variate: Floats) -> float:
    variance = float(np.var(variate, ddof=1))
    return -float(np.cov(values, variate)[0, 1]) / variance if variance > 0 else 0.0


def transferable(
    source_logits: Floats, source_labels: Integers, target_logits: Floats, weights: Floats
) -> ShrunkScaling:
    """The temperature for the target; source logits are calibrated on the source."""
    errors = (source_logits.argmax(axis=1) != source_labels).astype(np.float64)
    confidence = float(softmax(source_logits, axis=1).max(axis=1).mean())

    def gap(parameters: Floats) -> float:
        sure = softmax(target_logits / parameters[0], axis=1).max(axis=1).mean()
        return float(abs(sure - (1 - target_risk(weights, errors, confidence, parameters[1]))))

    found = minimize(gap, np.array([2.0, 0.5]), method="SLSQP", bounds=((1.0, 1e3), (0.0, 1.0)))
    return ShrunkScaling.of(float(found.x[0]), np.zeros(target_logits.shape[1]))
