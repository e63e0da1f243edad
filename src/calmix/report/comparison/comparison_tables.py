"""The tables of a comparison, and `summary.md`.

They are made from what `calmix compare --json` prints: records of means over seeds, of paired differences
with their intervals, and of failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.io.run_directory import replacing
from calmix.report.tables import (
    IN_SAMPLE,
    IN_SAMPLE_NOTE,
    METRICS,
    WEAK_ECE_NOTE,
    Column,
    Metric,
    Table,
    capital,
    escape_markdown,
    is_wanted,
    metrics_of,
    text_columns,
)
from calmix.runtime.option_values import PERTURBED
from calmix.training.configuration import TrainConfig

STAGES = {"uncalibrated": "raw", "calibrated": "+ TS"}
# Those with paired differences.
COMPARED_METRICS = ("accuracy", "nll", "brier", "ece", "oe")
# What fits in a terminal of 80 columns.
HEADLINE_METRICS = ("accuracy", "nll", "ece")
# Named without their intervals: here the spread over seeds stands beside the mean.
TITLES = {"ece": "ECE %", "ece_noise_floor": "Noise floor %"}
SIGNIFICANT = "*"
CORRECTION = "significant at 5 % after Holm's correction for the number of arms"
BETTER_NOTE = f"{SIGNIFICANT} better than its plain + TS: the paired difference is {CORRECTION}"
SIGNIFICANT_NOTE = f"{SIGNIFICANT} {CORRECTION}; each interval is at 95 %, not corrected"
ONE_SEED_NOTE = (
    "one seed only: the intervals are over rows alone and say nothing about other seeds, so none is marked"
)
ECE_NOTE = (
    "the ECE of a small sample is biased upwards, more for the better calibrated of two: differences in ECE "
    "are underestimated"
)


def summary_tables(data: Mapping[str, Any], keys: Sequence[str] | None = None) -> list[Table]:
    """One table per split: mean ± standard deviation over seeds, before and after temperature scaling."""
    there = {key.removesuffix("_mean") for record in data["summary"] for key in record}
    shown = [
        metric
        for metric in metrics_of(there)
        if metric.key != "n" and is_wanted(metric.key, keys) and _is_there(data, metric.key)
    ]
    return [_summary_table(data, split, shown) for split in splits_of(data)]


def _summary_table(data: Mapping[str, Any], split: str, shown: Sequence[Metric]) -> Table:
    records = [record for record in data["summary"] if record["split"] == split]
    rows = []
    for record in records:
        stage = STAGES[record["stage"]] + (f" {IN_SAMPLE}" if record["in_sample"] else "")
        rows.append((record["arm"], stage, *(_mean_cell(metric, record) for metric in shown)))
    notes = []
    if any(SIGNIFICANT in cell for row in rows for cell in row[2:]):
        notes.append(BETTER_NOTE)
    if any(record["in_sample"] for record in records):
        notes.append(f"{IN_SAMPLE} {IN_SAMPLE_NOTE}")
    seeds = sorted({record["seeds"] for record in records})
    number = (
        f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}"
        if len(seeds) == 1
        else f"{seeds[0]} to {seeds[-1]} seeds"
    )
    return Table(
        caption=f"{split}: {records[0]['n']:,} rows, mean ± standard deviation over {number}",
        columns=(
            *text_columns("Method", "Stage"),
            *(Column(TITLES.get(metric.key, metric.title), metric.meaning) for metric in shown),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        grouped=True,
    )


def side_by_side_table(data: Mapping[str, Any], split: str) -> Table:
    """One row for each method: every metric raw and with temperature scaling, and the cost of a run."""
    records = {
        (record["arm"], record["stage"]): record for record in data["summary"] if record["split"] == split
    }
    shown = [metric for metric in METRICS if metric.key in COMPARED_METRICS and _is_there(data, metric.key)]
    changes = changes_classes(data)
    columns = [Column("Method", numeric=False)]
    for metric in shown:
        title = TITLES.get(metric.key, metric.title)
        if metric.key == "accuracy" and not changes:  # a temperature changes no predicted class
            columns.append(Column(title, metric.meaning))
        else:
            columns += [Column(f"{title} {words}", metric.meaning) for words in STAGES.values()]
    columns.append(Column("Seconds per run", "training and evaluation, mean over seeds"))
    rows = []
    for arm in data["arms"]:
        staged = [records.get((arm["name"], stage)) for stage in STAGES]
        if staged[0] is None or staged[1] is None:
            continue
        cells = [arm["name"]]
        for metric in shown:
            stages = staged[:1] if metric.key == "accuracy" and not changes else staged
            cells += [_mean_cell(metric, record) for record in stages if record is not None]
        rows.append((*cells, "–" if arm["seconds"] is None else f"{arm['seconds']:,.0f}"))
    marked = any(SIGNIFICANT in cell for row in rows for cell in row[1:])
    first = next(iter(records.values()))
    return Table(
        caption=f"{split}: {first['n']:,} rows, mean ± standard deviation over seeds",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(BETTER_NOTE,) if marked else (),
        sortable=True,
    )


def changes_classes(data: Mapping[str, Any]) -> bool:
    """Whether runs have a calibrator that may change predicted classes.

    >>> changes_classes({"config": {}, "arms": [{}]}), changes_classes({"config": {"calibrator": "vector"}})
    (False, True)
    """
    settings = [data.get("config", {}), *(arm.get("settings", {}) for arm in data.get("arms", ()))]
    kinds = {found.get("calibrator", TrainConfig.calibrator) for found in settings}
    return not kinds <= {TrainConfig.calibrator, PERTURBED}


def _mean_cell(metric: Metric, record: Mapping[str, Any]) -> str:
    mean, deviation = record[f"{metric.key}_mean"], record[f"{metric.key}_std"]
    if mean is None:
        return "–"
    spread = f" ± {metric.show(deviation)}" if deviation is not None else ""
    return f"{metric.show(mean)}{spread}{SIGNIFICANT if metric.key in record.get('better', ()) else ''}"


def difference_tables(data: Mapping[str, Any], reference_stage: str) -> dict[str, Table]:
    """By split: every arm minus its `plain`, uncalibrated or temperature-scaled."""
    shown = compared_metrics(data)
    tables = {split: _difference_table(data, split, reference_stage, shown) for split in splits_of(data)}
    return {split: table for split, table in tables.items() if table.rows}


def compared_metrics(data: Mapping[str, Any]) -> list[Metric]:
    """Those with differences; a comparison that was stored by an older calmix may have fewer."""
    there = {difference["metric"] for difference in data["differences"]}
    return [metric for metric in METRICS if metric.key in COMPARED_METRICS and metric.key in there]


def _difference_table(
    data: Mapping[str, Any], split: str, reference_stage: str, shown: Sequence[Metric]
) -> Table:
    rows, few = [], False
    for arm in data["arms"]:
        for stage, title in STAGES.items():
            found = differences_of(data, split, arm, stage, reference_stage)
            if found:
                few = few or any(difference["seeds"] < 2 for difference in found.values())
                rows.append(
                    (arm["name"], title, *(difference_cell(metric, found[metric.key]) for metric in shown))
                )
    notes = [SIGNIFICANT_NOTE] if any(cell.endswith(SIGNIFICANT) for row in rows for cell in row) else []
    notes += [WEAK_ECE_NOTE] if any(metric.key == "ece" for metric in shown) else []
    return Table(
        caption=f"{split}: difference to {reference_title(data, reference_stage)} [95 %]",
        columns=(
            *text_columns("Method", "Stage"),
            *(Column(f"Δ {TITLES.get(metric.key, metric.title)}", metric.meaning) for metric in shown),
        ),
        rows=tuple(rows),
        notes=(*notes, *([ONE_SEED_NOTE] if few else [])),
        grouped=True,
    )


def differences_of(
    data: Mapping[str, Any], split: str, arm: Mapping[str, Any], stage: str, reference_stage: str
) -> dict[str, Any]:
    """The differences of an arm to its reference by metric; empty where there are none."""
    wanted = (split, arm["name"], stage, arm["reference"], reference_stage)
    keys = ("split", "arm", "stage", "reference", "reference_stage")
    return {d["metric"]: d for d in data["differences"] if tuple(d[key] for key in keys) == wanted}


def difference_cell(metric: Metric, difference: Mapping[str, Any]) -> str:
    """
    >>> found = {"difference": -0.03, "low": -0.05, "high": -0.01, "significant": True}
    >>> difference_cell(Metric("nll", "NLL", ""), found)
    '−0.0300 [−0.0500, −0.0100]*'
    """
    low, high = difference["low"], difference["high"]
    text = f"{_signed(metric, difference['difference'])} [{_signed(metric, low)}, {_signed(metric, high)}]"
    return text + (SIGNIFICANT if difference["significant"] else "")


def _signed(metric: Metric, value: float) -> str:
    shown = metric.show(abs(value))
    return shown if not shown.strip("0.,") else f"{'−' if value < 0 else '+'}{shown}"


def reference_title(data: Mapping[str, Any], reference_stage: str) -> str:
    """`plain`, or how the arms' references are called where they differ."""
    names = dict.fromkeys(arm["reference"] for arm in data["arms"] if arm["reference"])
    name = next(iter(names)) if len(names) == 1 else "plain of the same settings"
    return f"{name} {STAGES[reference_stage]}"


