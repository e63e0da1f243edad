"""The paired differences of a comparison: every arm against `plain`, and against `plain` + temperature."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from calmix.calibration.binning import Edges
from calmix.calibration.run_predictions import predictions_of_run
from calmix.experiments.bootstrap import (
    REPETITIONS,
    Resampled,
    RowScores,
    paired_difference,
    resample,
)
from calmix.experiments.cell import Cell
from calmix.experiments.grid import Arm, reference_of
from calmix.experiments.results import STAGES, Results
from calmix.experiments.store import RunStore
from calmix.experiments.summary import CONTESTED, best_of, summarise

# (arm, stage, reference arm, reference stage)
Pair = tuple[str, str, str, str]


def find_differences(
    store: RunStore,
    cells: Sequence[Cell],
    results: Results,
    *,
    bins: int,
    edges: Edges,
    repetitions: int = REPETITIONS,
) -> list[dict[str, Any]]:
    """Bootstrap every split and measure the pairs that tables, marks and recommendation need."""
    summary = summarise(results)
    finished = [cell for cell in cells if store.is_finished(cell.fingerprint)]
    contest = contestants(results.arms, summary)
    records = []
    for split in results.splits():
        samples = _resample_split(store, finished, split, bins, edges, repetitions)
        here = [record for record in summary if record["split"] == split]
        for pair in pairs(results.arms, here, contest):
            ours, theirs = samples[pair[0], pair[1]], samples[pair[2], pair[3]]
            if not ours.keys() & theirs.keys():
                continue
            for metric, found in paired_difference(ours, theirs).items():
                named = dict(zip(("arm", "stage", "reference", "reference_stage"), pair, strict=True))
                records.append({"split": split, **named, "metric": metric, **dataclasses.asdict(found)})
    return records


def _resample_split(
    store: RunStore, cells: Sequence[Cell], split: str, bins: int, edges: Edges, repetitions: int
) -> dict[tuple[str, str], dict[int, Resampled]]:
    """By arm and stage, then by seed."""
    keys, scores = [], []
    for cell in cells:
        run = store.run(cell.fingerprint)
        for stage in STAGES:
            predictions = predictions_of_run(run, split, calibrated=stage == "calibrated")
            keys.append((cell.arm.name, stage, cell.seed))
            scores.append(RowScores.of(predictions, bins=bins, edges=edges))
    samples: dict[tuple[str, str], dict[int, Resampled]] = {}
    for (arm, stage, seed), sample in zip(keys, resample(scores, repetitions=repetitions), strict=True):
        samples.setdefault((arm, stage), {})[seed] = sample
    return samples


def pairs(
    arms: Sequence[Arm], summary: Sequence[dict[str, Any]], contest: tuple[Arm | None, Arm | None]
) -> list[Pair]:
    """Which arms and stages of one split are compared with which.

    Every arm with its `plain` before and after temperature scaling; every arm with the best of each metric;
    and the two that the recommendation is about.
    """
    there = [(record["arm"], record["stage"]) for record in summary]
    wanted: list[Pair] = []
    for arm in arms:
        reference = reference_of(arm, arms)
        if reference is not None:
            wanted += [(arm.name, a, reference.name, b) for a in STAGES for b in STAGES]
    for metric in CONTESTED:
        best = best_of(summary, metric)
        wanted += [(arm, stage, best["arm"], best["stage"]) for arm, stage in there]
    baseline, contender = contest
    if baseline is not None and contender is not None:
        wanted.append((contender.name, "calibrated", baseline.name, "calibrated"))
    return [
        pair
        for pair in dict.fromkeys(wanted)
        if pair[:2] != pair[2:] and pair[:2] in there and pair[2:] in there
    ]


def contestants(arms: Sequence[Arm], summary: Sequence[dict[str, Any]]) -> tuple[Arm | None, Arm | None]:
    """The baseline and the arm that challenges it, each the best of its kind on validation.

    Best means the lowest mean NLL after temperature scaling; test sets have no part in it. The baseline is a
    `plain` arm; the challenger any other, a `plain` arm with other settings only if there is nothing else.
    """
    nll = {
        record["arm"]: record["nll_mean"]
        for record in summary
        if record["split"] == "validation" and record["stage"] == "calibrated"
    }
    there = [arm for arm in arms if arm.name in nll]
    plain = [arm for arm in there if arm.is_plain] or [
        arm for arm in there if arm.method == "plain" and not arm.is_taught
    ]
    baseline = min(plain, key=lambda arm: nll[arm.name], default=None)
    others = [arm for arm in there if arm not in plain] or [arm for arm in plain if arm is not baseline]
    return baseline, min(others, key=lambda arm: nll[arm.name], default=None)
