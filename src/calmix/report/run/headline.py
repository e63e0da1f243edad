"""The facts of a run: what was trained, how, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.io.run_directory import RunDirectory
from calmix.printable import duration
from calmix.report.pages.page import Fact, Facts
from calmix.training.epochs.rules import NLL_AFTER_TEMPERATURE, TITLES

AT_BOUND = {
    "lower": "at its lower bound: (nearly) all validation rows are right, so sharper always looks better",
    "upper": "at its upper bound: the logits carry (nearly) no information on the validation labels",
}


def run_facts(run: RunDirectory, metrics: Mapping[str, Any]) -> Facts:
    chosen = [entry["epoch"] for entry in metrics.get("history", []) if entry.get("chosen")]
    epochs = len(metrics.get("history", []))
    sizes = metrics.get("sizes", {})
    model = str(metrics["model"])
    is_directory = Path(model).is_absolute()
    facts = [
        Fact("Method", str(metrics["method"])),
        *teacher_facts(metrics),
        Fact("Model", Path(model).name, model) if is_directory else Fact("Model", model),
        *calibrator_facts(run, metrics),
        Fact("Seed", str(metrics["seed"])),
        Fact("Time", duration(metrics["seconds"]), f"on {metrics['device']}"),
    ]
    if "train" in sizes:
        facts.append(Fact("Training rows", f"{sizes['train']:,}", f"{len(metrics['label_names'])} classes"))
    if chosen:
        facts.append(Fact("Epoch kept", f"{chosen[0]:g} of {epochs}", kept_by(metrics)))
    return Facts(tuple(facts))


def kept_by(metrics: Mapping[str, Any]) -> str:
    """By what the epoch was kept; runs of earlier versions knew one rule.

    >>> kept_by({}), kept_by({"select_by": "last"})
    ('by validation NLL after temperature scaling', 'the last epoch')
    """
    return TITLES[metrics.get("select_by", NLL_AFTER_TEMPERATURE)]


def teacher_facts(metrics: Mapping[str, Any]) -> list[Fact]:
    """Who taught a student, and how."""
    taught = metrics.get("distillation")
    if not taught:
        return []
    names = [str(teacher["name"]) for teacher in taught["teachers"]]
    stage = "calibrated" if taught["teacher_temperature"] else "uncalibrated"
    answers = f"its {stage} predictions"
    if len(names) > 1:
        answers = answers.replace("its", "the mean of their", 1)
    places = ", ".join(name for name in names if Path(name).is_absolute())
    extra = f"{taught['unlabelled']:,} unlabelled rows" if taught["unlabelled"] else ""
    return [
        Fact(
            "Teacher",
            ", ".join(Path(name).name for name in names),
            "; ".join(filter(None, (answers, places))),
        ),
        Fact(
            "Distillation",
            f"τ = {taught['distill_temperature']:g}, α = {taught['label_weight']:g}",
            extra or "α weighs the labels",
        ),
    ]


def calibrator_facts(run: RunDirectory, metrics: Mapping[str, Any]) -> list[Fact]:
    """What is folded into the model, and the second calibrator beside it."""
    if "temperature" in metrics:
        found = [Fact("Temperature", f"{metrics['temperature']:.3f}", temperature_note(run, metrics))]
    else:
        found = [
            Fact("Calibrator", str(metrics["calibrator"]), "fitted on validation, folded into the model")
        ]
    if "perturbed" in metrics:
        value = f"{metrics['perturbed']['temperature']:.3f}"
        found.append(Fact("Perturbed", value, "temperature of perturbed/, for data of an unknown domain"))
    return found


def temperature_note(run: RunDirectory, metrics: Mapping[str, Any]) -> str:
    """What the temperature says about the network, and whether its search ended at a bound."""
    fitted = run.calibration() if run.calibration_file.is_file() else {}
    bound = fitted.get("at_bound")
    if bound:
        return AT_BOUND[bound]
    if metrics["temperature"] > 1:
        return "above 1: the network was overconfident"
    return "below 1: the network was underconfident" if metrics["temperature"] < 1 else "nothing to correct"
