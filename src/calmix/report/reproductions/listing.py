"""What `calmix reproduce --list` shows: every preset, its claims, and what it needs and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.report.tables import Column, Table
from calmix.reproduction.blocks import blocks_of
from calmix.reproduction.catalogue import all_presets, papers
from calmix.reproduction.cost import minutes
from calmix.reproduction.preset import FULL, SMALL, Preset


def preset_records() -> list[dict[str, Any]]:
    """One record per preset, as `--json` prints it."""
    return [
        {
            "name": preset.name,
            "paper": papers()[preset.paper],
            "place": preset.place,
            "title": preset.title,
            "columns": list(preset.columns),
            "arms": list(preset.arms),
            "claims": {claim.key: claim.statement for claim in preset.claims},
            "models": {scale: networks(preset, scale) for scale in preset.scales},
            "data": {scale: data_sets(preset, scale) for scale in preset.scales},
            "minutes": {SMALL: minutes(preset), FULL: None},
        }
        for preset in all_presets()
    ]


def networks(preset: Preset, scale: str) -> list[str]:
    if preset.analysis:
        return []
    return list(dict.fromkeys(block.model.model for block in blocks_of(preset, preset.scales[scale])))


def data_sets(preset: Preset, scale: str) -> list[str]:
    """The folders of the data directory that a scale reads."""
    if preset.analysis:
        return []
    names = [
        name
        for block in blocks_of(preset, preset.scales[scale])
        for name in (block.task.dataset, *block.task.outside.values())
    ]
    return list(dict.fromkeys(names))


def preset_table(records: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for record in records:
        cost = record["minutes"][SMALL]
        data = record["data"].get(SMALL) or record["data"][FULL]
        rows.append(
            (
                record["name"],
                record["title"],
                str(len(record["claims"])),
                ", ".join(data) or "none",
                "full only" if cost is None else f"{cost:,.0f}",
            )
        )
    return Table(
        caption="Tables and figures",
        columns=(
            Column("Preset", numeric=False),
            Column("What", numeric=False),
            Column("Claims"),
            Column("Data", numeric=False),
            Column("Minutes at small"),
        ),
        rows=tuple(rows),
        notes=(
            "Minutes of one core, estimated; tables of one paper share runs.",
            "'--scale full' is the paper's own setting (untried here); '--scale smoke' needs no data.",
        ),
    )
