"""The tables of `calmix evaluate`: files side by side, and their paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.report.tables import (
    IN_SAMPLE,
    IN_SAMPLE_NOTE,
    METRICS,
    OUTSIDE,
    OUTSIDE_NOTE,
    WEAK_ECE_NOTE,
    WITHIN_NOISE,
    WITHIN_NOISE_NOTE,
    Column,
    Table,
    ece_marks,
    ece_text,
    is_wanted,
    metrics_of,
    text_columns,
)

# What the title of the ECE says beside its name.
INTERVAL = " [95 %]"
OUTSIDE_DIFFERENCE_NOTE = (
    "difference outside its interval: sampling noise inflates calibration errors, and the interval corrects "
    "for it"
)

SLICES_WITH_FIT = "intervals include the uncertainty of the fit of the calibrator"


def file_table(files: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Table:
    """A row for every file; the metrics of `keys` that were measured."""
    shown = [
        metric for metric in metrics_of(files[0]) if metric.key in files[0] and is_wanted(metric.key, keys)
    ]
    has_intervals = "ece_ci" in files[0]
    titles = [metric.title if has_intervals else metric.title.removesuffix(INTERVAL) for metric in shown]
    rows = []
    for one in files:
        cells = {metric.key: metric.show(one[metric.key]) for metric in shown}
        if "ece" in cells:
            cells["ece"] = " ".join([ece_text(one), *(ece_marks(one) if has_intervals else ())])
        if "ece_noise_floor" in cells:
            cells["ece_noise_floor"] += f" ({100 * one['ece_noise_floor_p95']:.2f})"
        rows.append((one["file"] + (f" {IN_SAMPLE}" if one.get("in_sample") else ""), *cells.values()))
    marks = {WITHIN_NOISE: WITHIN_NOISE_NOTE, OUTSIDE: OUTSIDE_NOTE, IN_SAMPLE: IN_SAMPLE_NOTE}
    # A name may hold such a character too.
    text = "".join(cell for _, *cells in rows for cell in cells)
    text += IN_SAMPLE if any(one.get("in_sample") for one in files) else ""
    first = files[0]
    return Table(
        caption=f"{first['notion']}, {first['bins']} bins, closed on the {first['closed']}",
        columns=(
            Column("File", numeric=False),
            *(Column(title, metric.meaning) for title, metric in zip(titles, shown, strict=True)),
        ),
        rows=tuple(rows),
        notes=tuple(f"{mark} {note}" for mark, note in marks.items() if mark in text),
    )


def slice_table(sliced: Mapping[str, Any]) -> Table:
    """A row for every value of a column, the largest slice first."""
    keys = ("n", "accuracy", "nll", "ece")
    shown = [metric for metric in METRICS if metric.key in keys]
    has_intervals = "ece_ci" in sliced["slices"][0]
    rows = tuple(
        (
            str(one["value"]),
            *(
                ece_text(one) if metric.key == "ece" and has_intervals else metric.show(one[metric.key])
                for metric in shown
            ),
            f"{100 * one['confidence_gap']:+.1f}",
        )
        for one in sliced["slices"]
    )
    return Table(
        caption=f"{sliced['file']}, by {sliced['column']}",
        columns=(
            Column(str(sliced["column"]), numeric=False),
            *(
                Column(metric.title if has_intervals else metric.title.removesuffix(INTERVAL), metric.meaning)
                for metric in shown
            ),
            Column("Gap", "mean confidence minus accuracy, in points: above 0 is overconfident"),
        ),
        rows=rows,
        notes=(SLICES_WITH_FIT,) if sliced["slices"][0].get("ci_includes_fit") else (),
    )


def exported_table(splits: Mapping[str, Any]) -> Table:
    """Every split before and after exporting, with the paired difference of every metric."""
    shown = [metric for metric in METRICS if metric.key in ("accuracy", "nll", "ece")]
    rows = []
    for name, found in splits.items():
        for metric in shown:
            difference = found["differences"][metric.key]
            limits = ", ".join(metric.show(limit) for limit in difference["ci"])
            rows.append(
                (
                    name,
                    metric.title.removesuffix(INTERVAL),
                    metric.show(found["before"][metric.key]),
                    metric.show(found["after"][metric.key]),
                    f"{metric.show(difference['difference'])} [{limits}]",
                )
            )
    return Table(
        caption="Exported model beside the run's, on the run's own rows",
        columns=(
            *text_columns("Split", "Metric"),
            Column("Run"),
            Column("Exported"),
            Column("Difference", "exported minus run, with its paired 95 % interval"),
        ),
        rows=tuple(rows),
    )


def difference_table(differences: Sequence[Mapping[str, Any]]) -> Table:
    """A row for every pair of files and metric."""
    metrics = {metric.key: metric for metric in METRICS}
    rows = []
    for found in differences:
        metric = metrics[found["metric"]]
        limits = found["ci"]
        interval = "" if limits is None else f"[{', '.join(metric.show(limit) for limit in limits)}]"
        # An interval that does not hold 0 tells the two apart.
        apart = limits is not None and not limits[0] <= 0 <= limits[1]
        pair = f"{found['first']} − {found['second']}"
        title = metric.title.removesuffix(INTERVAL)
        # As shown: a last digit that rounding moved is no contradiction.
        shown = [round(metric.scale * value, metric.decimals) for value in (limits or ())]
        difference = round(metric.scale * found["difference"], metric.decimals)
        outside = bool(shown) and not shown[0] <= difference <= shown[1]
        marks = ("*" if apart else "") + (OUTSIDE if outside else "")
        rows.append((pair, title, metric.show(found["difference"]), interval, marks))
    weak = any("ece" in found["metric"] for found in differences)
    notes = {"*": "* the interval excludes 0", OUTSIDE: f"{OUTSIDE} {OUTSIDE_DIFFERENCE_NOTE}"}
    return Table(
        caption="Paired differences (first − second, same rows)",
        columns=(
            *text_columns("Pair", "Metric"),
            Column("Difference"),
            Column("95 %"),
            Column("", numeric=False),
        ),
        rows=tuple(rows),
        notes=(
            *(note for mark, note in notes.items() if any(mark in row[-1] for row in rows)),
            *([WEAK_ECE_NOTE] if weak else []),
        ),
        grouped=True,
    )
