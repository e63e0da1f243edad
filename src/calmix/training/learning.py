"""Whether a run has learned anything: signs that it has not, and what to change.

A run that was trained too gently or too briefly ends like any other: with a temperature, an expected
calibration error, a report. Five signs tell it from a run that has learned; all are read from the validation
rows and the history of the epochs.

    accuracy_at_majority   accuracy is not significantly above the share of the largest class, and the NLL
                           hardly below that of the class shares
    low_temperature        the fitted temperature is significantly below 0.5: the logits are still small
    temperature_at_bound   the fitted temperature is at its upper bound: the logits say nothing
    still_improving        the validation NLL fell by very much in the last epoch
    training_loss_flat     the training loss of the last epoch is that of the first, and that of guessing

A run without any of them whose validation NLL fell by much in the last epoch, but not by very much, has
learned: it gets a note that more epochs may help. Beside another sign the same fact is a sign.

`metrics.json` holds the verdict as

    "learning": {"learned": bool, "reasons": [code], "messages": [words], "notes": [words], "advice": words}

and `learning_rate` and `epochs` beside it. Runs of earlier versions have no such key: they were not judged.
The terminal, the report and the model card show it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from calmix.calibration.input_checks import Floats, Integers
from calmix.calibration.metrics.scores import log_loss_rows, weighted_mean
from calmix.calibration.predictions import Predictions

STILL_IMPROVING = "still_improving"
# One-sided level of the test of accuracy against the largest class, and of T against its threshold.
SIGNIFICANCE = 0.05
# Of the entropy of the class shares. Where one class is nearly everything, accuracy cannot rise above it, and
# a useful model shows by its NLL; what gains less than this over the class shares is of no use to anybody.
LEAST_GAIN = 0.05
# A network that fits hard labels ends overconfident (T above 1) or nearly calibrated. Halved logits mean that
# training stopped while they were still growing.
LOWEST_TEMPERATURE = 0.5
# Mixed and smoothed labels, a focal loss and a teacher hold the logits down on purpose.
LOWEST_TEMPERATURE_SOFT = 0.25
# Of the entropy of the class shares. The rate decays to 0: the last epoch of a run that is done adds little.
# `largest_last_gain` in benchmarks/results/default_settings.json is below this for every setting.
LARGEST_LAST_GAIN = 0.05
# A network that has just begun to learn gains so much in an epoch at full rate (SNLI, 2,000 rows, second of
# three epochs: 25 %): a run that ends like that was cut off.
CUT_OFF_GAIN = 0.15
# Of the loss of the first epoch, and of the loss of guessing by the class shares.
FLAT_LOSS = 0.95
# -2 log likelihood ratio of one parameter, one-sided: half of the χ² quantile.
_LIKELIHOOD_DROP = 1.3528


@dataclass(frozen=True)
class ValidationFacts:
    """What the verdict needs to know about the validation rows. NLLs are means, after temperature scaling."""

    rows: float
    """Of weighted rows, how many of equal weight say as much: (Σ v)² / Σ v²."""
    right: float
    """Of these, the ones predicted right."""
    majority_share: float
    entropy: float
    """Of the class shares: the NLL of guessing by them."""
    nll: float
    temperature: float
    at_bound: str | None = None
    nll_at_lowest: float = math.inf
    """The NLL at the lowest temperature that passes."""
    is_weighted: bool = False
    has_soft_labels: bool = False

    @classmethod
    def of(
        cls, validation: Predictions, temperature: float, at_bound: str | None, lowest: float
    ) -> ValidationFacts:
        """NLLs and entropy count weights and soft labels, as the fit of the temperature does. Accuracy is
        by the most frequent label of every row: where annotators disagree on all rows, no model is far above
        the largest class by the share of them that agrees with it."""
        if validation.weights is not None:
            validation = validation.select(validation.weights > 0)  # a row of weight 0 is no row
        weights, is_right = validation.weights, validation.correct()
        rows, right = float(len(validation)), float(is_right.sum())
        if weights is not None:
            rows = float(weights.sum() ** 2 / (weights @ weights))
            # Rounding must not make an error of what is all right.
            right = rows if is_right.all() else rows * weighted_mean(is_right.astype(np.float64), weights)
        return cls(
            rows=rows,
            right=right,
            majority_share=float(class_shares(validation.labels, weights).max()),
            entropy=entropy_of_classes(validation),
            nll=mean_log_loss(validation.with_temperature(temperature)),
            temperature=temperature,
            at_bound=at_bound,
            nll_at_lowest=mean_log_loss(validation.with_temperature(lowest)),
            is_weighted=weights is not None,
            has_soft_labels=validation.targets is not None,
        )


@dataclass(frozen=True)
class Settings:
    """How the run was trained, and what is usual for its network and number of rows."""

    learning_rate: float
    epochs: int
    usual_rate: float
    usual_epochs: int
    soft_targets: bool = False

    @property
    def lowest_temperature(self) -> float:
        return LOWEST_TEMPERATURE_SOFT if self.soft_targets else LOWEST_TEMPERATURE


@dataclass(frozen=True)
class Learning:
    """The verdict. `reasons` are codes, `messages` say the same in words; `notes` are no reasons."""

    reasons: tuple[str, ...]
    messages: tuple[str, ...]
    advice: str
    notes: tuple[str, ...] = ()

    @property
    def learned(self) -> bool:
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """As in `metrics.json`."""
        return {
            "learned": self.learned,
            "reasons": list(self.reasons),
            "messages": list(self.messages),
            "notes": list(self.notes),
            "advice": self.advice,
        }


def judge_learning(
    facts: ValidationFacts, history: Sequence[Mapping[str, Any]], settings: Settings
) -> Learning:
    """The signs that a run has not learned.

    Six classes, 21 of 100 rows right where the largest class has 28:

    >>> facts = ValidationFacts(100, 21, 0.28, 1.7, nll=1.72, temperature=0.9, nll_at_lowest=1.8)
    >>> verdict = judge_learning(facts, [], Settings(2e-5, 2, usual_rate=2e-4, usual_epochs=6))
    >>> verdict.learned, verdict.reasons, verdict.advice
    (False, ('accuracy_at_majority',), 'Train again with --learning-rate 2e-4 --epochs 6.')
    """
    signs = {
        "accuracy_at_majority": _majority_sign(facts),
        "low_temperature": _temperature_sign(facts, settings.lowest_temperature),
        "temperature_at_bound": _bound_sign(facts),
        "training_loss_flat": _flat_sign(facts, history),
    }
    found = {code: message for code, message in signs.items() if message}
    gain = last_gain(facts, history)
    notes: tuple[str, ...] = ()
    if gain > CUT_OFF_GAIN or (gain > LARGEST_LAST_GAIN and found):
        found[STILL_IMPROVING] = _improvement(gain, history)
    elif gain > LARGEST_LAST_GAIN:
        notes = (f"{_improvement(gain, history)}: more epochs may help",)
    causes = (*found, *([STILL_IMPROVING] if notes else []))
    return Learning(tuple(found), tuple(found.values()), _advice(causes, settings) if causes else "", notes)


def judge_labels(shares: NDArray[np.float64], nll: float, settings: Settings) -> Learning:
    """The same for rows of several labels: whether the log loss is below that of the labels' shares alone.

    >>> shares = np.array([0.5, 0.5])
    >>> judge_labels(shares, 0.69, Settings(2e-5, 2, usual_rate=2e-4, usual_epochs=6)).reasons
    ('nll_at_label_shares',)
    """
    inside = np.clip(shares, 1e-12, 1 - 1e-12)
    entropy = float(-(inside * np.log(inside) + (1 - inside) * np.log1p(-inside)).mean())
    if nll <= (1 - LEAST_GAIN) * entropy:
        return Learning((), (), "")
    message = (
        f"the log loss on validation rows is {nll:.4f}, and {entropy:.4f} if every label is guessed by its "
        "share of the rows"
    )
    return Learning(("nll_at_label_shares",), (message,), _advice(("accuracy_at_majority",), settings))


def stage_warning(metrics: Mapping[str, Any], stage: str) -> str | None:
    """For a run that others are built on: its data map and predictions mean nothing if it has not learned.

    >>> verdict = {"learned": False, "messages": ["the loss hardly moved"], "advice": "Train again."}
    >>> stage_warning({"learning": verdict}, "it")
    'WARNING: it has not learned (the loss hardly moved): what is built on it means little. Train again.'
    """
    learning = metrics.get("learning", {})
    if learning.get("learned", True):
        return None
    return (
        f"WARNING: {stage} has not learned ({'; '.join(learning['messages'])}): what is built on it means "
        f"little. {learning['advice']}"
    )


def entropy_of_classes(predictions: Predictions) -> float:
    """The NLL of guessing by the shares of the classes.

    >>> rows = Predictions.from_logits([[0.0, 1.0]] * 2, [0, 1])
    >>> [round(entropy_of_classes(rows.with_rows(weights=w)), 4) for w in ([1.0, 1.0], [1.0, 3.0])]
    [0.6931, 0.5623]
    """
    rows, weights = predictions.weighted_rows() if predictions.is_weighted else (predictions, None)
    shares = class_shares(rows.labels, weights)
    present = shares[shares > 0]
    return float(-(present * np.log(present)).sum())


def class_shares(labels: Integers, weights: Floats | None) -> Floats:
    counts = np.bincount(labels, weights)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def mean_log_loss(predictions: Predictions) -> float:
    """The NLL by weights and soft labels, if there are any."""
    rows, weights = predictions.weighted_rows() if predictions.is_weighted else (predictions, None)
    return weighted_mean(log_loss_rows(rows), weights)


def above_majority(right: float, rows: float, share: float) -> float:
    """p-value of the one-sided binomial test that more rows are right than the largest class would give.

    P(X >= right) = I_share(right, rows - right + 1),  X ~ Binomial(rows, share)

    The incomplete beta function I also takes the effective rows of weighted ones, which are not whole.

    >>> round(above_majority(8, 10, 0.5), 12)  # (45 + 10 + 1) / 1024
    0.0546875
    """
    return float(betainc(right, rows - right + 1, share)) if right > 0 else 1.0


def _majority_sign(facts: ValidationFacts) -> str | None:
    p = above_majority(facts.right, facts.rows, facts.majority_share)
    if p <= SIGNIFICANCE or facts.nll <= (1 - LEAST_GAIN) * facts.entropy:
        return None
    counted = " (by the most frequent label of every row)" if facts.has_soft_labels else ""
    number = f"effective n = {facts.rows:,.1f}" if facts.is_weighted else f"n = {facts.rows:,.0f}"
    return (
        f"validation accuracy {facts.right / facts.rows:.1%}{counted} is not significantly above the share "
        f"of the largest class, {facts.majority_share:.1%} (binomial test, {number}, p = {p:.2f})"
    )


def _temperature_sign(facts: ValidationFacts, lowest: float) -> str | None:
    # With every row right the optimum is the bound, however large the logits are.
    if facts.temperature >= lowest or facts.right == facts.rows:
        return None
    if facts.rows * (facts.nll_at_lowest - facts.nll) < _LIKELIHOOD_DROP:
        return None
    return (
        f"the temperature is {facts.temperature:.2f}, below {lowest:g}: the logits are still so small that "
        "the network is far underconfident"
    )


def _bound_sign(facts: ValidationFacts) -> str | None:
    if facts.at_bound != "upper":
        return None
    return "the temperature is at its upper bound: the logits say nothing about the validation labels"


def last_gain(facts: ValidationFacts, history: Sequence[Mapping[str, Any]]) -> float:
    """By how much the validation NLL fell in the last epoch, as a share of the NLL of guessing; 0 where the
    last epoch is not the best. Where epochs between the last two were not evaluated, the mean over them."""
    nlls = _nlls(history)
    if len(nlls) < 2 or nlls[-1] > min(nlls) or facts.entropy == 0:
        return 0.0
    return (nlls[-2] - nlls[-1]) / _last_step(history) / facts.entropy


def _last_step(history: Sequence[Mapping[str, Any]]) -> int:
    """Epochs from the last evaluation but one to the last."""
    before, after = (int(entry.get("epoch", place)) for place, entry in enumerate(history[-2:]))
    return after - before


def _nlls(history: Sequence[Mapping[str, Any]]) -> list[float]:
    return [float(epoch["validation_nll_calibrated"]) for epoch in history]


def _improvement(gain: float, history: Sequence[Mapping[str, Any]]) -> str:
    before, after = _nlls(history)[-2:]
    step = _last_step(history)
    when, each = ("in the last epoch", "") if step == 1 else (f"over the last {step} epochs", " an epoch")
    return (
        f"the validation NLL still fell {when}, from {before:.3f} to {after:.3f} (by {gain:.0%} "
        f"of the NLL of guessing{each})"
    )


def _flat_sign(facts: ValidationFacts, history: Sequence[Mapping[str, Any]]) -> str | None:
    losses = [float(epoch["train_loss"]) for epoch in history if epoch.get("train_loss") is not None]
    if len(losses) < 2 or losses[-1] < FLAT_LOSS * max(losses[0], facts.entropy):
        return None
    return f"the training loss hardly moved: {losses[0]:.3f} in the first epoch, {losses[-1]:.3f} in the last"


def _advice(reasons: tuple[str, ...], settings: Settings) -> str:
    """What to change: the rate where it is not the usual one, else the epochs, else the data."""
    rate, usual = settings.learning_rate, settings.usual_rate
    only_short = set(reasons) == {STILL_IMPROVING}
    epochs = max(settings.usual_epochs, settings.epochs * (2 if STILL_IMPROVING in reasons else 1))
    if rate > 2 * usual and not only_short:
        text = f"Training may have diverged: train again with --learning-rate {shown_rate(usual)}"
    elif rate < 0.75 * usual:
        text = f"Train again with --learning-rate {shown_rate(usual)}"
    else:
        epochs = max(epochs, 2 * settings.epochs)
        text = "Train again with"
    changes_rate = not text.endswith("with")
    if epochs > settings.epochs:
        text += f" --epochs {epochs}"
    if not changes_rate and "accuracy_at_majority" in reasons:
        text += " and more rows; if that does not help, check that the labels belong to the texts"
    return text + "."


def shown_rate(rate: float) -> str:
    """
    >>> shown_rate(2e-4), shown_rate(1.5e-05), shown_rate(0.1)
    ('2e-4', '1.5e-5', '0.1')
    """
    if rate >= 0.001:
        return f"{rate:g}"
    mantissa, exponent = f"{rate:.6e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
