"""What class weights or balanced sampling did to the scores, and the correction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.report.pages.page import Block, Prose
from calmix.report.tables import Column, Table, text_columns

SHOWN_CLASSES = 12


def correction_sentence(metrics: Mapping[str, Any]) -> str:
    """How classes were weighted, in words.

    >>> facts = {"class_weights": {"no": 0.5, "yes": 10.0}, "sampling_ratios": None}
    >>> correction_sentence({"prior_correction": facts})[:64]
    'Classes were weighted in training (no × 0.5, yes × 10): this shi'
    """
    facts = metrics["prior_correction"]
    parts = []
    for key, words in (("class_weights", "weighted in training"), ("sampling_ratios", "drawn evenly")):
        if facts.get(key):
            shown = [f"{name} × {value:.3g}" for name, value in list(facts[key].items())[:SHOWN_CLASSES]]
            rest = " ..." if len(facts[key]) > SHOWN_CLASSES else ""
            parts.append(f"{words} ({', '.join(shown)}{rest})")
    return (
        f"Classes were {' and '.join(parts)}: this shifts the logits of every class. The shift was "
        "subtracted from the bias of the head before the temperature was fitted, so that the scores are "
        "those of the classes as they occur in the data."
    )


def correction_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    """For the report: the sentence, and every split without the correction and with it."""
    facts = metrics["prior_correction"]
    columns = (
        *text_columns("split", "scores"),
        *(Column(title) for title in ("accuracy %", "NLL", "Brier", "ECE %")),
    )
    rows = []
    for split, uncorrected in facts["uncorrected"].items():
        stages = metrics["splits"][split]
        for title, values in (
            ("uncorrected", uncorrected),
            ("corrected", stages["uncalibrated"]),
            ("corrected + TS", stages["calibrated"]),
        ):
            shown = (100 * values["accuracy"], values["nll"], values["brier"], 100 * values["ece"])
            formats = ("{:.1f}", "{:.3f}", "{:.3f}", "{:.2f}")
            numbers = [text.format(value) for text, value in zip(formats, shown, strict=True)]
            rows.append((split, title, *numbers))
    table = Table("Scores without and with the correction", columns, tuple(rows), grouped=True)
    return (Prose(correction_sentence(metrics)), table)
