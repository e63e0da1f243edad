"""`report.html` where rows have several labels: of a run, and of a calibration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.calibration.metrics.binning import Closed, reliability_bins
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.calibration.multi_label.multi_label_sources import label_predictions_of_run
from calmix.io.run_directory import RunDirectory
from calmix.printable import duration
from calmix.report.label_tables import (
    IN_SAMPLE_NOTE,
    held_out_tables,
    label_table,
    scaling_table,
    stages_table,
)
from calmix.report.learning import has_not_learned, learning_blocks
from calmix.report.pages.page import (
    Answer,
    Beside,
    Block,
    Chart,
    Details,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    Tone,
    Verdict,
    write_page,
)
from calmix.report.run.history import history_chart
from calmix.report.run.run_facts import check_blocks, configuration_blocks
from calmix.report.run.verdict import WITHIN_NOISE, WORDS, judged_splits, place_words, tone_of
from calmix.report.tables import Column, Table, capital

if TYPE_CHECKING:
    from calmix.inference.label_calibration import LabelHeldOut

# Diagrams of one split; the tables have every label.
MOST_CHARTS = 12
AXES = ("probability", "share with the label")
PICTURES = 2
ALL_LABELS = "all labels together"


def label_run_page(run: RunDirectory, metrics: Mapping[str, Any]) -> Page:
    """The report of a run whose rows have several labels, as data."""
    binning: dict[str, Any] = {"bins": metrics["ece_bins"], "closed": metrics["ece_edges"]}
    splits = {split: label_predictions_of_run(run, split, calibrated=True) for split in metrics["splits"]}
    sections = []
    if has_not_learned(metrics):
        sections.append(Section("This model has not learned", learning_blocks(metrics)))
    per_label: list[Block] = [stages_table(metrics)]
    for split, stages in metrics["splits"].items():
        raw = label_table(stages["uncalibrated"], f"{split}, raw")
        per_label += [label_table(stages["calibrated"], f"{split}, scaled"), Details(f"{split}, raw", (raw,))]
    sections += [
        Section("Metrics", tuple(per_label)),
        Section("Scaling and thresholds", (scaling_table(run.calibration()), *_warnings(run.calibration()))),
    ]
    for split, predictions in splits.items():
        charts = label_charts(predictions, metrics["splits"][split]["calibrated"], split, **binning)
        blocks: list[Block] = [Beside(charts)]
        if len(charts) - 1 < predictions.labels:
            blocks.append(Prose(f"The {len(charts) - 1} most frequent labels; the table has all.", "note"))
        sections.append(Section(f"Reliability on {split}", tuple(blocks)))
    if metrics.get("history"):
        caption = (
            "Training loss and validation log loss of every epoch, means over labels. The epoch is kept "
            f"{_kept_by(metrics)}; test rows have no part in the choice."
        )
        blocks = [
            history_chart(metrics["history"], caption, "nats per row and label"),
            _history_table(metrics["history"]),
        ]
        sections.append(Section("Training", tuple(blocks)))
    sections += [
        Section("Data checks", check_blocks(metrics)),
        Section("How to read this", _reading(metrics)),
        Section("Configuration", configuration_blocks(run)),
    ]
    shown = judged_splits(metrics)[:PICTURES]
    pictures = tuple(
        _chart(splits[split].pooled_scores(), f"{split}, {ALL_LABELS}", "", 240, **binning) for split in shown
    )
    return Page(
        title=f"{run.path.resolve().name}: {metrics['method']}, seed {metrics['seed']}, several labels a row",
        lead=_lead(metrics),
        facts=_facts(metrics),
        sections=tuple(sections),
        answer=Answer(
            tuple(
                label_verdict(place_words(split, capital=True), metrics["splits"][split]["calibrated"])
                for split in judged_splits(metrics)
            ),
            blocks=(Beside(pictures),),
        ),
    )


def label_verdict(subject: str, found: Mapping[str, Any]) -> Verdict:
    """How many labels have a probability that can be trusted, and which have not."""
    tones = {name: tone_of(one) for name, one in found["per_label"].items()}
    off = [name for name, tone in tones.items() if tone == "bad"]
    within = sum(tone in WITHIN_NOISE for tone in tones.values())
    worst: Tone = "bad" if off else "fair" if within < len(tones) else "good"
    text = (
        f"{within} of {len(tones)} labels are within the noise of perfect calibration on {found['n']:,} "
        f"rows. Macro ECE {100 * found['macro']['ece']:.2f} %."
    )
    if off:
        more = f" and {len(off) - 5} more" if len(off) > 5 else ""
        text += f" Cannot be trusted: {', '.join(off[:5])}{more}."
    if found.get("in_sample"):
        text += " Scaling and thresholds were fitted on these rows, so the numbers are optimistic."
    words = "can be trusted for most labels" if worst == "bad" and 2 * len(off) < len(tones) else WORDS[worst]
    return Verdict(worst, f"{subject}: the probability of a label {words}.", text)


def _lead(metrics: Mapping[str, Any]) -> str:
    split = judged_splits(metrics)[0]
    found = metrics["splits"][split]["calibrated"]
    if has_not_learned(metrics):
        return "This model has not learned: its numbers say nothing about the method or the data."
    if found.get("in_sample"):
        return "Whether probabilities can be trusted is unknown: there is no test set."
    verdict = label_verdict(place_words(split, capital=True), found)
    return (
        f"{verdict.subject[:-1]}; {100 * found['subset_accuracy']:.1f} % of the rows have all labels right."
    )


def _facts(metrics: Mapping[str, Any]) -> Facts:
    sizes = metrics["sizes"]
    chosen = [entry["epoch"] for entry in metrics["history"] if entry["chosen"]]
    fitted = {"platt": "scale and bias of every label", "temperature": "scale of every label"}
    facts = [
        Fact("Method", str(metrics["method"])),
        Fact("Model", Path(str(metrics["model"])).name),
        Fact("Labels", f"{len(metrics['label_names']):,}", "each with a probability of its own"),
        Fact("Scaling", metrics["label_scaling"]["method"], fitted[metrics["label_scaling"]["method"]]),
        Fact("Seed", str(metrics["seed"])),
        Fact("Time", duration(metrics["seconds"]), f"on {metrics['device']}"),
        Fact("Training rows", f"{sizes['train']:,}"),
    ]
    if chosen:
        facts.append(Fact("Epoch kept", f"{chosen[0]:g} of {len(metrics['history'])}", _kept_by(metrics)))
    return Facts(tuple(facts))


def _kept_by(metrics: Mapping[str, Any]) -> str:
    rules = {"nll": "by validation log loss", "last": "because it is the last"}
    return rules.get(metrics["select_by"], "by validation log loss after scaling")


def label_charts(
    predictions: MultiLabelPredictions, found: Mapping[str, Any], split: str, *, bins: int, closed: Closed
) -> tuple[Chart, ...]:
    """All labels together, then the most frequent ones."""
    places = sorted(range(predictions.labels), key=lambda place: -int(predictions.targets[:, place].sum()))
    charts = [
        _chart(predictions.pooled_scores(), f"{split}, {ALL_LABELS}", "", 240, bins=bins, closed=closed)
    ]
    for place in places[:MOST_CHARTS]:
        name = predictions.label_names[place]
        one = found["per_label"][name]
        caption = (
            f"ECE {100 * one['ece']:.2f} %; a perfectly calibrated model shows up to "
            f"{100 * one['ece_noise_floor_p95']:.2f} %. {one['positives']:,} of {one['n']:,} rows have it."
        )
        scores = predictions.probabilities()[:, place], predictions.targets[:, place]
        charts.append(_chart(scores, name, caption, 240, bins=bins, closed=closed))
    return tuple(charts)


def _chart(
    scores: tuple[Any, Any],
    title: str,
    caption: str,
    height: int,
    *,
    bins: int = 15,
    closed: Closed = "right",
) -> Chart:
    from calmix.report.run.reliability import bins_chart

    binned = reliability_bins(*scores, bins=bins, closed=closed)
    said = caption or (
        "On the dashed line, the probability of a label is the share of rows that have it. The noise is that "
        "of labels that do not depend on each other."
    )
    return bins_chart(binned, title=title, caption=said, height=height, name="reliability", words=AXES)


def _history_table(history: Any) -> Table:
    titles = ("Epoch", "Training loss", "Log loss", "Log loss, scaled", "Subset accuracy %", "Macro ECE %")
    keys = ("train_loss", "validation_nll", "validation_nll_calibrated")
    rows = tuple(
        (
            f"{entry['epoch']:g}",
            *("–" if entry.get(key) is None else f"{entry[key]:.4f}" for key in keys),
            f"{100 * entry['subset_accuracy']:.1f}",
            f"{100 * entry['validation_ece']:.2f}",
            "kept" if entry["chosen"] else "–",
        )
        for entry in history
    )
    columns = (*map(Column, titles), Column("Choice", numeric=False))
    return Table("Every epoch, on the validation rows", columns, rows)


def _reading(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    notes = [
        "Every label has a probability of its own: the sigmoid of its logit. They do not sum to 1.",
        "The scale and the bias of every label were fitted on the validation rows and are part of the saved "
        "model: plain sigmoid of its logits is calibrated. The ranking of rows by a label does not change.",
        "A label is predicted from its threshold on. Thresholds maximise F1 on the validation rows; they are "
        "in calibration.json and in model/config.json, and `calmix predict` uses them.",
        f"ECE uses {metrics['ece_bins']} bins of equal width on the probability of the label. It is above "
        "zero even for a perfectly calibrated model: compare it with the noise floor.",
        "Macro is the mean over labels, micro counts every decision about a row and a label once.",
    ]
    where = [split for split, stages in metrics["splits"].items() if stages["calibrated"].get("in_sample")]
    first = (
        [Prose(f"The scaled numbers of {' and '.join(where)} are {IN_SAMPLE_NOTE}.", "warning")]
        if where
        else []
    )
    return (*first, *(Prose(note) for note in notes))


def _warnings(fitted: Mapping[str, Any]) -> tuple[Block, ...]:
    return tuple(Prose(capital(warning), "warning") for warning in fitted["warnings"])


def write_label_calibration_report(
    result: Mapping[str, Any], compared: Mapping[str, LabelHeldOut], path: Path
) -> Path:
    """The report of `calmix calibrate` for rows of several labels."""
    blocks: list[Block] = list(held_out_tables(result))
    if not blocks:
        blocks.append(Prose("No metric is held out: there are too few rows to repeat the fit.", "warning"))
    blocks += [scaling_table(result), *_warnings(result)]
    sections = [Section("Result", tuple(blocks))]
    for name, found in compared.items():
        charts = tuple(
            _chart(predictions.pooled_scores(), f"{name}, {stage}, {ALL_LABELS}", "", 240)
            for stage, predictions in (("before", found.before), ("after", found.after))
        )
        after = label_table(result["held_out"][name]["after"], f"{name}, after")
        sections.append(Section(f"Reliability on {name}", (Beside(charts), after)))
    verdicts = tuple(label_verdict(name, found["after"]) for name, found in result["held_out"].items())
    lead = "Whether calibration helped is unknown: no rows were held out."
    if result["held_out"]:
        name, found = next(iter(result["held_out"].items()))
        before, after_all = found["before"]["macro"], found["after"]["macro"]
        said = "helped" if after_all["nll"] < before["nll"] else "did not help"
        lead = (
            f"Calibration {said} on {name}: log loss from {before['nll']:.4f} to {after_all['nll']:.4f}, "
            f"macro ECE from {100 * before['ece']:.1f} to {100 * after_all['ece']:.1f} %, on held-out rows."
        )
    facts = Facts(
        (
            Fact("Method", str(result["method"]), "for every label"),
            Fact("Fitted on", str(result["fitted_on"])),
            Fact("Rows", f"{result['n']:,}"),
            Fact("Folded into the model", "yes" if result["folded"] else "no"),
        )
    )
    title = f"{result['method'].capitalize()} scaling of every label, fitted on {result['n']:,} rows"
    return write_page(Page(title, lead, facts, tuple(sections), Answer(verdicts)), path)
