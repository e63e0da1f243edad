"""The stages of a guided run: its data map, the groups of rows, and the mixed pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calmix.io.run_directory import RunDirectory
from calmix.report.pages.page import Block, Details, Prose
from calmix.report.run.dynamics_summary import DynamicsSummary, data_map_chart
from calmix.report.tables import Column, Table

PAIRS_SHOWN = 12
TEXT_SHOWN = 160


def guidance_blocks(
    run: RunDirectory, metrics: Mapping[str, Any], texts: Mapping[str, str] | None
) -> tuple[Block, ...]:
    """Everything that `guidance.json` and the plain stage say."""
    guidance = run.guidance()
    names = metrics["label_names"]
    blocks: list[Block] = []
    if "plain_run" in guidance:  # groups that chance made have none before them
        blocks.append(Prose(stages_line(guidance, metrics)))
        summary = DynamicsSummary.read(run.plain_stage / "dynamics.parquet", names)
        caption = "The training rows in the plain run: this data map guided the run."
        blocks.append(data_map_chart(summary, "Data map of the plain run", caption))
    blocks += [Prose(filter_line(verdict)) for verdict in guidance.get("label_filters", [])]
    if "train_region" in guidance:
        region = guidance["train_region"]
        blocks.append(groups_table([{"name": region["region"], **region}], names, "Rows trained on"))
    if "groups" in guidance:
        blocks.append(groups_table(guidance["groups"], names, "The groups of rows that are mixed in a batch"))
        blocks.append(Prose(epoch_line(guidance), "note"))
        ties = ties_line(guidance["tallies"])
        if ties:
            blocks.append(Prose(ties))
    if guidance.get("pairs"):
        shown = pairs_table(guidance["pairs"], names, texts)
        blocks.append(Details("Some of the pairs that were mixed", (shown,)))
    return tuple(blocks)


def stages_line(guidance: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """
    >>> line = stages_line({"plain_run": {"seconds": 61.2}}, {"method": "tdmixup", "seconds": 75.0})
    >>> line.partition(". ")[2]
    'Stage 2: tdmixup (75 s), temperature, evaluation.'
    """
    first, second = guidance["plain_run"]["seconds"], metrics["seconds"]
    return (
        f"Stage 1: a plain run ({first:.0f} s), which other guided runs share. "
        f"Stage 2: {metrics['method']} ({second:.0f} s), temperature, evaluation."
    )


def filter_line(verdict: Mapping[str, Any]) -> str:
    """
    >>> filter_line({"rows": 5, "passes": [], "findings": ["5 rows are too few"]})
    'Labels were not tested: 5 rows are too few. All 5 rows are kept.'
    """
    findings = "; ".join(verdict["findings"])
    if not verdict["passes"]:
        return f"Labels were not tested: {findings}. All {verdict['rows']:,} rows are kept."
    line = (
        f"Labels were tested on {verdict['rows']:,} rows: {verdict['kept']:,} have an AUM above "
        f"{100 * verdict['percentile']:g} % of the threshold samples and are kept, "
        f"{verdict['flagged']:,} do not, {verdict['unscored']:,} have no score "
        f"({'kept' if verdict['unscored_rule'] == 'keep' else 'left out'})."
    )
    return f"{line} Note: {findings}." if findings else line


def groups_table(groups: Sequence[Mapping[str, Any]], names: Sequence[str], caption: str) -> Table:
    """Rows and classes of each group: a group may be nearly one class."""
    labels = list(names) if len(names) == len(groups[0]["class_counts"]) else None
    columns = [Column("Group", numeric=False), Column("Rows")]
    columns += [
        Column(str(labels[index] if labels else index)) for index in range(len(groups[0]["class_counts"]))
    ]
    rows = [
        (group["name"], f"{group['rows']:,}", *(f"{count:,}" for count in group["class_counts"]))
        for group in groups
    ]
    return Table(caption=caption, columns=tuple(columns), rows=tuple(rows))


def epoch_line(guidance: Mapping[str, Any]) -> str:
    line = f"An epoch trains on {guidance['rows_per_epoch']:,} rows."
    several = guidance["in_several_groups"]
    return f"{line} {several:,} rows are in more than one group." if several else line


def ties_line(tallies: Sequence[Mapping[str, Any]]) -> str | None:
    """How often partners were equally similar, so that chance chose.

    >>> ties_line([{"epoch": 1, "rows": 8, "searches": 16, "ties": 4}])
    'Partners: 16 searches, 4 of them (25.0 %) tied and were drawn at random.'
    """
    searches = sum(tally.get("searches", 0) for tally in tallies)
    if not searches:
        return None
    ties = sum(tally.get("ties", 0) for tally in tallies)
    share = 100 * ties / searches
    return f"Partners: {searches:,} searches, {ties:,} of them ({share:.1f} %) tied and were drawn at random."


def pairs_table(
    pairs: Sequence[Mapping[str, Any]], names: Sequence[str], texts: Mapping[str, str] | None
) -> Table:
    """Texts, λ and targets; the last epoch first, when the partners mean most."""
    ordered = sorted(pairs, key=lambda pair: -pair["epoch"])[:PAIRS_SHOWN]
    columns = tuple(
        Column(title, numeric=title in ("Epoch", "λ"))
        for title in ("Epoch", "Pair", "First (λ)", "Second (1 − λ)", "λ", "Target")
    )
    rows = tuple(
        (
            str(pair["epoch"]),
            str(pair["kind"]),
            shortened(pair["first"], texts),
            shortened(pair["second"], texts),
            f"{pair['ratio']:.3f}",
            target_text(pair["targets"], names),
        )
        for pair in ordered
    )
    return Table(caption="Pairs of the first batch of an epoch", columns=columns, rows=rows)


def shortened(row_id: str, texts: Mapping[str, str] | None) -> str:
    text = (texts or {}).get(row_id)
    if text is None:
        return row_id
    return text if len(text) <= TEXT_SHOWN else f"{text[: TEXT_SHOWN - 1]}…"


def target_text(targets: Sequence[float], names: Sequence[str]) -> str:
    """
    >>> target_text([0.75, 0.25, 0.0], ("joy", "anger", "fear"))
    'joy 0.75, anger 0.25'
    """
    labels = names if len(names) == len(targets) else [str(index) for index in range(len(targets))]
    ranked = sorted(zip(targets, labels, strict=True), key=lambda pair: -pair[0])
    return ", ".join(f"{label} {target:.2f}" for target, label in ranked[:3] if target >= 0.005)
