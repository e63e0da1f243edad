"""The tables of a reproduction: the paper's numbers beside ours, and every claim with its verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from calmix.report.tables import Column, Table, capital, text_columns
from calmix.reproduction.outcome import POINTS, JudgedEffect, MeasuredCell, Outcome
from calmix.reproduction.preset import EQUAL, METRICS, Claim, Preset
from calmix.reproduction.state import NOT_RUN, UNTESTED, ClaimState
from calmix.reproduction.verdicts import HELD, REVERSED, UNDECIDED, WITHIN_NOISE

NOTHING = "–"
# In place of a statement that stands above.
NOTHING_NEW = ""
EFFECTS_NOTE = (
    "Effects are the claim's arm minus the arm it is compared with, in points. Intervals are at the level of "
    "Holm's step over all claims of the table: the chance of any false verdict in it is at most 5 %."
)
SPREADS = {"std": "one standard deviation", "sem": "the standard error"}


def side_by_side(preset: Preset, outcome: Outcome | None) -> list[Table]:
    """One table per metric: for every column the paper's number and ours. What neither has is left out."""
    tables = []
    for metric in preset.metrics:
        columns = [
            column for column in preset.columns if preset.analysis or metric in preset.metrics_of(column)
        ]
        whole = {
            row.title: [
                text for column in columns for text in _cell_texts(preset, outcome, row.title, column, metric)
            ]
            for row in preset.rows
        }
        shown = {title: cells for title, cells in whole.items() if set(cells) != {NOTHING}}
        kept = [
            place
            for place in range(2 * len(columns))
            if any(cells[place] != NOTHING for cells in shown.values())
        ]
        if not kept:
            continue
        headings = [
            Column(f"{preset.column_titles[column]}, {who}")
            for column in columns
            for who in ("paper", "ours")
        ]
        tables.append(
            Table(
                caption=f"{preset.place}: {METRICS[metric]}",
                columns=(Column("", numeric=False), *(headings[place] for place in kept)),
                rows=tuple((title, *(cells[place] for place in kept)) for title, cells in shown.items()),
                notes=_notes(preset, len(whole) - len(shown)),
            )
        )
    return tables


def _cell_texts(
    preset: Preset, outcome: Outcome | None, row: str, column: str, metric: str
) -> tuple[str, str]:
    """The paper's number and ours."""
    printed = preset.published.get((row, column, metric))
    measured = outcome.cell(row, column, metric) if outcome is not None else None
    return NOTHING if printed is None else str(printed), cell_text(measured, preset)


def _notes(preset: Preset, left_out: int) -> tuple[str, ...]:
    notes = [f"± is {SPREADS[preset.spread]} over runs."]
    notes += [f"{row.title} is not run: it {row.not_run}." for row in preset.rows if row.not_run]
    if left_out:
        notes.append(
            f"Left out: {left_out} rows of the paper that have no number in the text at hand and none here."
        )
    return tuple(notes)


def cell_text(cell: MeasuredCell | None, preset: Preset) -> str:
    """A mean and its spread, in points.

    >>> from types import SimpleNamespace
    >>> some = MeasuredCell("plain", "snli", "ece", 0.0254, 0.008, 4, 1000)
    >>> cell_text(some, SimpleNamespace(spread="std")), cell_text(some, SimpleNamespace(spread="sem"))
    ('2.54 ± 0.80', '2.54 ± 0.40')
    """
    if cell is None:
        return NOTHING
    if cell.metric == "setting":
        return f"{POINTS * cell.mean:g}"
    spread = cell.std
    if spread is None:
        return f"{POINTS * cell.mean:.2f}"
    if preset.spread == "sem":
        spread /= math.sqrt(cell.seeds)
    return f"{POINTS * cell.mean:.2f} ± {POINTS * spread:.2f}"


def direction_text(claim: Claim) -> str:
    return f"equal within {claim.margin:g}" if claim.direction == EQUAL else claim.direction


def effect_text(found: JudgedEffect) -> str:
    """The effect in points, with the interval at the level of its verdict."""
    numbers = (found.effect.difference, found.verdict.low, found.verdict.high)
    middle, low, high = (f"{POINTS * number:+.2f}" for number in numbers)
    return f"{middle} [{low}, {high}]"


def reported_text(claim: Claim, column: str) -> str:
    return f"{claim.reported[column]:+.2f}" if column in claim.reported else "trend"


def claims_table(preset: Preset, found: Sequence[JudgedEffect]) -> Table:
    """Every test of a report: with the noise floor of both arms and the reason of the verdict."""
    rows = []
    for one in found:
        floors = one.effect.floors
        rows.append(
            (
                one.claim.statement,
                preset.column_titles[one.effect.column],
                METRICS[one.claim.metric],
                direction_text(one.claim),
                reported_text(one.claim, one.effect.column),
                effect_text(one),
                NOTHING if floors is None else f"{POINTS * floors[0]:.2f}, {POINTS * floors[1]:.2f}",
                str(one.effect.seeds),
                one.verdict.word,
                one.verdict.reason,
            )
        )
    return Table(
        caption="The claims, and what we find",
        columns=(
            *text_columns("Claim", "On", "Metric", "Claimed"),
            Column("Paper, points"),
            Column("Ours, points [interval]"),
            Column("Noise floor, both arms"),
            Column("Seeds"),
            *text_columns("Verdict", "Because"),
        ),
        rows=tuple(rows),
        notes=(EFFECTS_NOTE,),
        grouped=True,
    )


def state_table(states: Sequence[ClaimState]) -> Table:
    """The claims of a preset, one line per column; a statement stands once, above its columns."""
    rows, before = [], None
    for state in states:
        rows.append(
            (
                NOTHING_NEW if state.claim.key == before else state.claim.statement,
                column_text(state),
                f"{METRICS[state.claim.metric]}, {direction_text(state.claim)}",
                reported_text(state.claim, state.column),
                NOTHING if state.found is None else effect_text(state.found),
                state_text(state),
            )
        )
        before = state.claim.key
    return Table(
        caption="Claims",
        columns=(
            *text_columns("Claim", "On", "Primary outcome"),
            Column("Published effect"),
            Column("Ours [interval]"),
            Column("Verdict", numeric=False),
        ),
        rows=tuple(rows),
    )


def column_text(state: ClaimState) -> str:
    """The paper's column, and what was tested in its place."""
    title = state.preset.column_titles[state.column]
    return title if state.stand_in is None else f"{title}; here {state.stand_in}"


def state_text(state: ClaimState) -> str:
    """The verdict, with its reason where it is not the interval."""
    within = state.found is not None and state.found.verdict.reason == WITHIN_NOISE
    return f"{state.state}: {WITHIN_NOISE}" if within else state.state


def count_table(states: Sequence[ClaimState], name_of: Callable[[ClaimState], str], heading: str) -> Table:
    """How many tests have which verdict, by a name that states share; the sum below."""
    words = (HELD, REVERSED, UNDECIDED, NOT_RUN, UNTESTED)
    names = list(dict.fromkeys(map(name_of, states)))
    groups = [(name, [state for state in states if name_of(state) == name]) for name in names]
    rows = [
        (
            name,
            str(len({(state.preset.name, state.claim.key) for state in members})),
            str(len(members)),
            *(str(sum(state.state == word for state in members)) for word in words),
        )
        for name, members in (*groups, ("all", list(states)))
    ]
    return Table(
        caption="Verdicts",
        columns=(
            Column(heading, numeric=False),
            Column("Claims"),
            Column("Tests"),
            *(Column(capital(word)) for word in words),
        ),
        rows=tuple(rows),
    )
