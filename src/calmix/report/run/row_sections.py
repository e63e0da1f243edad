"""Rows that count differently, and groups of them: what weights and soft labels mean here, and the slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.report.evaluation_tables import slice_table
from calmix.report.pages.page import Block, Prose, Section

WEIGHTED = (
    "In the tables, rows count by their weights, and a soft label counts for every class by its share: "
    "accuracy is the share of annotators who gave the predicted class. The diagrams and the explorer count "
    "every row once, by its most probable label."
)


def row_sections(metrics: Mapping[str, Any]) -> list[Section]:
    """Sections for the runs that need them; none for others.

    >>> row_sections({"splits": {"test": {"calibrated": {"n": 10}}}})
    []
    """
    calibrated = {split: stages["calibrated"] for split, stages in metrics["splits"].items()}
    sections = []
    if any("effective_n" in values for values in calibrated.values()):
        sections.append(Section("Weights and soft labels", (Prose(WEIGHTED),)))
    sliced = {split: values["slices"] for split, values in calibrated.items() if "slices" in values}
    if sliced:
        blocks: list[Block] = []
        for split, found in sliced.items():
            blocks += [Prose(f"{split}: {sentence}.") for sentence in found["sentences"]]
            blocks.append(slice_table({"file": f"{split}, calibrated", **found}))
        sections.append(Section("Slices", tuple(blocks)))
    return sections
