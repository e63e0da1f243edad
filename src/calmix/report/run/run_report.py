"""`report.html`: one run on one page, from the files of its directory.

The first screen says whether the confidence can be trusted and what to do next; below it the predictions can
be explored (bins, temperature, threshold, rows), then come the metrics, the training and what went into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.calibration.files.run_predictions import apply_calibrator, calibrator_of_run, predictions_of_run
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory
from calmix.report.label_report import label_run_page
from calmix.report.learning import TITLE, has_not_learned, learning_blocks, learning_notes
from calmix.report.pages.page import (
    Answer,
    Beside,
    Block,
    Details,
    Page,
    Prose,
    Section,
    Widget,
    write_page,
)
from calmix.report.prior_correction import correction_blocks
from calmix.report.run.dynamics_summary import (
    POINTS,
    DynamicsSummary,
    data_map_chart,
    lowest_margin_table,
    region_means_table,
)
from calmix.report.run.explorer import explorer_data
from calmix.report.run.guidance import guidance_blocks
from calmix.report.run.headline import kept_by, run_facts
from calmix.report.run.history import error_chart, history_chart, history_table, regime
from calmix.report.run.metrics_section import metrics_blocks, row_sections
from calmix.report.run.next_steps import certified, next_steps
from calmix.report.run.reliability import reliability_chart, reliability_table
from calmix.report.run.row_texts import split_texts, training_texts
from calmix.report.run.run_facts import check_blocks, configuration_blocks
from calmix.report.run.verdict import judged_splits, sentence, verdicts
from calmix.report.tables import (
    IN_SAMPLE_NOTE,
    OUTSIDE_NOTE,
    WITHIN_NOISE_NOTE,
    capital,
    ece_text,
    is_in_sample,
    is_outside_interval,
    is_within_noise,
    scaling_words,
)

EXPLORER_SCRIPTS = (
    "drawing.js",
    "statistics.js",
    "explorer_data.js",
    "explorer_charts.js",
    "explorer_page.js",
)
# Pictures of the first screen; the others are further down.
PICTURES = 2
DEFAULT_TARGET = 0.95


def write_run_report(
    run: RunDirectory,
    *,
    metrics: Mapping[str, Any] | None = None,
    texts: Mapping[str, str] | None = None,
    rows: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write `report.html` of a run.

    `metrics`: the content of `metrics.json`, for a caller that writes that file last. `texts`: row id to text
    of training rows, shown beside the rows that are probably mislabelled; `rows`: the texts of each split in
    the order of its predictions. Both are read again from the files of the run if left out, since the run
    directory holds no texts.
    """
    metrics = run.metrics() if metrics is None else metrics
    if metrics.get("multi_label"):
        return write_page(label_run_page(run, metrics), run.report_file)
    texts = training_texts(run) if texts is None else texts
    rows = split_texts(run) if rows is None else rows
    return write_page(run_page(run, metrics, texts, rows), run.report_file)


def run_page(
    run: RunDirectory,
    metrics: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    rows: Mapping[str, Sequence[str]] | None = None,
) -> Page:
    """The report as data."""
    splits = {split: predictions_of_run(run, split) for split in metrics["splits"]}
    calibrator = calibrator_of_run(run, metrics)
    calibrated = {split: apply_calibrator(calibrator, one) for split, one in splits.items()}
    # A slider of the temperature starts from what a temperature was fitted on.
    explored = splits if "temperature" in metrics else calibrated
    sections = [Section(TITLE, learning_blocks(metrics))] if has_not_learned(metrics) else []
    sections += [
        Section("Explore the predictions", (explorer(explored, metrics, rows),)),
        Section("Metrics", metrics_blocks(metrics)),
        Section("Reliability of every split", _reliability_blocks(splits, calibrated, metrics)),
    ]
    if "prior_correction" in metrics:
        sections.append(Section("Class weights", correction_blocks(metrics)))
    sections += row_sections(metrics)
    if metrics.get("history"):
        sections.append(Section("Training", _training_blocks(metrics)))
    if run.guidance_file.is_file():
        title = "Stages" if "plain_run" in run.guidance() else "Groups of rows"
        sections.append(Section(title, guidance_blocks(run, metrics, texts)))
    if run.dynamics_file.is_file():
        sections.append(Section("Training dynamics", _dynamics_blocks(run.dynamics_file, metrics, texts)))
    sections.append(Section("Data checks", check_blocks(metrics)))
    sections.append(Section("How to read this", _reading_blocks(metrics)))
    sections.append(Section("Configuration", configuration_blocks(run)))
    return Page(
        title=f"{run.path.resolve().name}: {metrics['method']}, seed {metrics['seed']}",
        lead=sentence(metrics),
        facts=run_facts(run, metrics),
        sections=tuple(sections),
        answer=_answer(run, metrics, calibrated),
    )


