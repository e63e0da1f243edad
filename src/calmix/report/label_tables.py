"""Tables of rows with several labels: all labels together, and label by label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calmix.report.calibration_report import CROSS_VALIDATED
from calmix.report.tables import (
    IN_SAMPLE,
    OUTSIDE,
    OUTSIDE_NOTE,
    WITHIN_NOISE,
    WITHIN_NOISE_NOTE,
    Column,
    Table,
    ece_marks,
    ece_text,
)

LABELS_SHOWN = 50
IN_SAMPLE_NOTE = "in-sample: scaling and thresholds were fitted on these rows, so the numbers are optimistic"
OVERALL = (
    Column("n", "rows"),
    Column("Subset acc. %", "rows whose labels are all right"),
    Column("Hamm. loss %", "decisions about a label of a row that are wrong"),
    Column("Macro F1 %", "mean over labels of F1 at the threshold of the label"),
    Column("Micro F1 %", "F1 of all decisions together"),
    Column("Macro AP %", "mean over labels of the average precision"),
    Column("NLL", "log loss, mean over rows and labels"),
    Column("Brier", "mean (p − y)², over rows and labels"),
    Column("Macro ECE %", "mean over labels of the error of the label's probability"),
)
PER_LABEL = (
    Column("Rows", "rows that have the label"),
    Column("NLL", "log loss"),
    Column("Brier", "mean (p − y)²"),
    Column("ECE % [95 %]", "error of the label's probability"),
    Column("Noise floor %", "ECE of a perfectly calibrated model on as many rows"),
    Column("AP %", "average precision"),
    Column("Threshold", "the label is predicted from this probability on"),
    Column("F1 %", "at the threshold"),
)
TITLES = {
    "nll": "NLL", "brier": "Brier", "subset_accuracy": "Subset accuracy", "hamming_loss": "Hamming loss",
}  # fmt: skip


def overall_table(named: Sequence[tuple[tuple[str, ...], Mapping[str, Any]]], titles: Sequence[str]) -> Table:
    """A row for every set of metrics; `titles` are those of its names."""
    rows = []
    for names, found in named:
        macro, micro = found["macro"], found["micro"]
        mark = f" {IN_SAMPLE}" if found.get("in_sample") else ""
        rows.append(
            (
                *names[:-1],
                names[-1] + mark,
                f"{found['n']:,}",
                percent(found["subset_accuracy"]),
                percent(found["hamming_loss"]),
                percent(macro["f1"]),
                percent(micro["f1"]),
                percent(macro["average_precision"]),
                f"{macro['nll']:.4f}",
                f"{macro['brier']:.4f}",
                percent(macro["ece"], 2),
            )
        )
    marked = any(found.get("in_sample") for _, found in named)
    return Table(
        "All labels",
        (*(Column(title, numeric=False) for title in titles), *OVERALL),
        tuple(rows),
        notes=(f"{IN_SAMPLE} {IN_SAMPLE_NOTE}",) if marked else (),
    )


def label_table(found: Mapping[str, Any], caption: str) -> Table:
    """A row for every label."""
    has_intervals = "nll_ci" in found["macro"]
    rows = []
    for name, one in list(found["per_label"].items())[:LABELS_SHOWN]:
        rows.append(
            (
                name,
                f"{one['positives']:,}",
                f"{one['nll']:.4f}",
                f"{one['brier']:.4f}",
                " ".join([ece_text(one), *ece_marks(one)]) if has_intervals else percent(one["ece"], 2),
                percent(one.get("ece_noise_floor"), 2),
                percent(one["average_precision"]),
                f"{one['threshold']:.3f}",
                percent(one["f1"]),
            )
        )
    cells = [cell for _, *measured in rows for cell in measured]  # a label may hold such characters too
    text = "".join(cells)
    marks = {WITHIN_NOISE: WITHIN_NOISE_NOTE, OUTSIDE: OUTSIDE_NOTE}
    notes = [f"{mark} {note}" for mark, note in marks.items() if mark in text]
    left = len(found["per_label"]) - len(rows)
    if left:
        notes.append(f"and {left:,} more labels: see metrics.json or --json")
    if "–" in cells:
        notes.append("– not defined: no row has the label")
    return Table(caption, (Column("Label", numeric=False), *PER_LABEL), tuple(rows), notes=tuple(notes))


def label_evaluation_tables(result: Mapping[str, Any]) -> list[Table]:
    """The tables of `calmix evaluate`."""
    files = result["files"]
    tables = [overall_table([((one["file"],), one) for one in files], ["File"])]
    tables += [label_table(one, one["file"]) for one in files]
    measured = [one for one in result["differences"] if one["metric"] is not None]
    if measured:
        rows = tuple(
            (
                f"{one['first']} − {one['second']}",
                TITLES[one["metric"]],
                f"{one['difference']:+.4f}",
                f"[{one['ci'][0]:+.4f}, {one['ci'][1]:+.4f}]",
                "" if one["ci"][0] <= 0 <= one["ci"][1] else "*",
            )
            for one in measured
        )
        names = ("Pair", "Metric", "Difference", "95 %", "")
        columns = tuple(Column(name, numeric=place in (2, 3)) for place, name in enumerate(names))
        notes = ("* the interval does not hold 0",) if any(row[-1] for row in rows) else ()
        caption = "Paired differences (first − second, same rows)"
        tables.append(Table(caption, columns, rows, notes=notes, grouped=True))
    return tables


def percent(value: float | None, decimals: int = 1) -> str:
    """
    >>> percent(0.123456, 2), percent(None)
    ('12.35', '–')
    """
    return "–" if value is None else f"{100 * value:.{decimals}f}"


def held_out_tables(result: Mapping[str, Any]) -> list[Table]:
    """Before and after calibration, of every set of rows that the scaling was not fitted on."""
    named = [
        ((name + (" *" if found["measured"] == "cross-validated" else ""), stage), found[stage])
        for name, found in result["held_out"].items()
        for stage in ("before", "after")
    ]
    if not named:
        return []
    table = overall_table(named, ["Rows", "Calibration"])
    notes = table.notes
    if any(found["measured"] == "cross-validated" for found in result["held_out"].values()):
        notes = (*notes, f"* {CROSS_VALIDATED}")
    return [
        replace(table, caption="Held-out metrics before and after calibration", notes=notes, grouped=True)
    ]


def stages_table(metrics: Mapping[str, Any]) -> Table:
    """Every split of a run before and after the scaling of its labels."""
    named = [
        ((split, {"uncalibrated": "raw", "calibrated": "scaled"}[stage]), found)
        for split, stages in metrics["splits"].items()
        for stage, found in stages.items()
    ]
    table = overall_table(named, ["Split", "Stage"])
    at = "raw: at thresholds of 0.5; scaled: at the thresholds chosen on validation"
    return replace(table, notes=(*table.notes, at), grouped=True)


def scaling_table(fitted: Mapping[str, Any]) -> Table:
    """Scale, bias and threshold of every label."""
    rows = tuple(
        (name, f"{scale:.3f}", f"{fitted['bias'][name]:+.3f}", f"{fitted['thresholds'][name]:.3f}", note)
        for name, scale in fitted["scale"].items()
        for note in ["too few rows: left as it is" if name in fitted["unfitted_labels"] else ""]
    )
    return Table(
        "Scaling and threshold of every label",
        (
            Column("Label", numeric=False),
            Column("Scale", "of the logit: below 1, the network was overconfident"),
            Column("Bias", "added to the logit"),
            Column("Threshold", "the label is predicted from this probability on: highest F1"),
            Column("", numeric=False),
        ),
        rows,
    )
