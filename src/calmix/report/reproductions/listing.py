"""What `calmix reproduce --list` shows: every preset, its claims, and what it needs and costs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calmix.reproduction.blocks import blocks_of
from calmix.reproduction.catalogue import all_presets, papers
from calmix.reproduction.cost import minutes
from calmix.reproduction.outcome import Outcome
from calmix.reproduction.preset import FULL, SMALL, Preset
from calmix.reproduction.state import claim_states
from calmix.reproduction.verdicts import HELD, REVERSED, UNDECIDED

COSTS_NOTE = (
    "Minutes of one core at '--scale small', estimated; tables of a paper share runs. 'full only' has only "
    "'--scale full', the paper's own setting.",
)
VERDICTS_NOTE = ("A claim is tested on one or more data sets. Open: not run yet, or only at '--scale full'.",)
USAGE = (
    "Run one:  calmix reproduce PAPER/NAME --data-dir DATA --output OUT",
    "Try one:  calmix reproduce PAPER/NAME --scale smoke --output OUT  (no data)",
    "More:     --list --json (claims, arms, data), --list --from OUT (verdicts)",
)


def preset_records(outcomes: Sequence[Outcome] = ()) -> list[dict[str, Any]]:
    """One record per preset, as `--json` prints it; `tests` counts what became of its claims."""
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
            "tests": dict(Counter(state.state for state in claim_states([preset], outcomes))),
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


def preset_lines(records: Sequence[Mapping[str, Any]], width: int, *, verdicts: bool = False) -> list[str]:
    """One line for each preset, under its paper: claims, minutes at the small scale or verdicts, and what
    fits of the title."""
    counted = verdict_counts if verdicts else costs
    longest = max(len(record["name"].partition("/")[2]) for record in records)
    heading = "  ".join(["claims", *counted(records[0])])
    lines = [f"  {'':{longest}}  {heading}  what"]
    for paper in dict.fromkeys(record["paper"] for record in records):
        of_paper = [record for record in records if record["paper"] == paper]
        key = of_paper[0]["name"].partition("/")[0]
        data = ", ".join(dict.fromkeys(name for record in of_paper for name in _data_of(record)))
        lines += ["", shortened(f"{key}: {paper.partition(':')[0]}", width)]
        lines += textwrap.wrap(f"data: {data}", width, initial_indent="  ", subsequent_indent=" " * 8)
        for record in of_paper:
            cells = [f"{len(record['claims']):6}"]
            cells += [f"{value:>{len(title)}}" for title, value in counted(record).items()]
            start = f"  {record['name'].partition('/')[2]:{longest}}  {'  '.join(cells)}  "
            lines.append(start + shortened(record["title"], width - len(start)))
    note = VERDICTS_NOTE if verdicts else COSTS_NOTE
    return [*lines, "", *(line for part in (*note, *USAGE) for line in textwrap.wrap(part, width))]


def costs(record: Mapping[str, Any]) -> dict[str, str]:
    """Minutes at the small scale."""
    cost = record["minutes"][SMALL]
    return {"  minutes": "full only" if cost is None else f"{cost:,.0f}"}


def verdict_counts(record: Mapping[str, Any]) -> dict[str, str]:
    """How many tests of the claims have which verdict, and how many have none."""
    tests = record["tests"]
    found = {word: tests.get(word, 0) for word in (HELD, REVERSED, UNDECIDED)}
    found["open"] = sum(tests.values()) - sum(found.values())
    return {word: str(count or "") for word, count in found.items()}


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
