"""What a reproduction found, as one JSON file that everything is rendered from.

OUT/<paper>/<place>-<scale>.json holds the cells of the table, the effects of the claims with their variances,
and the losses of every epoch. Verdicts are not in it: they follow from the effects by `verdicts`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calmix.experiments.significance import Spread
from calmix.io.run_directory import write_json
from calmix.reproduction.blocks import is_tested
from calmix.reproduction.catalogue import find_preset, preset_names
from calmix.reproduction.preset import SCALES, Claim, Preset
from calmix.reproduction.verdicts import Evidence, Verdict, judge_all
from calmix.user_error import UserError, argument

FORMAT = "calmix reproduction 1"
POINTS = 100


@dataclass(frozen=True)
class MeasuredCell:
    """A number of our table; fractions, not percentages."""

    row: str
    column: str
    metric: str
    mean: float
    std: float | None
    seeds: int
    n: int
    floor: float | None = None
    """The 95th percentile of what a perfectly calibrated model would show, for the ECE."""


@dataclass(frozen=True)
class MeasuredEffect:
    """The effect of a claim on a column."""

    claim: str
    column: str
    difference: float
    rows_variance: float
    seeds_variance: float
    seeds: int
    values: tuple[float, float]
    floors: tuple[float, float] | None = None

    def evidence(self, claim: Claim) -> Evidence:
        return Evidence(
            Spread(self.difference, self.rows_variance, self.seeds_variance, self.seeds),
            claim.direction,
            None if claim.margin is None else claim.margin / POINTS,
            self.values,
            self.floors,
        )


@dataclass(frozen=True)
class Regime:
    """Losses of every epoch, mean over seeds: whether an arm was trained beyond its best epoch."""

    model: str
    task: str
    arm: str
    epochs: list[dict[str, float]]
    kept: list[float]
    """The epoch that every seed kept."""


@dataclass(frozen=True)
class Outcome:
    """A preset at a scale."""

    preset: str
    scale: str
    command: str
    version: str
    cells: list[MeasuredCell] = field(default_factory=list)
    effects: list[MeasuredEffect] = field(default_factory=list)
    regimes: list[Regime] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    """The data set behind every column."""
    seconds: float = 0.0
    """Of training, all runs together."""
    finished: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def cell(self, row: str, column: str, metric: str) -> MeasuredCell | None:
        wanted = (row, column, metric)
        return next((c for c in self.cells if (c.row, c.column, c.metric) == wanted), None)

    def write(self, directory: Path) -> Path:
        file = outcome_file(directory, self.preset, self.scale)
        write_json(file, {"format": FORMAT, **dataclasses.asdict(self)})
        return file

    @classmethod
    def read(cls, file: Path) -> Outcome:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            effects = [
                MeasuredEffect(
                    **{
                        **effect,
                        "values": tuple(effect["values"]),
                        "floors": tuple(effect["floors"]) if effect["floors"] else None,
                    }
                )
                for effect in content.pop("effects")
            ]
            return cls(
                **{
                    **content,
                    "cells": [MeasuredCell(**cell) for cell in content["cells"]],
                    "effects": effects,
                    "regimes": [Regime(**regime) for regime in content["regimes"]],
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError("not written by calmix reproduce", file=file) from error


@dataclass(frozen=True)
class JudgedEffect:
    """A claim on a column, with what was found."""

    claim: Claim
    effect: MeasuredEffect
    verdict: Verdict


def outcome_file(directory: Path, preset: str, scale: str) -> Path:
    return directory / f"{preset}-{scale}.json"


def find_outcomes(directory: Path) -> list[Outcome]:
    """All outcomes under a directory, in the order of the papers; the largest scale of a preset first."""
    if not directory.is_dir():
        raise UserError(
            "no such directory", file=directory, remedy=f"give the {argument('output')} of a reproduction"
        )
    found = []
    for file in (file for scale in SCALES for file in sorted(directory.glob(f"*/*-{scale}.json"))):
        outcome = Outcome.read(file)
        if outcome_file(directory, outcome.preset, outcome.scale) != file:  # pages go where the names say
            raise UserError(
                f"the outcome of {outcome.preset!r} at {outcome.scale!r} is in the file of another",
                file=file,
                remedy="restore it, or run the reproduction again",
            )
        found.append(outcome)
    order = {name: place for place, name in enumerate(preset_names())}
    return sorted(found, key=lambda one: (order.get(one.preset, len(order)), SCALES.index(one.scale)))


def preset_of(outcome: Outcome, directory: Path) -> Preset:
    """The preset of an outcome: one that comes with calmix, or the copy beside a user's own."""
    if outcome.preset in preset_names():
        return find_preset(outcome.preset)
    from calmix.reproduction.loading import load_preset

    return load_preset(directory / f"{outcome.preset}.yaml", outcome.preset)


def judged(preset: Preset, outcome: Outcome) -> list[JudgedEffect]:
    """The effects with their verdicts, in the order of the claims; corrected for the number of all tests of
    the table, so that no verdict changes because others are still to come, or have failed."""
    tests = [(claim, column) for claim in preset.claims for column in claim.on]
    measured = {(effect.claim, effect.column): effect for effect in outcome.effects}
    pairs = [
        (claim, measured[claim.key, column]) for claim, column in tests if (claim.key, column) in measured
    ]
    is_complete = outcome.finished and not outcome.failures
    waiting = sum(
        is_tested(preset, claim, column, outcome.scale)
        for claim, column in tests
        if not is_complete and (claim.key, column) not in measured
    )
    verdicts = judge_all([effect.evidence(claim) for claim, effect in pairs], waiting)
    return [
        JudgedEffect(claim, effect, verdict) for (claim, effect), verdict in zip(pairs, verdicts, strict=True)
    ]
