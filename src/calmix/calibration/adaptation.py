"""Recalibration for another domain from a few labelled rows of it: how strongly to shrink, and the gain.

The fit is `ShrunkScaling`: a temperature and class biases, drawn towards the calibration that the model has.
How strongly is chosen by cross-validation on the rows, among `PENALTIES` and "no change". What that gains is
measured by an outer cross-validation around the choice, so that no row judges a fit or a choice that it was
part of:

    gain = mean over rows of  NLL(adapted without the row's fold) - NLL(as it is)      (negative: better)

with an interval over rows. The fits of different folds share most of their rows, which makes the plain
standard error too small; it is widened as Nadeau & Bengio (Machine Learning, 2003) do, by
sqrt(1 + K / (K - 1)). Where the mean is no gain, the rows are too few to beat the source fit, and it is kept.
A stricter rule, such as an interval below 0, would keep it where adapting helps: with 25 rows and a true
temperature of 2, it forgoes nearly all of what the mean rule gains (tests/calibration/test_adaptation.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from calmix.calibration.calibrators.calibrator import logits_of
from calmix.calibration.calibrators.folds import FOLDS, fold_of_row
from calmix.calibration.calibrators.shrunk import ShrunkScaling, shrunk_optima
from calmix.calibration.input_checks import Floats, Integers, check_weights
from calmix.calibration.predictions import Predictions

# In effective rows, (sum w)^2 / sum w^2: priors of variance 1 / penalty, whatever the number of rows.
# 0.3 lets a bias go as far as the rows say, 300 holds it within some 0.06.
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FEWEST_ROWS = 10
REPEATS = 4
# Of mean confidence above accuracy: with this much, wrong labels are as likely as a model that fails.
SUSPICIOUS_GAP = 0.4


@dataclass(frozen=True)
class Gain:
    """The change of the NLL of new rows by cross-validation; negative is better."""

    nll: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Adaptation:
    """The calibrator to use and how it was found."""

    calibrator: ShrunkScaling
    penalty: float
    """What cross-validation chose; infinite: no change."""
    gain: Gain
    kept_source: bool
    notes: tuple[str, ...]
    """Reasons to doubt the rows."""
    held_out: Predictions
    """Every row by a fit that it was not part of; as they were where the source fit is kept."""

    def facts(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "penalty": None if math.isinf(self.penalty) else self.penalty,
            "kept_source": self.kept_source,
            "nll_gain": self.gain.nll,
            "nll_gain_ci": [self.gain.low, self.gain.high],
            "nll_gain_standard_error": self.gain.standard_error,
            "bias": self.calibrator.bias_.tolist(),
        }

    def sentence(self) -> str:
        """What was gained, in words."""
        gain = self.gain
        told = f"cross-validated NLL {gain.nll:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
        if self.kept_source:
            return f"{told}: too few rows to beat the source calibration, which is kept"
        if gain.high < 0:
            return f"{told}: better than the source calibration"
        return f"{told}: better on average, not statistically significant; more labels would tell"


def adapt_predictions(
    predictions: Predictions,
    *,
    weights: npt.ArrayLike | None = None,
    biases: bool = True,
    seed: int = 0,
) -> Adaptation:
    """Recalibrate for the domain of these labelled rows; `predictions` are calibrated for the source.

    `weights` are those of a sample that was not drawn evenly: 1 / probability of being drawn. They multiply
    the weights that the rows have of their own; soft labels count by their shares.
    `biases=False` fits a temperature alone.
    """
    count = len(predictions)
    if count < FEWEST_ROWS:
        raise ValueError(f"{count} rows are too few to judge a fit; label at least {FEWEST_ROWS}, better 50")
    weighted = with_design(predictions, weights)
    notes = doubts(predictions)
    biases = biases and int((predictions.soft_targets().sum(axis=0) > 0).sum()) > 1
    rows = LabelledLogits.of(weighted, biases=biases)
    penalty = best_penalty(rows, seed=seed)
    gain, parameters = nested_gain(rows, seed=seed)
    kept = math.isinf(penalty) or gain.nll >= 0
    shares = rows.weights / rows.weights.sum()
    calibrator = ShrunkScaling(None if kept else penalty * float(shares @ shares), biases)
    calibrator.fit(weighted)
    if calibrator.at_bound_:
        notes.append("the labels contradict the logits: check the labels before you use the result")
    held_out = predictions
    if not kept:
        scores = parameters[:, :1] * rows.logits + parameters[:, 1:]
        held_out = replace(predictions, values=scores, kind="logits")
    return Adaptation(calibrator, penalty, gain, kept, tuple(notes), held_out)


def with_design(predictions: Predictions, weights: npt.ArrayLike | None) -> Predictions:
    """The rows with the weights of their design, times those that they have of their own.

    >>> rows = Predictions.from_logits([[0.0, 1.0]] * 2, [0, 1]).with_rows(weights=[1.0, 2.0])
    >>> with_design(rows, [10.0, 10.0]).weights.tolist()
    [10.0, 20.0]
    """
    design = check_weights(weights, rows=len(predictions))
    if design is None:
        return predictions
    own = 1.0 if predictions.weights is None else predictions.weights
    return predictions.with_rows(weights=design * own, targets=predictions.targets)


def doubts(predictions: Predictions) -> list[str]:
    """What is wrong with rows, or may be: one class only, missing classes, labels that contradict."""
    found = []
    names, counts = predictions.class_names, predictions.soft_targets().sum(axis=0)
    missing = [names[place] for place in np.flatnonzero(counts == 0)]
    if len(missing) == predictions.classes - 1:
        only = names[int(counts.argmax())]
        found.append(f"all rows have the class {only!r}: no class bias is fitted, only a temperature")
    elif missing:
        listed = ", ".join(map(repr, missing[:5])) + (" ..." if len(missing) > 5 else "")
        found.append(
            f"no row has the class {listed}: its bias rests on the penalty; label some, if there are any"
        )
    accuracy, confidence = float(predictions.correct().mean()), float(predictions.confidence().mean())
    if confidence - accuracy > SUSPICIOUS_GAP:
        found.append(
            f"{100 * accuracy:.0f} % of the labels agree with the predictions, whose mean confidence is "
            f"{100 * confidence:.0f} %: the model fails on these rows, or the labels are wrong; check some"
        )
    return found


@dataclass(frozen=True)
class LabelledLogits:
    """Rows as plain arrays."""

    logits: Floats
    labels: Integers
    weights: Floats
    biases: bool
    targets: Floats | None = None
    """Soft labels [rows, C]; None: hard ones."""

    @classmethod
    def of(cls, predictions: Predictions, *, biases: bool) -> LabelledLogits:
        logits = np.asarray(logits_of(predictions), dtype=np.float64)
        weights = np.ones(len(predictions)) if predictions.weights is None else predictions.weights
        return cls(logits, predictions.labels, weights, biases, predictions.targets)

    def select(self, places: Integers) -> LabelledLogits:
        soft = None if self.targets is None else self.targets[places]
        return LabelledLogits(
            self.logits[places], self.labels[places], self.weights[places], self.biases, soft
        )

    def losses(self, parameters: Floats | None = None) -> Floats:
        """The NLL of every row: of the logits, or of β z + b for every set of parameters [..., 1 + C]."""
        scores = self.logits
        if parameters is not None:
            scores = parameters[..., :1, None] * scores + parameters[..., None, 1:]
        largest = scores.max(axis=-1)
        normaliser = np.log(np.exp(scores - largest[..., None]).sum(axis=-1)) + largest
        if self.targets is not None:
            return np.asarray(normaliser - (self.targets * scores).sum(axis=-1))
        return np.asarray(normaliser - scores[..., np.arange(len(self.labels)), self.labels])

    def fits(self, penalties: Sequence[float], weights: Floats) -> Floats:
        """The parameters [penalties, weightings, 1 + C] for several weightings [weightings, rows]."""
        shares = weights / weights.sum(axis=1, keepdims=True)
        per_row = np.asarray(penalties)[:, None] * (shares**2).sum(axis=1)
        found = shrunk_optima(
            self.logits,
            self.labels if self.targets is None else self.targets,
            np.tile(shares, (len(penalties), 1)),
            per_row.ravel(),
            biases=self.biases,
        )
        return found.parameters.reshape(len(penalties), len(shares), -1)

    def fit(self, penalty: float) -> Floats:
        if math.isinf(penalty):
            return np.repeat([1.0, 0.0], [1, self.logits.shape[1]])
        return np.asarray(self.fits([penalty], self.weights[None])[0, 0])


def best_penalty(rows: LabelledLogits, *, seed: int = 0, repeats: int = REPEATS) -> float:
    """The penalty with the lowest cross-validated NLL; infinite where none is below that of no change."""
    losses = np.zeros(len(PENALTIES) + 1)
    share = rows.weights / rows.weights.sum()
    for repeat in range(repeats):
        losses[:-1] += cross_validated_losses(rows, seed=_seed(seed, repeat)) @ share
        losses[-1] += rows.losses() @ share
    # Of equals the stronger penalty.
    best = len(losses) - 1 - int(np.argmin(losses[::-1]))
    return (*PENALTIES, math.inf)[best]


def cross_validated_losses(rows: LabelledLogits, *, seed: int) -> Floats:
    """[penalties, rows]: the NLL of every row under the fit on the other folds."""
    fold = fold_of_row(rows.labels, FOLDS, seed=seed)
    left_out = fold == np.arange(FOLDS)[:, None]
    parameters = rows.fits(PENALTIES, np.where(left_out, 0.0, rows.weights))
    losses = rows.losses(parameters)  # [penalties, folds, rows]
    return np.asarray(losses[:, fold, np.arange(len(fold))])


def nested_gain(rows: LabelledLogits, *, seed: int = 0) -> tuple[Gain, Floats]:
    """What choosing a penalty and fitting with it gains on rows that were part of neither; and for every row
    the parameters that it had no part in: of the repeat whose gain is closest to the mean of all."""
    before, differences = rows.losses(), np.zeros((REPEATS, len(rows.labels)))
    used = np.empty((REPEATS, len(rows.labels), 1 + rows.logits.shape[1]))
    for repeat in range(REPEATS):
        fold = fold_of_row(rows.labels, FOLDS, seed=_seed(seed, repeat))
        for number in range(FOLDS):
            known, left = rows.select(np.flatnonzero(fold != number)), np.flatnonzero(fold == number)
            parameters = known.fit(best_penalty(known, seed=seed, repeats=1))
            differences[repeat, left] = rows.select(left).losses(parameters) - before[left]
            used[repeat, left] = parameters
    gain = gain_of(differences.mean(axis=0), rows.weights)
    gains = differences @ rows.weights / rows.weights.sum()
    return gain, used[int(np.abs(gains - gain.nll).argmin())]


def gain_of(differences: Floats, weights: Floats) -> Gain:
    """The weighted mean of differences of rows, its widened standard error and the 95 % interval.

    >>> found = gain_of(np.array([-1.0, -1.0, -2.0, -2.0]), np.ones(4))
    >>> round(found.nll, 4), round(found.standard_error, 4)
    (-1.5, 0.433)
    """
    share = weights / weights.sum()
    mean = float(share @ differences)
    effective = 1 / float(share @ share)
    # Unweighted this is s / sqrt(n) with s over n - 1.
    variance = float(share**2 @ (differences - mean) ** 2) * effective / max(effective - 1, 1e-9)
    error = math.sqrt(variance * (1 + FOLDS / (FOLDS - 1)))
    reach = float(stdtrit(max(effective - 1, 1), 0.975)) * error
    return Gain(mean, error, mean - reach, mean + reach)


def _seed(seed: int, repeat: int) -> int:
    return 1000 * seed + repeat
