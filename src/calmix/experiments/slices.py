"""The slices of a comparison: the metrics of every arm for each value of a column, over its seeds.

A slice stands out for an arm where it does over its seeds: the p-values of the runs, each corrected for the
number of slices (Holm), are combined to twice their median, which holds whatever the runs have in common
(Rüger 1978), and corrected for the number of arms.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.calibration.slices import LEVEL
from calmix.experiments.results import CALIBRATED, Results
from calmix.io.run_directory import RunDirectory

MEASURED = ("accuracy", "nll", "ece", "confidence_gap")
TESTS = {"accuracy": "accuracy_p_holm", "calibration": "calibration_p_holm"}


def combined_p(values: Sequence[float], arms: int = 1) -> float:
    """min(1, 2 median(p) arms)

    >>> combined_p([0.01, 0.002, 0.3]), combined_p([0.4, 0.6], arms=3)
    (0.02, 1.0)
    """
    return min(1.0, 2.0 * statistics.median(values) * arms) if len(values) > 1 else min(1.0, values[0] * arms)


def slices_of(results: Results, store: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """One record per split, arm and value, and in words which runs are not among them: those that were
    measured without slices, or by another column."""
    column = results.config["slice"]
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name in dict.fromkeys(str(record["run"]) for record in results.runs):
        run = RunDirectory(store / name)
        splits = run.metrics()["splits"] if run.is_finished else {}
        own = {split: measured[CALIBRATED].get("slices") for split, measured in splits.items()}
        found[name] = {
            split: one for split, one in own.items() if one is not None and one["column"] == column
        }
    arms = [arm.name for arm in results.arms if results.select(arm=arm.name)]
    records = []
    for split in results.splits():
        for arm in arms:
            runs = results.select(split=split, arm=arm, stage=CALIBRATED)
            parts = [found[str(run["run"])].get(split) for run in runs]
            records += _summaries([one for one in parts if one is not None], split, arm, len(arms))
    without = sum(not own for own in found.values())
    if not without:
        return records, []
    return records, [
        f"{without} of {len(found)} runs were measured without the column {column!r} and are "
        "not among the slices; a comparison in a new directory measures them"
    ]


def _summaries(found: Sequence[Mapping[str, Any]], split: str, arm: str, arms: int) -> list[dict[str, Any]]:
    by_value: dict[str, list[Mapping[str, Any]]] = {}
    for one in found:
        for part in one["slices"]:
            by_value.setdefault(str(part["value"]), []).append(part)
    records = []
    for value, parts in by_value.items():
        record: dict[str, Any] = {
            "split": split, "arm": arm, "column": found[0]["column"], "value": value,
            "n": round(statistics.fmean(part["n"] for part in parts)), "seeds": len(parts),
        }  # fmt: skip
        for metric in MEASURED:
            values = [float(part[metric]) for part in parts]
            record[f"{metric}_mean"] = statistics.fmean(values)
            record[f"{metric}_std"] = statistics.stdev(values) if len(values) > 1 else None
        for test, key in TESTS.items():
            record[f"{test}_p"] = combined_p([float(part[key]) for part in parts], arms)
        records.append(record)
    return records


def slice_sentences(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The worst slice of every arm and split among those that stand out."""
    sentences = []
    groups = dict.fromkeys((record["split"], record["arm"]) for record in records)
    for split, arm in groups:
        own = [record for record in records if (record["split"], record["arm"]) == (split, arm)]
        rows = sum(record["n"] for record in own)
        mean = sum(record["n"] * record["accuracy_mean"] for record in own) / rows
        low = [r for r in own if r["accuracy_p"] < LEVEL and r["accuracy_mean"] < mean]
        off = [r for r in own if r["calibration_p"] < LEVEL]
        if low:
            worst = min(low, key=lambda record: float(record["accuracy_mean"]))
            sentences.append(
                f"{arm} on {split}: {worst['value']!r} is predicted worst, accuracy "
                f"{worst['accuracy_mean']:.1%} against {mean:.1%} (p = {worst['accuracy_p']:.2g})"
            )
        if off:
            worst = max(off, key=lambda record: abs(float(record["confidence_gap_mean"])))
            what = "overconfident" if worst["confidence_gap_mean"] > 0 else "underconfident"
            sentences.append(
                f"{arm} on {split}: {worst['value']!r} is calibrated worst, {what} by "
                f"{abs(worst['confidence_gap_mean']):.1%} (p = {worst['calibration_p']:.2g})"
            )
    if records and not sentences:
        sentences.append("no slice differs significantly in accuracy or calibration")
    return sentences
