"""Which two arms of a comparison the recommendation is about, and which have not learned at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calmix.experiments.grid import Arm
from calmix.experiments.results import CALIBRATED, VALIDATION, Results


def contestants(arms: Sequence[Arm], summary: Sequence[Mapping[str, Any]]) -> tuple[Arm | None, Arm | None]:
    """The baseline and the arm that challenges it, each the best of its kind on validation.

    Best means the lowest mean NLL after temperature scaling; test sets have no part in it. The baseline is a
    `plain` arm; the challenger any other, a `plain` arm with other settings only if there is nothing else.
    """
    nll = {
        record["arm"]: record["nll_mean"]
        for record in summary
        if record["split"] == VALIDATION and record["stage"] == CALIBRATED
    }
    there = [arm for arm in arms if arm.name in nll]
    plain = [arm for arm in there if arm.is_plain] or [
        arm for arm in there if arm.method == "plain" and not arm.is_taught
    ]
    baseline = min(plain, key=lambda arm: nll[arm.name], default=None)
    others = [arm for arm in there if arm not in plain] or [arm for arm in plain if arm is not baseline]
    return baseline, min(others, key=lambda arm: nll[arm.name], default=None)


@dataclass(frozen=True)
class Unlearned:
    """The runs that have not learned (`training.learning`)."""

    arms: frozenset[str]
    """Arms of which half of the runs or more have not: they have nothing to be compared by."""
    lines: tuple[str, ...]
    advice: str
    """What to change, from the first such run."""
    notes: tuple[str, ...] = ()
    """About runs that have learned: some may have been stopped early."""


def unlearned_runs(results: Results) -> Unlearned:
    """Which runs were judged, and found not to have learned; runs of earlier versions were not judged."""
    arms, lines, advice = set(), [], ""
    stopped: dict[str, list[dict[str, Any]]] = {}
    for arm in results.arms:
        runs = results.select(split=VALIDATION, stage=CALIBRATED, arm=arm.name)
        failed = [run for run in runs if run.get("learned") is False]
        if early := [run for run in runs if run.get("learned") and run.get("learning_finding")]:
            stopped[arm.name] = early
        if not failed:
            continue
        if 2 * len(failed) >= len(runs):
            arms.add(arm.name)
        advice = advice or failed[0].get("learning_advice", "")
        have = "has" if len(failed) == 1 else "have"
        lines.append(
            f"`{arm.name}`: {len(failed)} of {len(runs)} {'run' if len(runs) == 1 else 'runs'} {have} not "
            f"learned; {failed[0].get('learning_finding', 'see its report')}"
        )
    return Unlearned(frozenset(arms), tuple(lines), advice, _stopped_early(stopped))


def _stopped_early(stopped: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[str, ...]:
    """One line for all arms: the advice stands, but a longer training may change it."""
    runs = [run for early in stopped.values() for run in early]
    if not runs:
        return ()
    names = ", ".join(f"`{name}`" for name in stopped)
    return (
        f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} ({names}) may have been stopped early; in the "
        f"first, {runs[0]['learning_finding']}. {str(runs[0]['learning_advice']).removesuffix('.')}",
    )