def failure_table(data: Mapping[str, Any]) -> Table:
    return Table(
        caption="Runs that are missing; the same command tries them again",
        columns=(Column("Method", numeric=False), Column("Seed"), Column("Reason", numeric=False)),
        rows=tuple((f["arm"], str(f["seed"]), f["reason"]) for f in data["failures"]),
    )


def slice_tables(data: Mapping[str, Any]) -> list[Table]:
    """Of every split: the metrics of every arm for each value of the column, mean ± std over seeds."""
    records = data.get("slices", [])
    shown = [metric for metric in METRICS if metric.key in ("accuracy", "nll", "ece", "confidence_gap")]
    tables = []
    for split in dict.fromkeys(record["split"] for record in records):
        own = [record for record in records if record["split"] == split]
        rows = tuple(
            (record["value"], record["arm"], str(record["n"]), *(_mean_cell(one, record) for one in shown))
            for value in dict.fromkeys(record["value"] for record in own)
            for record in own
            if record["value"] == value
        )
        columns = (
            *text_columns(str(own[0]["column"]), "Method"),
            Column("n"),
            *(Column(metric.title.removesuffix(" [95 %]"), metric.meaning) for metric in shown),
        )
        tables.append(
            Table(f"{split}, temperature-scaled, by {own[0]['column']}", columns, rows, grouped=True)
        )
    return tables