def _answer(run: RunDirectory, metrics: Mapping[str, Any], calibrated: Mapping[str, Predictions]) -> Answer:
    pictures = tuple(
        reliability_chart(
            calibrated[split],
            title=split,
            caption=reliability_words(metrics, split),
            bins=metrics["ece_bins"],
            closed=metrics["ece_edges"],
            height=240,
            name=f"reliability-{split}",
        )
        for split in judged_splits(metrics)[:PICTURES]
    )
    return Answer(
        verdicts(metrics), next_steps(run.path, metrics, calibrated.get("validation")), (Beside(pictures),)
    )


def reliability_words(metrics: Mapping[str, Any], split: str) -> str:
    """Under a picture of the first screen."""
    values = metrics["splits"][split]["calibrated"]
    return (
        f"{values['n']:,} rows, after {scaling_words(metrics)}. On the dashed line, confidence is accuracy."
    )


def explorer(
    splits: Mapping[str, Predictions], metrics: Mapping[str, Any], rows: Mapping[str, Sequence[str]] | None
) -> Widget:
    target = DEFAULT_TARGET
    if "validation" in splits:  # that of the first screen's advice
        calibrated = splits["validation"].with_temperature(metrics.get("temperature", 1.0))
        target = certified(calibrated).target_accuracy
    return Widget(
        template="explorer.html",
        data=explorer_data(splits, metrics, rows) | {"target": target},
        scripts=EXPLORER_SCRIPTS,
        values={"splits": list(splits), "first": judged_splits(metrics)[0], "target": f"{100 * target:g}"},
    )


def _reliability_blocks(
    splits: Mapping[str, Predictions], calibrated: Mapping[str, Predictions], metrics: Mapping[str, Any]
) -> tuple[Block, ...]:
    """Every split before and after its calibrator, as pictures and tables: what prints."""
    binning = {"bins": metrics["ece_bins"], "closed": metrics["ece_edges"]}
    blocks: list[Block] = []
    for split, before in splits.items():
        stages = metrics["splits"][split]
        words = f"after {scaling_words(metrics)}"
        staged = (("uncalibrated", "raw", before), ("calibrated", words, calibrated[split]))
        charts = tuple(
            reliability_chart(
                predictions,
                title=f"{split}, {title}",
                caption=reliability_caption(stages, stage, predictions),
                name=f"reliability-{split}-{stage}",
                **binning,
            )
            for stage, title, predictions in staged
        )
        tables: list[Block] = []
        for _, title, predictions in staged:
            tables += [Prose(f"{split}, {title}:"), reliability_table(predictions, **binning)]
        blocks += [Beside(charts), Details(f"The bins of {split} as tables", tuple(tables))]
    return tuple(blocks)


