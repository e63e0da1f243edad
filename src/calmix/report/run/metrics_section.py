"""The metrics section: a table that anybody can read, the full one, and what its columns mean; weights
and slices of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.report.evaluation_tables import slice_table
from calmix.report.pages.page import Block, Details, Prose, Section
from calmix.report.run.verdict import WORDS, mean_confidence, noise_limit, tone_of
from calmix.report.tables import (
    IN_SAMPLE,
    IN_SAMPLE_NOTE,
    METRICS,
    Column,
    Table,
    is_in_sample,
    metrics_table,
    scaling_words,
    text_columns,
)

# What a number answers, for readers who have never met its name.
QUESTIONS = {
    "accuracy": "How often is the model right?",
    "nll": "How good are the probabilities as a whole? A confident mistake costs most.",
    "brier": "The same as a squared error: how far are the probabilities from what happened?",
    "ece": "How far is the stated confidence from the accuracy, on average?",
    "ece_noise_floor": "What ECE does a perfectly calibrated model show with this many rows, by chance?",
    "adaptive_ece": "The ECE again, with bins that hold equally many rows.",
    "classwise_ece": "The ECE of every class, not only of the predicted one.",
    "oe": "OE: how much of the error is overconfidence? Underconfidence does not count.",
    "mce": "MCE: how bad is the worst bin? One bin with few rows can make it large.",
    "aurc": "AURC: how well does confidence rank right above wrong predictions? The error rate, averaged "
    "over all shares of accepted rows.",
    "augrc": "AUGRC: the same question, counted among all rows: how many are accepted and wrong, on average?",
    "confidence_gap": "Is the model over- or underconfident on average?",
    "mcc": "How right is the model where one class is much larger than the others?",
    "top5_accuracy": "How often is the label among the five most probable classes?",
}
WEIGHTED = (
    "In the tables, rows count by their weights, and a soft label counts for every class by its share: "
    "accuracy is the share of annotators who gave the predicted class. The diagrams and the explorer count "
    "every row once, by its most probable label."
)


def metrics_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    meanings = Table(
        caption="What the columns mean; every one but accuracy, MCC and top-5 is better when nearer to 0",
        columns=(*text_columns("Metric", "It answers", "Definition"),),
        rows=tuple(
            (metric.title, QUESTIONS.get(metric.key, ""), metric.meaning)
            for metric in METRICS
            if metric.key != "n"
        ),
    )
    return (
        plain_table(metrics),
        Prose(f"The same in full, raw and after {scaling_words(metrics)}:"),
        metrics_table(metrics),
        Details("What the columns mean: ECE, OE, MCE, AURC, AUGRC and the others", (meanings,)),
    )


def plain_table(metrics: Mapping[str, Any]) -> Table:
    """Confidence and accuracy of the saved model, one line for every split."""
    rows, marked = [], False
    for split, stages in metrics["splits"].items():
        values = stages["calibrated"]
        flattering = is_in_sample(stages, "calibrated")
        marked = marked or flattering
        gap = mean_confidence(values) - values["accuracy"]
        rows.append(
            (
                f"{split} {IN_SAMPLE}" if flattering else split,
                f"{values['n']:,}",
                f"{100 * values['accuracy']:.1f}",
                f"{100 * mean_confidence(values):.1f}",
                f"{100 * gap:+.1f}",
                f"{100 * values['ece']:.1f}",
                f"{100 * noise_limit(values):.1f}",
                f"confidence {WORDS[tone_of(values)]}",
            )
        )
    return Table(
        caption="The saved model: confidence and accuracy",
        columns=(
            Column("Split", numeric=False),
            Column("Rows"),
            Column("Accuracy %"),
            Column("Confidence %", "mean confidence"),
            Column("Difference", "mean confidence minus accuracy, in points: above 0 is overconfident"),
            Column("ECE %", "expected calibration error: the mean difference over bins of confidence"),
            Column("Noise limit %", "a perfectly calibrated model stays below this ECE in 95 of 100 samples"),
            Column("Verdict", numeric=False),
        ),
        rows=tuple(rows),
        notes=(f"{IN_SAMPLE} {IN_SAMPLE_NOTE}",) if marked else (),
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
