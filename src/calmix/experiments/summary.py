"""Mean, standard deviation and standard error over seeds; which arms are better than `plain` + TS.

An arm is marked in a metric of a split if its paired difference to its `plain` + TS is in its favour
and significant at 5 %, corrected for the number of arms (`significance`).
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.experiments.results import CALIBRATED, STAGES, Results
from calmix.io.run_directory import replacing
from calmix.io.spreadsheet import safe_cell

# Not the overconfidence error: a model that doubts everything has none.
CONTESTED = ("accuracy", "nll", "brier", "ece")
HIGHER_IS_BETTER = {"accuracy"}


def summarise(results: Results) -> list[dict[str, Any]]:
    """One record per split, arm and stage, in the order of the comparison."""
    metrics = results.metrics()
    summary = []
    for split in results.splits():
        for arm in results.arms:
            for stage in STAGES:
                runs = results.select(split=split, arm=arm.name, stage=stage)
                if runs:
                    summary.append(_summary_of(runs, metrics))
    return summary


def _summary_of(runs: Sequence[dict[str, Any]], metrics: Sequence[str]) -> dict[str, Any]:
    first = runs[0]
    record: dict[str, Any] = {
        name: first[name] for name in ("split", "arm", "stage", "method", "options", "n")
    }
    record |= {"in_sample": first["in_sample"], "seeds": len(runs), "better": []}
    for metric in metrics:
        values = [run[metric] for run in runs if run.get(metric) is not None]
        record[f"{metric}_mean"] = statistics.fmean(values) if values else None
        deviation = statistics.stdev(values) if len(values) > 1 else None
        record[f"{metric}_std"] = deviation
        record[f"{metric}_se"] = None if deviation is None else deviation / math.sqrt(len(values))
    return record


def mark_better(records: Sequence[dict[str, Any]], differences: Sequence[Mapping[str, Any]]) -> None:
    """Put the metrics in which each record beats its `plain` + TS into its `better`.

    `differences` are those of `significance.with_significance`.
    """
    found = {(record["split"], record["arm"], record["stage"]): record["better"] for record in records}
    for difference in differences:
        metric = difference["metric"]
        if metric not in CONTESTED or difference["reference_stage"] != CALIBRATED:
            continue
        gain = difference["difference"] * (1 if metric in HIGHER_IS_BETTER else -1)
        if difference["significant"] and gain > 0:
            found[difference["split"], difference["arm"], difference["stage"]].append(metric)


def write_summary(summary: Sequence[dict[str, Any]], metrics: Sequence[str], path: Path) -> Path:
    """`summary.csv`: what each arm reached; fractions, not percentages."""
    names = ["split", "method", "arm", "stage", "in_sample", "seeds", "n"]
    titles = [*names, *(f"{metric}_{kind}" for metric in metrics for kind in ("mean", "std", "se"))]
    with replacing(path) as fresh, fresh.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*titles, *(f"{metric}_better" for metric in CONTESTED)])
        for record in summary:
            values = ["" if record[title] is None else record[title] for title in titles]
            values = [safe_cell(value) if isinstance(value, str) else value for value in values]
            writer.writerow([*values, *(metric in record["better"] for metric in CONTESTED)])
    return path
