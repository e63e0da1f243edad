"""Whether the confidence of a run can be trusted: one line for every test set, one sentence for the page.

    can be trusted     the ECE is within the noise floor: what a perfectly calibrated model shows in 95 of
                       100 samples of this size
    cannot be judged   within it, but with so few rows that the interval of the ECE reaches beyond `LARGE`
    is roughly right   above it, but what is left after the noise is at most `SMALL`
    cannot be trusted  beyond that

Judged are the calibrated predictions: those of the saved model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.report.learning import MEANING, TITLE, has_not_learned
from calmix.report.pages.page import Tone, Verdict
from calmix.report.tables import ece_text, is_in_sample, is_within_noise

# Of the ECE without its noise: what a decision at 80 or 90 % hardly notices.
SMALL = 0.05
# Of the ECE: rows that do not exclude this much are no reason to trust a confidence.
LARGE = 0.10
IN_DOMAIN = "test"
WITHIN_NOISE = ("good", "unknown")
WORDS: Mapping[Tone, str] = {
    "good": "can be trusted",
    "fair": "is roughly right",
    "bad": "cannot be trusted",
    "unknown": "cannot be judged",
}


def judged_splits(metrics: Mapping[str, Any]) -> list[str]:
    """The test sets; without any, the validation rows."""
    splits = metrics["splits"]
    unseen = [split for split, stages in splits.items() if not is_in_sample(stages, "calibrated")]
    return unseen or list(splits)


def tone_of(values: Mapping[str, Any]) -> Tone:
    """
    >>> tone_of({"ece": 0.02, "ece_noise_floor": 0.01, "ece_noise_floor_p95": 0.03})
    'good'
    >>> tone_of({"ece": 0.07, "ece_noise_floor": 0.07, "ece_noise_floor_p95": 0.1, "ece_ci": [0.0, 0.15]})
    'unknown'
    >>> tone_of({"ece": 0.12, "ece_noise_floor": 0.01, "ece_noise_floor_p95": 0.03})
    'bad'
    """
    if is_within_noise(values):
        return "unknown" if ece_limit(values) > LARGE else "good"
    excess = values.get("ece_corrected", values["ece"] - values["ece_noise_floor"])
    return "fair" if excess <= SMALL else "bad"


def split_verdict(metrics: Mapping[str, Any], split: str) -> Verdict:
    """How far the confidence on one test set can be trusted, and on what that rests."""
    stages = metrics["splits"][split]
    values = stages["calibrated"]
    tone = tone_of(values)
    said = mean_confidence(values)
    if tone in WITHIN_NOISE:
        text = (
            f"ECE {ece_text(values)} % on {values['n']:,} rows: not significantly different from perfect "
            f"calibration, which shows up to {100 * noise_limit(values):.1f} % at this sample size."
        )
        if tone == "unknown":
            text += f" But so few rows do not exclude an ECE of {100 * ece_limit(values):.1f} % either."
    else:
        text = (
            f"ECE {ece_text(values)} % on {values['n']:,} rows; a perfectly calibrated model shows up to "
            f"{100 * noise_limit(values):.1f} %."
        )
    text += f" Mean confidence {100 * said:.1f} %, accuracy {100 * values['accuracy']:.1f} %"
    text += "." if tone in WITHIN_NOISE else f": {direction(values)}."
    if is_in_sample(stages, "calibrated"):
        text += " The temperature was fitted on these rows, so the numbers are optimistic."
    return Verdict(tone, f"{place_words(split, capital=True)}: confidence {WORDS[tone]}.", text)


def mean_confidence(values: Mapping[str, Any]) -> float:
    """Runs of earlier versions did not store it."""
    return float(values.get("mean_confidence", values["accuracy"] + values.get("confidence_gap", 0.0)))


def ece_limit(values: Mapping[str, Any]) -> float:
    """The upper end of its interval; without one, the ECE."""
    return float(values.get("ece_ci", (0.0, values["ece"]))[1])


def noise_limit(values: Mapping[str, Any]) -> float:
    return float(values.get("ece_noise_floor_p95", values["ece_noise_floor"]))


def direction(values: Mapping[str, Any]) -> str:
    """In which direction the confidence is off, where the rows tell.

    >>> direction({"accuracy": 0.7, "mean_confidence": 0.82, "confidence_gap_ci": [0.09, 0.15]})
    'overconfident by 12.0 points'
    >>> direction({"accuracy": 0.7, "mean_confidence": 0.71, "confidence_gap_ci": [-0.02, 0.04]})
    'overconfident at some confidences, underconfident at others'
    """
    gap = mean_confidence(values) - values["accuracy"]
    low, high = values.get("confidence_gap_ci", (gap - 0.01, gap + 0.01))
    if low <= 0 <= high:
        return "overconfident at some confidences, underconfident at others"
    return f"{'over' if gap > 0 else 'under'}confident by {100 * abs(gap):.1f} points"


def place_words(split: str, *, capital: bool = False) -> str:
    """
    >>> place_words("test"), place_words("imdb", capital=True)
    ('in domain', 'On `imdb`')
    """
    words = "in domain" if split == IN_DOMAIN else f"on `{split}`"
    return words[0].upper() + words[1:] if capital else words


def verdicts(metrics: Mapping[str, Any]) -> tuple[Verdict, ...]:
    return tuple(split_verdict(metrics, split) for split in judged_splits(metrics))


def sentence(metrics: Mapping[str, Any]) -> str:
    """The whole run in one sentence.

    >>> close = {"n": 9, "accuracy": 0.8, "ece": 0.01, "ece_noise_floor": 0.02}
    >>> far = {"n": 9, "accuracy": 0.8, "ece": 0.2, "ece_noise_floor": 0.02, "mean_confidence": 0.95}
    >>> splits = {"test": {"calibrated": close}, "imdb": {"calibrated": far}}
    >>> sentence({"splits": splits})
    'Confidence can be trusted in domain; on `imdb` it cannot be trusted: overconfident by 15.0 points.'
    """
    if has_not_learned(metrics):
        return f"{TITLE}: {MEANING}."
    splits = judged_splits(metrics)
    if all(is_in_sample(metrics["splits"][split], "calibrated") for split in splits):
        return "It is unknown whether confidence can be trusted: there is no test set."
    by_tone: dict[Tone, list[str]] = {}
    for split in splits:
        by_tone.setdefault(tone_of(metrics["splits"][split]["calibrated"]), []).append(split)
    parts: list[str] = []
    for tone, members in by_tone.items():
        where = " and ".join(place_words(split) for split in members)
        part = f"{where} it {WORDS[tone]}" if parts else f"Confidence {WORDS[tone]} {where}"
        part += ": too few rows" if tone == "unknown" else ""
        if tone == "bad" and len(members) == 1:
            part += f": {direction(metrics['splits'][members[0]]['calibrated'])}"
        parts.append(part)
    return "; ".join(parts) + "."
