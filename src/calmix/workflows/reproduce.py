"""A table or figure of the papers, with a verdict on every claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.experiments.executors import EXECUTORS
from calmix.reproduction.outcome import JudgedEffect, Outcome, judged
from calmix.reproduction.preset import SCALES, SMALL, Preset
from calmix.runtime.option_values import check_device_name
from calmix.user_error import UserError, argument, check_least
from calmix.workflows.result import Result

if TYPE_CHECKING:
    from calmix.report.tables import Table


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """What a reproduction found: `table` by metric, `claims` with their verdicts, `report` the HTML page."""

    preset: Preset
    outcome: Outcome
    output: Path

    @property
    def claims(self) -> Sequence[JudgedEffect]:
        """Every claim on every column: `claim`, `effect` and `verdict`."""
        return judged(self.preset, self.outcome)

    @property
    def report(self) -> Path:
        return self.output / f"{self.outcome.preset}-{self.outcome.scale}.html"

    def tables(self) -> list[Table]:
        from calmix.report.reproductions.side_by_side import side_by_side

        return side_by_side(self.preset, self.outcome)

    def lines(self) -> list[str]:
        from calmix.report.reproductions.side_by_side import effect_text

        claims = [
            f"{one.verdict.word:10}{one.claim.statement} "
            f"[{self.preset.column_titles[one.effect.column]}] {effect_text(one)} points: "
            f"{one.verdict.reason}"
            for one in self.claims
        ]
        failures = [f"failed: {one['block']}, {one['run']}: {one['reason']}" for one in self.outcome.failures]
        return [*claims, *failures, f"report: {self.report}"]

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what `--json` prints."""
        claims = [
            {
                "claim": one.claim.key,
                "statement": one.claim.statement,
                "column": one.effect.column,
                "metric": one.claim.metric,
                "direction": one.claim.direction,
                "reported": one.claim.reported.get(one.effect.column),
                "difference": one.effect.difference,
                "interval": [one.verdict.low, one.verdict.high],
                "level": one.verdict.level,
                "noise_floors": one.effect.floors,
                "seeds": one.effect.seeds,
                "verdict": one.verdict.word,
                "reason": one.verdict.reason,
            }
            for one in self.claims
        ]
        return {
            "preset": self.preset.name,
            "scale": self.outcome.scale,
            "output": str(self.output),
            "report": str(self.report),
            "cells": [vars(cell) for cell in self.outcome.cells],
            "claims": claims,
            "failures": self.outcome.failures,
        }


def reproduce(
    preset: str | Path,
    *,
    output: str | Path,
    scale: str = SMALL,
    data_dir: str | Path | None = None,
    executor: str = "local",
    workers: int | None = None,
    threads: int | None = None,
    device: str = "auto",
) -> Reproduction:
    """Reproduce a table or figure; the same call continues one that was cut off, and repeats no run.

        found = calmix.reproduce("tdmixup/table2", scale="small", data_dir="data", output="out")
        [(one.claim.statement, one.verdict.word) for one in found.claims]

    preset: PAPER/PLACE, as `calmix reproduce --list` names them, or a YAML file of your own.
    scale: "full" (the paper's setting), "small" or "smoke" (seconds, no data).
    data_dir: one folder per data set with `train`, `validation` and `test` files.
    """
    if scale not in SCALES:
        raise UserError(f"{argument('scale')} is {scale!r}", remedy=f"choose one of {', '.join(SCALES)}")
    for name, count in {"workers": workers, "threads": threads}.items():
        if count is not None:
            check_least(name, count, 1)
    if executor not in EXECUTORS:
        raise UserError(
            f"{argument('executor')} is {executor!r}", remedy=f"choose one of {', '.join(EXECUTORS)}"
        )
    check_device_name(device)

    from calmix.reproduction.catalogue import find_preset, preset_names

    found = find_preset(str(preset))

    from calmix.report.reproductions.pages import write_pages
    from calmix.reproduction.running import Options, run_preset

    data = None if data_dir is None else Path(data_dir)
    options = Options(scale, Path(output), data, executor, workers, threads, device)
    outcome = run_preset(found, options, None if str(preset) in preset_names() else Path(preset))
    write_pages(options.output)
    return Reproduction(found, outcome, options.output)