def splits_of(data: Mapping[str, Any]) -> list[str]:
    """The splits, test sets first: validation has chosen the epochs and the temperatures."""
    splits = list(dict.fromkeys(record["split"] for record in data["summary"]))
    return sorted(splits, key=lambda split: split == "validation")


def _is_there(data: Mapping[str, Any], key: str) -> bool:
    return any(record.get(f"{key}_mean") is not None for record in data["summary"])


def markdown_summary(data: Mapping[str, Any]) -> str:
    """`summary.md`: the recommendation, the tables and how to read them."""
    recommendation = data["recommendation"]
    parts = ["# Comparison", recommendation["sentence"]]
    parts += ["\n".join(f"- {line}" for line in recommendation["lines"]), recommendation["choice"]]
    parts += [next_step(recommendation), *(f"Note: {note}." for note in recommendation["notes"])]
    for table in summary_tables(data, COMPARED_METRICS):
        parts += [f"## {escape_markdown(table.caption)}", table.to_markdown()]
    for stage in STAGES:
        tables = difference_tables(data, stage)
        if tables:
            parts.append(f"## Paired differences to {escape_markdown(reference_title(data, stage))}")
        for table in tables.values():
            parts += [f"**{escape_markdown(table.caption)}**", table.to_markdown()]
    if data.get("slices"):
        parts += ["## Slices", *(f"- {escape_markdown(line)}" for line in data["slice_sentences"])]
        for table in slice_tables(data):
            parts += [f"**{escape_markdown(table.caption)}**", table.to_markdown()]
    if data["failures"]:
        table = failure_table(data)
        parts += [f"## {table.caption}", table.to_markdown()]
    notes = [BETTER_NOTE, SIGNIFICANT_NOTE, ECE_NOTE, WEAK_ECE_NOTE]
    parts += ["## How to read this", *(f"- {escape_markdown(capital(note))}." for note in notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def next_step(recommendation: Mapping[str, Any]) -> str:
    """What would tell, without the paths of this place: the file is read elsewhere.

    >>> next_step({"next_step": "About 3 seeds would tell.", "next_seeds": (0, 1, 2)})
    'About 3 seeds would tell: the same command with `--seeds 0,1,2`.'
    """
    if not recommendation["next_seeds"]:
        return str(recommendation["next_step"])
    seeds = ",".join(map(str, recommendation["next_seeds"]))
    return f"{recommendation['next_step'].rstrip('.')}: the same command with `--seeds {seeds}`."


def write_markdown_summary(data: Mapping[str, Any], path: Path) -> Path:
    with replacing(path) as fresh:
        fresh.write_text(markdown_summary(data), encoding="utf-8")
    return path
