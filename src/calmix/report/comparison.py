"""`report.html` of a comparison: the recommendation, the tables, the intervals, and what went wrong."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from calmix.printable import duration
from calmix.report.comparison_figures import difference_figure, temperature_figure
from calmix.report.comparison_tables import (
    BETTER_NOTE,
    COMPARED_METRICS,
    ECE_NOTE,
    ONE_SEED_NOTE,
    SIGNIFICANT_NOTE,
    STAGES,
    difference_tables,
    failure_table,
    next_step,
    reference_title,
    splits_of,
    summary_tables,
)
from calmix.report.page import Block, Chart, Code, Details, Fact, Facts, Page, Prose, Section, write_page
from calmix.report.tables import WEAK_ECE_NOTE, Column, Table

UNDECIDED = ("cannot_tell", "not_learned", "nothing_to_compare")


def write_comparison_report(data: Mapping[str, Any], path: Path) -> Path:
    """`data`: what `calmix compare --json` prints."""
    return write_page(comparison_page(data), path)


def comparison_page(data: Mapping[str, Any]) -> Page:
    """The report as data."""
    sections = [
        Section("Recommendation", _recommendation_blocks(data)),
        Section("Summary", _summary_blocks(data)),
        Section("Before and after temperature scaling", _temperature_blocks(data)),
    ]
    for stage in reversed(STAGES):
        blocks = _difference_blocks(data, stage)
        if blocks:
            sections.append(Section(f"Against {reference_title(data, stage)}", blocks))
    if data["failures"]:
        sections.append(Section("Missing runs", (failure_table(data),)))
    sections += [
        Section("Runs", (_runs_table(data),)),
        Section("How to read this", _reading_blocks(data)),
        Section("Configuration", _configuration_blocks(data)),
    ]
    return Page(
        title=f"{Path(data['output']).resolve().name}: {len(data['arms'])} methods compared",
        lead=data["recommendation"]["sentence"],
        facts=_headline(data),
        sections=tuple(sections),
    )


def _headline(data: Mapping[str, Any]) -> Facts:
    recommendation = data["recommendation"]
    seeds = sorted({seed for arm in data["arms"] for seed in arm["seeds"]})
    runs = sum(len(arm["seeds"]) for arm in data["arms"])
    missing = f"{len(data['failures'])} missing" if data["failures"] else "all finished"
    return Facts(
        (
            Fact(
                "Chosen",
                "–" if recommendation["verdict"] == "not_learned" else str(recommendation["chosen"] or "–"),
                "on validation NLL after temperature scaling",
            ),
            Fact("Seeds", ", ".join(map(str, seeds)), "" if len(seeds) > 2 else "three or more tell more"),
            Fact("Runs", str(runs), missing),
            Fact("Model", Path(str(data["config"]["model"])).name),
            Fact("Test sets", ", ".join(s for s in splits_of(data) if s != "validation") or "none"),
        )
    )


def _recommendation_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    recommendation = data["recommendation"]
    tone: Any = "warning" if recommendation["verdict"] in UNDECIDED else "note"
    blocks: list[Block] = [Prose(recommendation["sentence"], tone)]
    if recommendation["next_step"]:
        blocks.append(Prose(next_step(recommendation)))
    if recommendation["command"]:
        blocks.append(Code(recommendation["command"]))
    blocks += [Prose(_capital(f"{line}.")) for line in recommendation["lines"]]
    if recommendation["choice"]:
        blocks.append(Prose(recommendation["choice"]))
    blocks += [Prose(f"{note}.", "warning") for note in recommendation["notes"]]
    if recommendation["model"]:
        blocks += [Prose("The chosen model:"), Code(recommendation["model"])]
    other = recommendation["alternative_model"]
    if other and recommendation["verdict"] in ("better", "trade_off"):
        blocks += [Prose(f"The alternative, {recommendation['alternative']}:"), Code(other)]
    if data["failures"]:
        blocks.append(Prose(f"{len(data['failures'])} runs are missing; see below.", "warning"))
    return tuple(blocks)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _summary_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    everything = Details("All metrics", tuple(summary_tables(data)))
    return (*summary_tables(data, COMPARED_METRICS), everything)


def _temperature_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    return tuple(
        Chart(
            figure=temperature_figure(data, split),
            title=split,
            caption=f"Mean over seeds with one standard deviation on {split}: red raw, blue after "
            "temperature scaling. Further left is better.",
            description=f"Dot chart of NLL and ECE of every method on {split} before and after temperature "
            "scaling; the numbers are in the table of the split.",
        )
        for split in splits_of(data)
    )


def _difference_blocks(data: Mapping[str, Any], stage: str) -> tuple[Block, ...]:
    tables = difference_tables(data, stage)
    charts: list[Block] = [
        Chart(
            figure=difference_figure(data, split, stage),
            title=table.caption,
            caption="The dashed line is the reference. Left of it is better, but for accuracy. A filled dot: "
            "significant at 5 % after Holm's correction for the number of arms.",
            description=f"Dots with intervals. {table.caption}; the numbers are in the table below.",
        )
        for split, table in tables.items()
    ]
    return (*charts, Details("The differences as tables", tuple(tables.values()))) if tables else ()


def _runs_table(data: Mapping[str, Any]) -> Table:
    return Table(
        caption="What was run",
        columns=(
            Column("Method", numeric=False),
            Column("Options", numeric=False),
            Column("Compared with", numeric=False),
            Column("Seeds", numeric=False),
            Column("Time per run"),
        ),
        rows=tuple(
            (
                arm["name"],
                ", ".join(f"{name}={value}" for name, value in {**arm["options"], **arm["settings"]}.items())
                or "–",
                arm["reference"] if arm["reference"] != arm["name"] else "–",
                ", ".join(map(str, arm["seeds"])) or "none",
                duration(arm["seconds"]) if arm["seconds"] is not None else "–",
            )
            for arm in data["arms"]
        ),
    )


def _reading_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    notes = [
        "Every method is compared with plain fine-tuning, uncalibrated and with a temperature fitted on "
        "validation: the one number that most methods must first beat.",
        "Intervals come from a paired bootstrap: rows and seeds are resampled, the same for both sides. "
        "They are widened for few seeds. The intervals of tables and charts are not corrected for many "
        "comparisons: of twenty true zeros, one leaves out 0. Marks and recommendation are corrected.",
        f"In the summary, {BETTER_NOTE}.",
        f"In the differences, {SIGNIFICANT_NOTE}.",
        f"{ECE_NOTE[0].upper()}{ECE_NOTE[1:]}.",
        f"{WEAK_ECE_NOTE[0].upper()}{WEAK_ECE_NOTE[1:]}.",
        "The choice is made on validation alone, by NLL after temperature scaling, unless accuracy is lower. "
        "Test sets are reported and choose nothing; the calibration error chooses nothing.",
    ]
    blocks: list[Block] = [Prose(note) for note in notes]
    if any(len(arm["seeds"]) == 1 for arm in data["arms"]):
        blocks.insert(0, Prose(f"{ONE_SEED_NOTE[0].upper()}{ONE_SEED_NOTE[1:]}.", "warning"))
    return tuple(blocks)


def _configuration_blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    return (
        Prose("The same comparison again; in the same directory it goes on and repeats no run:"),
        Code(f"calmix compare --config config.yaml --output {shlex.quote(str(data['output']))}"),
        Prose("This page again, without training:"),
        Code(f"calmix compare --from {shlex.quote(str(data['output']))}"),
        Prose("config.yaml:"),
        Code(yaml.safe_dump(dict(data["config"]), sort_keys=False, allow_unicode=True).rstrip()),
    )
