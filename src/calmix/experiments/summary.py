"""Mean and standard deviation over seeds, and which arms are best.

An arm is marked best in a metric of a split if its mean is the best, or if its paired difference to the
best cannot be told from 0 (the 95 % interval holds 0). Where that is true of all, none is marked: nothing was
found.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calmix.experiments.results import STAGES, Results
from calmix.run import replacing

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
        mark_best([record for record in summary if record["split"] == split], results.differences)
    return summary


def _summary_of(runs: Sequence[dict[str, Any]], metrics: Sequence[str]) -> dict[str, Any]:
    first = runs[0]
    record: dict[str, Any] = {
        name: first[name] for name in ("split", "arm", "stage", "method", "options", "n")
    }
    record |= {"in_sample": first["in_sample"], "seeds": len(runs), "best": []}
    for metric in metrics:
        values = [run[metric] for run in runs if run.get(metric) is not None]
        record[f"{metric}_mean"] = statistics.fmean(values) if values else None
        record[f"{metric}_std"] = statistics.stdev(values) if len(values) > 1 else None
    return record


def best_of(records: Sequence[dict[str, Any]], metric: str) -> dict[str, Any]:
    """The record with the best mean, the first of equals."""
    sign = -1 if metric in HIGHER_IS_BETTER else 1
    return min(records, key=lambda record: sign * record[f"{metric}_mean"])


def mark_best(records: Sequence[dict[str, Any]], differences: Sequence[dict[str, Any]]) -> None:
    """Put the metrics in which each record is best into its `best`."""
    if not records:
        return
    found = {
        (d["split"], d["metric"], d["arm"], d["stage"], d["reference"], d["reference_stage"]): d
        for d in differences
    }
    for metric in CONTESTED:
        best = best_of(records, metric)
        equal = []
        for record in records:
            pair = (record["arm"], record["stage"], best["arm"], best["stage"])
            difference = found.get((record["split"], metric, *pair))
            if record is best or (difference and difference["low"] <= 0 <= difference["high"]):
                equal.append(record)
        if len(equal) < len(records):
            for record in equal:
                record["best"].append(metric)


def write_summary(summary: Sequence[dict[str, Any]], metrics: Sequence[str], path: Path) -> Path:
    """`summary.csv`: what each arm reached; fractions, not percentages."""
    names = ["split", "method", "arm", "stage", "in_sample", "seeds", "n"]
    titles = [*names, *(f"{metric}_{kind}" for metric in metrics for kind in ("mean", "std"))]
    with replacing(path) as fresh, fresh.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*titles, *(f"{metric}_best" for metric in CONTESTED)])
        for record in summary:
            values = ["" if record[title] is None else record[title] for title in titles]
            writer.writerow([*values, *(metric in record["best"] for metric in CONTESTED)])
    return path
