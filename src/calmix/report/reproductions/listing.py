"""What `calmix reproduce --list` shows: every preset, its claims, and what it needs and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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


def preset_lines(records: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """One line for each preset, under its paper: name, claims, minutes at the small scale, and what fits of
    the title."""
    longest = max(len(record["name"]) for record in records)
    lines = [f"{'preset':{longest}}  claims  minutes  what"]
    for paper in dict.fromkeys(record["paper"] for record in records):
        of_paper = [record for record in records if record["paper"] == paper]
        named = dict.fromkeys(name for record in of_paper for name in _data_of(record))
        lines += ["", shortened(paper, width), shortened(f"data: {', '.join(named) or 'none'}", width)]
        for record in of_paper:
            cost = record["minutes"][SMALL]
            spent = "full" if cost is None else f"{cost:,.0f}"
            start = f"{record['name']:{longest}}  {len(record['claims']):6}  {spent:>7}  "
            lines.append(start + shortened(record["title"], width - len(start)))
    return [
        *lines,
        "",
        "minutes: of one core at '--scale small', estimated; a paper's tables share runs",
        "full: at '--scale full' only, the paper's own setting (not run here)",
        "'--scale smoke' needs no data; '--json' has whole titles, claims, arms and data",
    ]


def shortened(text: str, width: int) -> str:
    """
    >>> shortened("Padding of pairs", 10), shortened("Pairs", 10)
    ('Padding...', 'Pairs')
    """
    return text if len(text) <= width else text[: max(width - 3, 1)].rstrip() + "..."


def _data_of(record: Mapping[str, Any]) -> list[str]:
    """The data sets of the small scale, or of the full one where that is all there is."""
    found: list[str] = record["data"].get(SMALL) or record["data"][FULL]
    return found
