"""What went into a run: its data checks and its configuration, for its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from calmix.io.run_directory import RunDirectory
from calmix.report.pages.page import Block, Code, Prose
from calmix.report.tables import Column, Table, text_columns


def check_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    checks = metrics.get("data_checks")
    if checks is None:
        return (Prose("The run recorded no data checks."),)
    if not checks:
        return (Prose("The data were checked before training and nothing was found."),)
    table = Table(
        caption="What was found in the data before training",
        columns=(
            *text_columns("Severity", "Split", "Finding"),
            Column("Rows"),
        ),
        rows=tuple(
            (
                str(check["severity"]),
                str(check.get("split") or "–"),
                str(check["message"]),
                f"{check['count']:,}" if check.get("count") is not None else "–",
            )
            for check in checks
        ),
    )
    return (table,)


def configuration_blocks(run: RunDirectory) -> tuple[Block, ...]:
    config = run.config()
    verb = "distill" if config.get("teacher") else "train"
    return (
        Prose("The same run again:"),
        Code(f"calmix {verb} --config config.yaml --output NEW_RUN"),
        Prose("config.yaml:"),
        Code(yaml.safe_dump(config, sort_keys=False, allow_unicode=True).rstrip()),
    )
