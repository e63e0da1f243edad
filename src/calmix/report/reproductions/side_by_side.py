"""The tables of a reproduction: the paper's numbers beside ours, and every claim with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calmix.report.tables import Column, Table
from calmix.reproduction.outcome import POINTS, JudgedEffect, MeasuredCell, Outcome
from calmix.reproduction.preset import EQUAL, METRICS, Claim, Preset
from calmix.reproduction.state import ClaimState

NOTHING = "–"
SPREADS = {"std": "one standard deviation", "sem": "the standard error"}


def side_by_side(preset: Preset, outcome: Outcome | None) -> list[Table]:
    """One table per metric: for every column the paper's number and ours."""
    tables = []
    for metric in preset.metrics:
        columns = [
            column for column in preset.columns if preset.analysis or metric in preset.metrics_of(column)
        ]
        if not columns:
            continue
        headings = [
            Column(f"{preset.column_titles[column]}, {who}")
            for column in columns
            for who in ("paper", "ours")
        ]
        rows = []
        for row in preset.rows:
            cells = [row.title]
            for column in columns:
                printed = preset.published.get((row.title, column, metric))
                measured = outcome.cell(row.title, column, metric) if outcome is not None else None
                cells += [NOTHING if printed is None else str(printed), cell_text(measured, preset)]
            rows.append(tuple(cells))
        tables.append(
            Table(
                caption=f"{preset.place}: {METRICS[metric]}",
                columns=(Column("", numeric=False), *headings),
                rows=tuple(rows),
                notes=(
                    f"± is {SPREADS[preset.spread]} over runs; – is a number that was not printed or not "
                    "measured.",
                ),
            )
        )
    return tables


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
            Column("Claim", numeric=False),
            Column("On", numeric=False),
            Column("Metric", numeric=False),
            Column("Claimed", numeric=False),
            Column("Paper, points"),
            Column("Ours, points [interval]"),
            Column("Noise floor, both arms"),
            Column("Seeds"),
            Column("Verdict", numeric=False),
            Column("Because", numeric=False),
        ),
        rows=tuple(rows),
        notes=(
            "Effects are the claim's arm minus the arm it is compared with. Intervals are at the level of "
            "Holm's step over all claims of the table: the chance of any false verdict in it is at most 5 %.",
        ),
    )


def state_table(states: Sequence[ClaimState], *, with_paper: bool = True) -> Table:
    """One line per claim and column."""
    rows = []
    for state in states:
        found = state.found
        paper = (state.preset.paper,) if with_paper else ()
        rows.append(
            (
                *paper,
                state.preset.place,
                state.claim.statement,
                state.preset.column_titles[state.column],
                f"{METRICS[state.claim.metric]}, {direction_text(state.claim)}",
                reported_text(state.claim, state.column),
                NOTHING if found is None else effect_text(found),
                state.state if state.scale is None else f"{state.state} ({state.scale})",
                state.command,
            )
        )
    return Table(
        caption="All claims",
        columns=(
            *((Column("Paper", numeric=False),) if with_paper else ()),
            Column("Place", numeric=False),
            Column("Claim", numeric=False),
            Column("On", numeric=False),
            Column("Primary outcome", numeric=False),
            Column("Published effect"),
            Column("Ours [interval]"),
            Column("Verdict", numeric=False),
            Column("Command", numeric=False),
        ),
        rows=tuple(rows),
    )
