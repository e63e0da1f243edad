"""The report of `calmix calibrate`: held-out metrics and reliability diagrams, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.report.page import Beside, Block, Chart, Fact, Facts, Page, Prose, Section, write_page
from calmix.report.reliability import reliability_figure
from calmix.report.tables import Table, metrics_table

if TYPE_CHECKING:
    from calmix.calibration.held_out import HeldOut
    from calmix.calibration.predictions import Predictions

STAGES = {"uncalibrated": "before", "calibrated": "after"}
CROSS_VALIDATED = "cross-validated: fitted five times on four fifths of the rows, measured on the last fifth"
NOTHING_HELD_OUT = (
    "no metric is held out: there are too few rows to repeat the fit. Measure the result on other labelled "
    "rows before you trust it"
)


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
    return (
        f"NLL in-sample (the {result['n']} rows it was fitted on): {result['nll_before']:.4f} before, "
        f"{result['nll_after']:.4f} after"
    )


def calibration_page(result: Mapping[str, Any], compared: Mapping[str, HeldOut]) -> Page:
    facts = [Fact("Method", str(result["method"])), Fact("Fitted on", str(result["fitted_on"]))]
    facts.append(Fact("Rows", f"{result['n']:,}"))
    if result["temperature"] is not None:
        facts.append(Fact("Temperature", f"{result['temperature']:.4f}"))
    facts.append(Fact("Folded into the model", "yes" if result["folded"] else "no"))
    said: list[Block] = [Prose(f"{conclusion(result)}.")]
    said += [Prose(note, "note") for note in result["notes"]]
    said += [Prose(warning, "warning") for warning in result["warnings"]]
    measured: list[Block] = (
        [held_out_table(result)] if compared else [Prose(f"{NOTHING_HELD_OUT.capitalize()}.", "warning")]
    )
    diagrams = [
        Section(
            f"Reliability on {name}",
            (Beside((_chart(found.before, name, "before"), _chart(found.after, name, "after"))),),
        )
        for name, found in compared.items()
    ]
    return Page(
        title="Calibration",
        lead=f"{result['method'].capitalize()} calibration, fitted on {result['n']:,} rows.",
        facts=Facts(tuple(facts)),
        sections=(Section("Result", (*measured, *said)), *diagrams),
    )


def _chart(predictions: Predictions, name: str, stage: str) -> Chart:
    accuracy, confidence = predictions.correct().mean(), predictions.confidence().mean()
    caption = f"Accuracy {100 * accuracy:.1f} %, mean confidence {100 * confidence:.1f} %."
    return Chart(
        figure=reliability_figure(predictions),
        title=stage.capitalize(),
        caption=caption,
        description=f"Reliability diagram of {name}, {stage} calibration. {caption}",
    )


def write_calibration_report(result: Mapping[str, Any], compared: Mapping[str, HeldOut], path: Path) -> Path:
    return write_page(calibration_page(result, compared), path)
