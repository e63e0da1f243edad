"""The state of every claim of every paper: verdict, not run yet, or untested here.

One line per claim and column. A claim that the scale `small` can test but nobody has run is `not run yet`;
one whose data or weights it does not have is `untested here`; both come with the command that would test it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calmix.reproduction.blocks import is_tested
from calmix.reproduction.outcome import JudgedEffect, Outcome, judged
from calmix.reproduction.preset import FULL, SMALL, SMOKE, Claim, Preset

NOT_RUN, UNTESTED = "not run yet", "untested here"


@dataclass(frozen=True)
class ClaimState:
    """A claim on a column, and what is known of it."""

    preset: Preset
    claim: Claim
    column: str
    state: str
    command: str
    found: JudgedEffect | None = None
    stand_in: str | None = None
    """The data set that was tested in place of the paper's."""


def claim_states(presets: Sequence[Preset], outcomes: Sequence[Outcome]) -> list[ClaimState]:
    """A line for every claim and column, in the order of the presets. The smallest scale counts for nothing:
    its numbers mean nothing."""
    states: list[ClaimState] = []
    for preset in presets:
        own = [one for one in outcomes if one.preset == preset.name and one.scale != SMOKE]
        verdicts = {outcome.scale: judged(preset, outcome) for outcome in own}
        for claim in preset.claims:
            states += [_state(preset, claim, column, own, verdicts) for column in claim.on]
    return states


def _state(
    preset: Preset,
    claim: Claim,
    column: str,
    outcomes: Sequence[Outcome],
    verdicts: dict[str, list[JudgedEffect]],
) -> ClaimState:
    for outcome in outcomes:
        for found in verdicts[outcome.scale]:
            if (found.claim.key, found.effect.column) == (claim.key, column):
                tested = outcome.data.get(column)
                stand_in = tested if tested != dataset_of(preset, column) else None
                return ClaimState(preset, claim, column, found.verdict.word, outcome.command, found, stand_in)
    if preset.analysis:
        return ClaimState(preset, claim, column, NOT_RUN, f"calmix reproduce {preset.name} --output OUT")
    small = is_tested(preset, claim, column, SMALL)
    scale = SMALL if small else FULL
    command = f"calmix reproduce {preset.name} --scale {scale} --data-dir DATA --output OUT"
    return ClaimState(preset, claim, column, NOT_RUN if small else UNTESTED, command)


def dataset_of(preset: Preset, column: str) -> str | None:
    """The paper's data set of a column; None for noise and for what needs no data."""
    if preset.analysis:
        return None
    task = preset.task_of(column)
    return task.dataset if column == task.key else task.outside.get(column)
