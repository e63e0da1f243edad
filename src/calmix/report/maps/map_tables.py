"""The tables that `calmix map` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.report.tables import Column, Table, text_columns

CLASSES_SHOWN = 5
SHORTEST_TEXT = 24
SUSPECT_COLUMNS = {
    "row_id": Column("Row", numeric=False),
    "label": Column("Label", numeric=False),
    "predicted_label": Column("Predicted", numeric=False),
    "aum": Column("AUM"),
    "score": Column("Score", "share of the threshold samples with a lower AUM"),
    "text": Column("Text", numeric=False),
}


def region_table(summary: Mapping[str, Any], class_names: Sequence[str]) -> Table:
    """Size and classes of every region, for the content of `map_summary.summarise_map`."""
    rows = []
    kinds = (("partition", "partition"), ("sets", "top fractions"), ("median_split", "median AUM"))
    for key, title in kinds:
        part = summary[key]
        if part is None:
            continue
        for name, size in part["sizes"].items():
            classes = class_shares(part["class_balance"][name], class_names)
            rows.append((title, name, f"{size:,}", _percent(size, summary["scored"]), classes))
    everything = class_shares(summary["class_counts"], class_names)
    rows.append(("all", "", f"{summary['rows']:,}", "", everything))
    return Table(
        caption="Regions of the data map",
        columns=(
            *text_columns("Rule", "Region"),
            Column("Rows"),
            Column("%"),
            Column("Classes", numeric=False),
        ),
        rows=tuple(rows),
        notes=tuple(_notes(summary)),
        grouped=True,
    )


def _notes(summary: Mapping[str, Any]) -> list[str]:
    notes = []
    if summary["sets"] is not None:
        overlap = summary["sets"]["overlap"]
        shared = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in overlap.items())
        notes.append(f"top fractions may overlap: {shared}")
    if summary["median_split"] is not None:
        notes.append(f"median AUM {summary['median_split']['median']:.3f}")
    return notes


def suspect_table(suspects: Sequence[Mapping[str, Any]], caption: str, width: int = 100) -> Table:
    """The first rows of `suspects.csv`, their texts cut so that a row fits in `width` characters."""
    present = [key for key in SUSPECT_COLUMNS if any(suspect.get(key) is not None for suspect in suspects)]
    rows = [[_cell(suspect[key]) for key in present] for suspect in suspects]
    columns = [SUSPECT_COLUMNS[key] for key in present]
    if present and present[-1] == "text":
        others = [
            max(len(column.title), *(len(row[place]) for row in rows))
            for place, column in enumerate(columns[:-1])
        ]
        blanks = 2 * len(columns) + 1  # between the columns and at the edges
        room = max(width - sum(others) - blanks, SHORTEST_TEXT)
        for row in rows:
            row[-1] = _cut(row[-1], room)
    return Table(caption=caption, columns=tuple(columns), rows=tuple(map(tuple, rows)))


def wrong_labels_line(estimate: Mapping[str, Any] | None) -> str:
    """How many labels are wrong, for the content of `label_estimate.LabelEstimate`.

    >>> wrong_labels_line({"rows": 2000, "count": 190, "low": 150, "high": 236})
    'wrong labels: about 190 of 2,000 (95 % interval 150 to 236); this says how many, not which'
    """
    if estimate is None:
        return "wrong labels: no estimate; it needs the predicted classes of 200 rows or more"
    return (
        f"wrong labels: about {estimate['count']:,} of {estimate['rows']:,} (95 % interval "
        f"{estimate['low']:,} to {estimate['high']:,}); this says how many, not which"
    )


def class_shares(counts: Sequence[int], class_names: Sequence[str]) -> str:
    """The classes of a region, the largest first.

    >>> class_shares([30, 10], ("no", "yes"))
    'no 75 %, yes 25 %'
    >>> class_shares([1, 1, 1, 1, 1, 5], ())
    '5 50 %, 0 10 %, 1 10 %, 2 10 %, 3 10 %, 1 more'
    """
    total = sum(counts)
    if not total:
        return "–"
    order = sorted(range(len(counts)), key=lambda one: -counts[one])
    names = [class_names[one] if class_names else str(one) for one in order]
    shown = [f"{name} {_percent(counts[one], total)} %" for name, one in zip(names, order, strict=True)]
    rest = len(shown) - CLASSES_SHOWN
    return ", ".join([*shown[:CLASSES_SHOWN], *([f"{rest} more"] if rest > 0 else [])])


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}"


def _cell(value: Any) -> str:
    """
    >>> _cell(0.12345), _cell(None), _cell("two\\nlines")
    ('0.123', '–', 'two lines')
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else " ".join(str(value).split())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
