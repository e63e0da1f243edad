"""The parts of a model card that rows of several labels change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.models.built_in import BUILT_IN
from calmix.report.label_tables import IN_SAMPLE_NOTE, label_table, scaling_table, stages_table
from calmix.report.tables import escape_markdown, is_in_sample

APPLIED = (
    "    probabilities = model(**inputs).logits.sigmoid()  # calibrated, one for each label",
    'thresholds = model.config.calmix_calibration["thresholds"]',
    "labels = [",
    "    [name for k, name in model.config.id2label.items() if row[k] >= thresholds[name]]",
    "    for row in probabilities",
    "]",
)
"""How the logits of such a model are used."""


def label_parts(metrics: Mapping[str, Any], fitted: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What it is, results, calibration and limits."""
    return (
        what_it_is(metrics),
        results(metrics),
        calibration(fitted),
        limits(metrics),
    )


def what_it_is(metrics: Mapping[str, Any]) -> str:
    model = str(metrics["model"])
    origin = "trained from random weights as" if model in BUILT_IN else "fine-tuned from"
    return (
        f"A classifier that gives every row any number of {len(metrics['label_names'])} labels, {origin} "
        f"{escape_markdown(Path(model).name)} with the method `{metrics['method']}` of calmix (seed "
        f"{metrics['seed']}). Every label has a calibrated probability of its own: its fitted scaling is "
        "part of the weights, so the plain sigmoid of its logit is the calibrated probability. Do not scale "
        "it again."
    )


def results(metrics: Mapping[str, Any]) -> str:
    parts = [stages_table(metrics).to_markdown()]
    parts += [
        f"{escape_markdown(split)}, label by label:\n\n" + label_table(stages["calibrated"], "").to_markdown()
        for split, stages in metrics["splits"].items()
        if not is_in_sample(stages, "calibrated")
    ]
    parts.append(
        f"ECE over {metrics['ece_bins']} equal-width bins ({metrics['ece_edges']}-closed) of the label's "
        "probability. The noise floor is the ECE of a perfectly calibrated model at this sample size."
    )
    return "\n\n".join(parts)


def calibration(fitted: Mapping[str, Any]) -> str:
    kinds = {"platt": "scale and bias", "temperature": "scale"}
    text = (
        f"The {kinds[fitted['method']]} of every label minimise the log loss on validation ({fitted['n']:,} "
        "rows) and are folded into the last linear layer. Thresholds maximise F1 on the same rows.\n\n"
        + scaling_table(fitted).to_markdown()
    )
    return "\n\n".join([text, *map(escape_markdown, fitted["warnings"])])


def limits(metrics: Mapping[str, Any]) -> str:
    lines = [
        f"- {escape_markdown(split)}: {100 * stages['calibrated']['subset_accuracy']:.1f} % of the rows have "
        f"all labels right, mean error of a label's probability (macro ECE) "
        f"{100 * stages['calibrated']['macro']['ece']:.2f} %"
        for split, stages in metrics["splits"].items()
        if not is_in_sample(stages, "calibrated")
    ]
    if len(lines) < len(metrics["splits"]):
        lines.append(f"- Scaled numbers of the validation rows are {escape_markdown(IN_SAMPLE_NOTE)}.")
    lines.append("- On data unlike all of these, neither accuracy nor calibration is known; measure first.")
    return "\n".join(lines)
