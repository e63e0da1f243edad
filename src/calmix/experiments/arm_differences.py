"""The paired differences of a comparison: every arm against `plain`, and against `plain` + TS."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.binning import Closed
from calmix.experiments.bootstrap import (
    Resampled,
    RowScores,
    paired_difference,
    resample,
)
from calmix.experiments.cell import Cell
from calmix.experiments.contestants import contestants, unlearned_runs
from calmix.experiments.grid import Arm, reference_of
from calmix.experiments.results import CALIBRATED, STAGES, Results
from calmix.experiments.summary import summarise
from calmix.training.pipeline.run_store import RunStore

# (arm, stage, reference arm, reference stage)
Pair = tuple[str, str, str, str]


def find_differences(
    store: RunStore,
    cells: Sequence[Cell],
    results: Results,
    *,
    bins: int,
    closed: Closed,
) -> list[dict[str, Any]]:
    """Bootstrap every split and measure the pairs that tables and recommendation need."""
    summary = summarise(results)
    finished = [cell for cell in cells if store.is_finished(cell.fingerprint)]
    unlearned = unlearned_runs(results).arms
    baseline, _ = contestants([arm for arm in results.arms if arm.name not in unlearned], summary)
    records = []
    for split in results.splits():
        samples = _resample_split(store, finished, split, bins, closed)
        there = {record["arm"] for record in summary if record["split"] == split}
        for pair in pairs(results.arms, there, baseline):
            ours, theirs = samples[pair[0], pair[1]], samples[pair[2], pair[3]]
            if not ours.keys() & theirs.keys():
                continue
            for metric, found in paired_difference(ours, theirs).items():
                named = dict(zip(("arm", "stage", "reference", "reference_stage"), pair, strict=True))
                records.append({"split": split, **named, "metric": metric, **dataclasses.asdict(found)})
    return records


def _resample_split(
    store: RunStore, cells: Sequence[Cell], split: str, bins: int, closed: Closed
) -> dict[tuple[str, str], dict[int, Resampled]]:
    """By arm and stage, then by seed."""
    keys, scores = [], []
    for cell in cells:
        run = store.run(cell.fingerprint)
        for stage in STAGES:
            predictions = predictions_of_run(run, split, calibrated=stage == "calibrated")
            keys.append((cell.arm.name, stage, cell.seed))
            scores.append(RowScores.of(predictions, bins=bins, closed=closed))
    samples: dict[tuple[str, str], dict[int, Resampled]] = {}
    for (arm, stage, seed), sample in zip(keys, resample(scores), strict=True):
        samples.setdefault((arm, stage), {})[seed] = sample
    return samples


def pairs(arms: Sequence[Arm], there: Collection[str], baseline: Arm | None) -> list[Pair]:
    """Which arms and stages are compared with which, of the arms that are there.

    Every arm with its `plain` before and after temperature scaling; and every arm, calibrated, with the
    calibrated baseline of the recommendation, which corrects for the number of arms.
    """
    wanted: list[Pair] = []
    for arm in arms:
        reference = reference_of(arm, arms)
        if reference is not None:
            wanted += [(arm.name, a, reference.name, b) for a in STAGES for b in STAGES]
        if baseline is not None:
            wanted.append((arm.name, CALIBRATED, baseline.name, CALIBRATED))
    return [
        pair
        for pair in dict.fromkeys(wanted)
        if pair[:2] != pair[2:] and pair[0] in there and pair[2] in there
    ]