def reliability_caption(stages: Mapping[str, Any], stage: str, predictions: Predictions) -> str:
    """What the diagram shows, in words: gap, ECE with interval, noise floor, and how far to trust them."""
    values = stages[stage]
    # Both as in the tables: of rows with weights or soft labels, neither is the mean of the diagram.
    said, right = values.get("mean_confidence", predictions.confidence().mean()), values["accuracy"]
    floor = f"{100 * values['ece_noise_floor']:.2f} % on average"
    if values.get("ece_noise_floor_p95") is not None:
        floor += f", up to {100 * values['ece_noise_floor_p95']:.2f} % in 95 of 100 draws"
    sentences = [
        f"ECE {ece_text(values)} %.",
        f"A perfectly calibrated model would show {floor} on {values['n']:,} rows.",
        f"Mean confidence {100 * said:.1f} %, accuracy {100 * right:.1f} %.",
    ]
    if is_within_noise(values):
        sentences.append(f"{WITHIN_NOISE_NOTE}.")
    if is_outside_interval(values):
        sentences.append(f"{OUTSIDE_NOTE}.")
    if is_in_sample(stages, stage):
        sentences.append(f"{capital(IN_SAMPLE_NOTE)}.")
    return " ".join(sentences)


def _training_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    history = metrics["history"]
    caption = (
        f"Training loss and validation NLL of every epoch. Epoch kept: {kept_by(metrics)}; test rows are not "
        "used for it."
    )
    said = "Uncalibrated ECE and error rate on the validation rows after every epoch."
    charts = Beside((history_chart(history, caption), error_chart(history, said)))
    notes = [note for note in (*learning_notes(metrics), regime(history)) if note]
    return (*(Prose(note, "note") for note in notes), charts, history_table(history))


def _dynamics_blocks(
    path: Path, metrics: Mapping[str, Any], texts: Mapping[str, str] | None
) -> tuple[Block, ...]:
    summary = DynamicsSummary.read(path, metrics.get("label_names", ()))
    drawn = f"{POINTS:,} of {len(summary):,} rows, drawn at random" if len(summary) > POINTS else "all rows"
    caption = (
        "Training rows by the probability of their label, averaged over the epochs, and how much "
        f"that varied ({drawn}). Rows low on the left were learned in no epoch: hard, or mislabelled."
    )
    blocks: list[Block] = [data_map_chart(summary, "Data map", caption)]
    if summary.has_regions:
        blocks.append(region_means_table(summary))
    blocks += [
        lowest_margin_table(summary, texts=texts),
        Prose(
            "A low AUM means that the label won by little, a negative one that another class had the larger "
            "logit on average. Look for wrong labels here first.",
            "note",
        ),
    ]
    return tuple(blocks)


def _reading_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    edge = {"right": "right-closed (a, b]", "left": "left-closed [a, b)"}[metrics["ece_edges"]]
    notes = [
        "The ECE of a finite sample is above zero even for a perfectly calibrated model. The noise floor is "
        "the mean ECE that such a model shows on these confidences: compare the ECE with it, not with 0.",
        f"ECE uses {metrics['ece_bins']} bins of equal width, {edge}, on the confidence of the predicted "
        "class. Values from other bins or edges are not comparable.",
        (
            "A temperature changes the confidence, not the predicted class: accuracy is the same before and "
            "after."
            if "temperature" in metrics
            else f"Calibrated by {scaling_words(metrics)}, which may change predicted classes."
        )
        + " The saved model contains it: plain softmax of its logits is calibrated.",
        "The calibrator was fitted in domain. On other data, look at the numbers of that data: calibration "
        "does not transfer by itself.",
    ]
    if any(stages["calibrated"].get("ci_includes_fit") for stages in metrics["splits"].values()):
        notes.append(
            "The intervals of calibrated metrics include the uncertainty of the fit: another validation set "
            "would have given another calibrator."
        )
    flattering = [split for split, stages in metrics["splits"].items() if is_in_sample(stages, "calibrated")]
    blocks: list[Block] = [Prose(note) for note in notes]
    if flattering:
        where = " and ".join(flattering)
        blocks.insert(0, Prose(f"The calibrated numbers of {where} are {IN_SAMPLE_NOTE}.", "warning"))
    return tuple(blocks)
