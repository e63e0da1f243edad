"""The report of `calmix calibrate`: held-out metrics and reliability diagrams, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.report.pages.page import (
    Answer,
    Beside,
    Block,
    Chart,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    Verdict,
    write_page,
)
from calmix.report.run.metrics_section import WEIGHTED
from calmix.report.run.reliability import reliability_chart
from calmix.report.run.verdict import WORDS, noise_limit, tone_of
from calmix.report.tables import Table, metrics_table

if TYPE_CHECKING:
    from calmix.calibration.held_out import HeldOut
    from calmix.calibration.predictions import Predictions

STAGES = {"uncalibrated": "before", "calibrated": "after"}
CROSS_VALIDATED = (
    "cross-validated: fitted five times on four fifths of the rows, measured on the last fifth; intervals "
    "are about the rows, without the uncertainty of the fit"
)
INCLUDES_FIT = "intervals after calibration include the uncertainty of the fit: other rows to fit on"
WITHOUT_FIT = "intervals after calibration are about the measured rows, without the uncertainty of the fit"
NOTHING_HELD_OUT = (
    "no metric is held out: there are too few rows for cross-validation. Measure the result on other "
    "labelled rows before you trust it"
)


# Their temperature is where the fit starts from: no number of the result.
WITHOUT_TEMPERATURE = ("isotonic", "vector")


def chosen_method(result: Mapping[str, Any]) -> str:
    """The method that was fitted, also where `auto` chose it.

    >>> chosen_method({"method": "auto", "chosen": "vector"}), chosen_method({"method": "perturbed"})
    ('vector', 'perturbed')
    """
    return str(result["chosen"] if result["method"] == "auto" else result["method"])


def shown_temperature(result: Mapping[str, Any]) -> float | None:
    """The temperature of the result; None of a calibrator that has none."""
    value = None if chosen_method(result) in WITHOUT_TEMPERATURE else result["temperature"]
    return None if value is None else float(value)


def held_out_table(result: Mapping[str, Any], keys: Sequence[str] | None = None) -> Table:
    """Before and after, for every set of rows that the calibrator was not fitted on."""
    held_out = result["held_out"]
    table = metrics_table(
        {
            "splits": {
                _title(name, found): {stage: found[STAGES[stage]] for stage in STAGES}
                for name, found in held_out.items()
            }
        },
        keys,
    )
    rows = tuple((row[0], _renamed(row[1]), *row[2:]) for row in table.rows)
    notes = table.notes
    if any(found["measured"] == "cross-validated" for found in held_out.values()):
        notes = (*notes, f"* {CROSS_VALIDATED}")
    after = [found["after"] for found in held_out.values() if found["measured"] == "held-out"]
    if any("ece_ci" in one for one in after):
        notes = (*notes, INCLUDES_FIT if all(one.get("ci_includes_fit") for one in after) else WITHOUT_FIT)
    return replace(table, caption="Held-out metrics before and after calibration", rows=rows, notes=notes)


def _title(name: str, found: Mapping[str, Any]) -> str:
    return f"{name} *" if found["measured"] == "cross-validated" else name


def _renamed(stage: str) -> str:
    """
    >>> _renamed("uncalibrated †")
    'before †'
    """
    kind, *mark = stage.split(" ")
    return " ".join([STAGES[kind], *mark])


def conclusion(result: Mapping[str, Any]) -> str:
    """What the calibrator did, in one sentence; the in-sample numbers are marked as such."""
    if result["already_calibrated"]:
        return (
            f"already calibrated: fitting a temperature again gives {result['temperature']:.4f}, so nothing "
            "changes"
        )
    return choice(result) + (
        f"NLL in-sample (the {result['n']} rows it was fitted on): {result['nll_before']:.4f} before, "
        f"{result['nll_after']:.4f} after"
    )


def choice(result: Mapping[str, Any]) -> str:
    """What `auto` chose and why, as the start of a sentence; nothing for a calibrator that was named.

    >>> scores = {"temperature": {"nll": 0.53}, "vector": {"nll": 0.5}}
    >>> choice({"method": "auto", "chosen": "vector", "cross_validation": scores})
    'auto chose vector (cross-validated NLL: temperature 0.5300, vector 0.5000); '
    """
    if result["method"] != "auto":
        return ""
    scores = result["cross_validation"] or {}
    listed = ", ".join(f"{name} {found['nll']:.4f}" for name, found in scores.items())
    reason = f"cross-validated NLL: {listed}" if listed else "nothing else was tried"
    return f"auto chose {result['chosen']} ({reason}); "


def calibration_page(result: Mapping[str, Any], compared: Mapping[str, HeldOut]) -> Page:
    named, temperature = chosen_method(result), shown_temperature(result)
    facts = [
        Fact("Method", named, "chosen by auto" if named != result["method"] else ""),
        Fact("Fitted on", str(result["fitted_on"])),
        Fact("Rows", f"{result['n']:,}"),
    ]
    if temperature is not None:
        facts.append(Fact("Temperature", f"{temperature:.4f}"))
    facts.append(Fact("Folded into the model", "yes" if result["folded"] else "no"))
    said: list[Block] = [Prose(f"{conclusion(result)}.")]
    if any("effective_n" in found["before"] for found in result["held_out"].values()):
        said.append(Prose(WEIGHTED))
    said += [Prose(note, "note") for note in result["notes"]]
    said += [Prose(warning, "warning") for warning in result["warnings"]]
    measured: list[Block] = (
        [held_out_table(result)] if compared else [Prose(f"{NOTHING_HELD_OUT.capitalize()}.", "warning")]
    )
    charts = {
        name: Beside((_chart(found.before, name, "before"), _chart(found.after, name, "after")))
        for name, found in compared.items()
    }
    first, *others = charts or [None]
    diagrams = [Section(f"Reliability on {name}", (charts[name],)) for name in others if name]
    return Page(
        title=f"{result['method'].capitalize()} calibration, fitted on {result['n']:,} rows",
        lead=answer_sentence(result),
        facts=Facts(tuple(facts)),
        sections=(Section("Result", (*measured, *said)), *diagrams),
        answer=Answer(
            tuple(held_out_verdict(name, found) for name, found in result["held_out"].items()),
            blocks=() if first is None else (charts[first],),
            wide=True,
        ),
    )


def answer_sentence(result: Mapping[str, Any]) -> str:
    """Whether calibration helped, on rows that it was not fitted on.

    >>> better, unclear, worse = ({"nll_difference": {"ci": ci}} for ci in ([-2, -1], [-1, 1], [1, 2]))
    >>> answer_sentence({"held_out": {"test": better}, "already_calibrated": False})
    'Calibration helped on `test`, by the NLL of held-out rows.'
    >>> answer_sentence({"held_out": {"validation": unclear, "test": worse}, "already_calibrated": False})
    'Calibration hurt on `test` and had no significant effect on `validation`, by the NLL of held-out rows.'
    """
    if result["already_calibrated"]:
        return "The model is calibrated already: nothing changes."
    if not result["held_out"]:
        return "It is unknown whether calibration helped: no rows were held out."
    named: dict[str, list[str]] = {"helped": [], "hurt": [], "had no significant effect": []}
    for name, found in result["held_out"].items():
        low, high = found["nll_difference"]["ci"]
        effect = "helped" if high < 0 else "hurt" if low > 0 else "had no significant effect"
        named[effect].append(f"`{name}`")
    parts = [f"{effect} on {' and '.join(names)}" for effect, names in named.items() if names]
    return f"Calibration {' and '.join(parts)}, by the NLL of held-out rows."


def held_out_verdict(name: str, found: Mapping[str, Any]) -> Verdict:
    """How far the confidence can be trusted after calibration."""
    after, change = found["after"], found["nll_difference"]
    tone = tone_of(after)
    low, high = change["ci"]
    difference = f"{change['difference']:+.4f} [{low:+.4f}, {high:+.4f}]".replace("-", "−")
    return Verdict(
        tone,
        f"{name}: confidence {WORDS[tone]}.",
        f"NLL from {found['before']['nll']:.4f} to {after['nll']:.4f} ({difference}), ECE from "
        f"{100 * found['before']['ece']:.2f} to {100 * after['ece']:.2f} % on {after['n']:,} rows; a "
        f"perfectly calibrated model shows an ECE of up to {100 * noise_limit(after):.2f} %.",
    )


def _chart(predictions: Predictions, name: str, stage: str) -> Chart:
    accuracy, confidence = predictions.correct().mean(), predictions.confidence().mean()
    return reliability_chart(
        predictions,
        title=f"{name}, {stage}",
        caption=f"Accuracy {100 * accuracy:.1f} %, mean confidence {100 * confidence:.1f} %.",
        name=f"reliability-{stage}",
    )


def write_calibration_report(result: Mapping[str, Any], compared: Mapping[str, HeldOut], path: Path) -> Path:
    return write_page(calibration_page(result, compared), path)
