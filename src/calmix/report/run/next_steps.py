"""What to do with a run: train longer, accept, collect rows, recalibrate, check labels."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.calibration.metrics.selective import GuaranteedThreshold, guaranteed_threshold
from calmix.calibration.predictions import Predictions
from calmix.report.learning import has_not_learned
from calmix.report.run.verdict import IN_DOMAIN, judged_splits, place_words, tone_of

# Accuracies a reader may want to promise, the highest first.
TARGETS = (0.99, 0.95, 0.9)
# A target that leaves fewer rows than this is of little use.
LEAST_COVERAGE = 0.2
FEW_VALIDATION_ROWS = 200

Step = tuple[str, str]


def next_steps(run: Path, metrics: Mapping[str, Any], validation: Predictions | None) -> tuple[Step, ...]:
    """Text and command of each. `validation` is calibrated: the predictions of the saved model."""
    if has_not_learned(metrics):
        return ((str(metrics["learning"]["advice"]), ""),)
    steps: list[Step] = []
    if validation is not None:
        steps.append(acceptance_step(run, validation))
        if len(validation) < FEW_VALIDATION_ROWS:
            steps.append(
                (
                    f"Collect more validation rows: the temperature and all thresholds are fitted on only "
                    f"{len(validation):,}; {FEW_VALIDATION_ROWS} or more are better.",
                    "",
                )
            )
    for split in judged_splits(metrics):
        tone = tone_of(metrics["splits"][split]["calibrated"])
        if tone == "bad":
            steps.append(recalibration_step(run, split))
        elif tone == "unknown":
            text = f"Collect more test rows: those {place_words(split)} are too few to judge the confidence."
            steps.append((text, ""))
    if len(steps) < 3:
        steps.append(
            (
                "Read the confident mistakes below, and the training rows that look mislabelled.",
                f"calmix map {shlex.quote(str(run))} --output map",
            )
        )
    return tuple(steps)


def certified(validation: Predictions) -> GuaranteedThreshold:
    """The highest accuracy that leaves a useful share of rows; else what it would take."""
    confidence, correct = validation.confidence(), validation.correct()
    found = [guaranteed_threshold(confidence, correct, target) for target in TARGETS]
    useful = [one for one in found if one.threshold is not None and one.coverage >= LEAST_COVERAGE]
    return useful[0] if useful else found[-1] if found[-1].threshold is not None else found[1]


def acceptance_step(run: Path, validation: Predictions) -> Step:
    """Accept above a certified threshold, or collect the rows that certify one."""
    found = certified(validation)
    target = f"{100 * found.target_accuracy:g} %"
    command = (
        f"calmix predict {shlex.quote(str(run))} --input new.csv --output predictions.csv "
        f"--target-accuracy {found.target_accuracy:g}"
    )
    if found.threshold is not None:
        return (
            f"Accept predictions at confidence {found.threshold:.3f} or above: {100 * found.coverage:.0f} % "
            f"of rows like the validation rows, at least {target} of them right (with 95 % confidence).",
            command,
        )
    if found.rows_needed is None:
        return (
            f"Do not accept predictions automatically yet: at no threshold do the validation rows reach an "
            f"accuracy of {target}. Improve the model, or lower the target.",
            "",
        )
    return (
        f"To accept automatically, collect more validation rows: {found.rows:,} certify no threshold for an "
        f"accuracy of {target}; about {found.rows_needed:,} would.",
        "",
    )


def recalibration_step(run: Path, split: str) -> Step:
    """Confidence that is off on a kind of data is fitted again on that data."""
    where, source = place_words(split), shlex.quote(str(run))
    if split == IN_DOMAIN:
        return (
            "Calibrate again with a more flexible calibrator: one temperature is not enough in domain.",
            f"calmix calibrate {source} --fit-on validation --method vector --output calibrated",
        )
    return (
        f"Do not act on the confidence {where} as it is: label some such rows and adapt the model to them.",
        f"calmix adapt {source} --labelled labelled.csv --output adapted",
    )
