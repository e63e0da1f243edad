"""`report.html`: one run on one page, from the files of its directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.io.run_directory import RunDirectory
from calmix.printable import duration
from calmix.report.dynamics_summary import (
    POINTS,
    DynamicsSummary,
    data_map_figure,
    lowest_margin_table,
    region_means_table,
)
from calmix.report.guidance import guidance_blocks
from calmix.report.history import error_figure, history_figure, history_table
from calmix.report.learning import TITLE, has_not_learned, learning_blocks
from calmix.report.page import (
    Beside,
    Block,
    Chart,
    Code,
    Details,
    Fact,
    Facts,
    Page,
    Prose,
    Section,
    write_page,
)
from calmix.report.reliability import reliability_figure, reliability_table
from calmix.report.risk_coverage import risk_coverage_figure
from calmix.report.tables import (
    IN_SAMPLE_NOTE,
    METRICS,
    OUTSIDE_NOTE,
    WITHIN_NOISE_NOTE,
    Column,
    Table,
    ece_text,
    is_in_sample,
    is_outside_interval,
    is_within_noise,
    metrics_table,
)
from calmix.training.epoch_rules import NLL_AFTER_TEMPERATURE, TITLES
from calmix.user_error import UserError

if TYPE_CHECKING:
    from calmix.calibration.predictions import Predictions

AT_BOUND = {
    "lower": "at its lower bound: the validation rows are (nearly) all right, so sharper always looks better",
    "upper": "at its upper bound: the logits say (nearly) nothing about the validation labels",
}


def write_run_report(
    run: RunDirectory, *, metrics: Mapping[str, Any] | None = None, texts: Mapping[str, str] | None = None
) -> Path:
    """Write `report.html` of a run.

    `metrics`: the content of `metrics.json`, for a caller that writes that file last. `texts`: row id to text
    of training rows, shown beside the rows that are probably mislabelled; read again from the training file
    if left out, since the run directory holds no texts.
    """
    metrics = run.metrics() if metrics is None else metrics
    texts = training_texts(run) if texts is None else texts
    return write_page(run_page(run, metrics, texts), run.report_file)


def training_texts(run: RunDirectory) -> dict[str, str] | None:
    """Row id to text of the training file, if it can still be read."""
    config = run.config()
    names = {
        name: config.get(f"{name}_column") for name in ("text", "pair", "choices", "label", "id", "image")
    }
    try:
        rows = read_rows(config["train"], "train", ColumnNames.from_options(**names))
    except (UserError, KeyError):
        return None
    return dict(zip(rows.row_ids.tolist(), rows.texts(), strict=True))


def run_page(run: RunDirectory, metrics: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> Page:
    """The report as data."""
    sections = [Section(TITLE, learning_blocks(metrics))] if has_not_learned(metrics) else []
    sections.append(Section("Metrics", _metrics_blocks(metrics)))
    sections += [
        Section(f"Reliability: {split}", _split_blocks(predictions_of_run(run, split), split, metrics))
        for split in metrics["splits"]
    ]
    if metrics.get("history"):
        sections.append(Section("Training", _training_blocks(metrics)))
    if run.guidance_file.is_file():
        title = "Stages" if "plain_run" in run.guidance() else "Groups of rows"
        sections.append(Section(title, guidance_blocks(run, metrics, texts)))
    if run.dynamics_file.is_file():
        sections.append(Section("Training dynamics", _dynamics_blocks(run.dynamics_file, metrics, texts)))
    sections.append(Section("Data checks", _check_blocks(metrics)))
    sections.append(Section("How to read this", _reading_blocks(metrics)))
    sections.append(Section("Configuration", _configuration_blocks(run)))
    return Page(
        title=f"{run.path.resolve().name}: {metrics['method']}, seed {metrics['seed']}",
        lead=lead(metrics),
        facts=_headline(run, metrics),
        sections=tuple(sections),
    )


def lead(metrics: Mapping[str, Any]) -> str:
    """The run in two sentences, from the first split that calibration was not fitted on."""
    splits = metrics["splits"]
    unseen = [split for split, stages in splits.items() if not is_in_sample(stages, "calibrated")]
    split = (unseen or list(splits))[0]
    before, after = splits[split]["uncalibrated"], splits[split]["calibrated"]
    noise = (
        " That is within the noise floor: not significantly different from perfect calibration at this "
        "sample size."
        if is_within_noise(after)
        else ""
    )
    verdict = f"{TITLE}. " if has_not_learned(metrics) else ""
    return (
        f"{verdict}On {split} the model is right on {100 * after['accuracy']:.1f} % of {after['n']:,} rows. "
        f"Its expected calibration error is {100 * before['ece']:.2f} % before temperature scaling and "
        f"{100 * after['ece']:.2f} % after temperature scaling.{noise}"
    )


def _headline(run: RunDirectory, metrics: Mapping[str, Any]) -> Facts:
    chosen = [entry["epoch"] for entry in metrics.get("history", []) if entry.get("chosen")]
    epochs = len(metrics.get("history", []))
    sizes = metrics.get("sizes", {})
    model = str(metrics["model"])
    is_directory = Path(model).is_absolute()
    facts = [
        Fact("Method", str(metrics["method"])),
        *teacher_facts(metrics),
        Fact("Model", Path(model).name, model) if is_directory else Fact("Model", model),
        Fact("Temperature", f"{metrics['temperature']:.3f}", temperature_note(run, metrics)),
        Fact("Seed", str(metrics["seed"])),
        Fact("Time", duration(metrics["seconds"]), f"on {metrics['device']}"),
    ]
    if "train" in sizes:
        facts.append(Fact("Training rows", f"{sizes['train']:,}", f"{len(metrics['label_names'])} classes"))
    if chosen:
        facts.append(Fact("Epoch kept", f"{chosen[0]:g} of {epochs}", kept_by(metrics)))
    return Facts(tuple(facts))


def kept_by(metrics: Mapping[str, Any]) -> str:
    """By what the epoch was kept; runs of earlier versions knew one rule.

    >>> kept_by({}), kept_by({"select_by": "last"})
    ('by validation NLL after temperature scaling', 'the last epoch')
    """
    return TITLES[metrics.get("select_by", NLL_AFTER_TEMPERATURE)]


def teacher_facts(metrics: Mapping[str, Any]) -> list[Fact]:
    """Who taught a student, and how."""
    taught = metrics.get("distillation")
    if not taught:
        return []
    names = [str(teacher["name"]) for teacher in taught["teachers"]]
    stage = "calibrated" if taught["teacher_temperature"] else "uncalibrated"
    answers = f"its {stage} predictions"
    if len(names) > 1:
        answers = answers.replace("its", "the mean of their", 1)
    places = ", ".join(name for name in names if Path(name).is_absolute())
    extra = f"{taught['unlabelled']:,} unlabelled rows" if taught["unlabelled"] else ""
    return [
        Fact(
            "Teacher",
            ", ".join(Path(name).name for name in names),
            "; ".join(filter(None, (answers, places))),
        ),
        Fact(
            "Distillation",
            f"τ = {taught['distill_temperature']:g}, α = {taught['label_weight']:g}",
            extra or "α weighs the labels",
        ),
    ]


def temperature_note(run: RunDirectory, metrics: Mapping[str, Any]) -> str:
    """What the temperature says about the network, and whether its search ended at a bound."""
    fitted = run.calibration() if run.calibration_file.is_file() else {}
    bound = fitted.get("at_bound")
    if bound:
        return AT_BOUND[bound]
    if metrics["temperature"] > 1:
        return "above 1: the network claimed too much"
    return "below 1: the network claimed too little" if metrics["temperature"] < 1 else "nothing to correct"


def _metrics_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    meanings = Table(
        caption="What the columns mean; every one but accuracy is better when smaller",
        columns=(Column("Metric", numeric=False), Column("Meaning", numeric=False)),
        rows=tuple((metric.title, metric.meaning) for metric in METRICS if metric.key != "n"),
    )
    return metrics_table(metrics), Details("What the columns mean", (meanings,))


def _split_blocks(before: Predictions, split: str, metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    after = before.with_temperature(metrics["temperature"])
    binning = {"bins": metrics["ece_bins"], "closed": metrics["ece_edges"]}
    stages = metrics["splits"][split]
    charts = []
    tables: list[Block] = []
    for stage, title, predictions in (
        ("uncalibrated", "Raw", before),
        ("calibrated", "After temperature scaling", after),
    ):
        caption = reliability_caption(stages, stage, predictions)
        charts.append(
            Chart(
                figure=reliability_figure(predictions, **binning),
                title=title,
                caption=caption,
                description=f"Reliability diagram of {split}, {stage}. {caption}",
            )
        )
        tables += [Prose(f"{title}:"), reliability_table(predictions, **binning)]
    aurc = f"AURC {stages['uncalibrated']['aurc']:.4f} before, {stages['calibrated']['aurc']:.4f} after."
    charts.append(
        Chart(
            figure=risk_coverage_figure(before, after),
            title="Risk and coverage",
            caption=f"The error rate when only the most confident rows are accepted. {aurc} The dashed line "
            "is the error rate when every row is accepted.",
            description=f"Risk-coverage curve of {split}. {aurc}",
        )
    )
    return Beside(tuple(charts)), Details("The bins as tables", tuple(tables))


def reliability_caption(stages: Mapping[str, Any], stage: str, predictions: Predictions) -> str:
    """What the diagram shows, in words: gap, ECE with interval, noise floor, and how far to trust them."""
    values = stages[stage]
    said, right = float(predictions.confidence().mean()), values["accuracy"]
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
        sentences.append(f"{IN_SAMPLE_NOTE[0].upper()}{IN_SAMPLE_NOTE[1:]}.")
    return " ".join(sentences)


def _training_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    history = metrics["history"]
    caption = (
        "Training loss and validation NLL of every epoch. The epoch with the lowest validation NLL after "
        "temperature scaling is kept; test rows have no part in the choice."
    )
    chart = Chart(history_figure(history), "Loss by epoch", caption, f"Line chart. {caption}")
    said = "Uncalibrated ECE and error rate on the validation rows after every epoch."
    errors = Chart(error_figure(history), "Calibration by epoch", said, f"Line chart. {said}")
    return Beside((chart, errors)), history_table(history)


def _dynamics_blocks(
    path: Path, metrics: Mapping[str, Any], texts: Mapping[str, str] | None
) -> tuple[Block, ...]:
    summary = DynamicsSummary.read(path, metrics.get("label_names", ()))
    drawn = f"{POINTS:,} of {len(summary):,} rows, drawn at random" if len(summary) > POINTS else "all rows"
    caption = (
        "Training rows by the probability of their label, averaged over the epochs, and how much "
        f"that varied ({drawn}). Rows low on the left were learned in no epoch: hard, or mislabelled."
    )
    blocks: list[Block] = [
        Chart(data_map_figure(summary), "Data map", caption, f"Scatter chart of the training rows. {caption}")
    ]
    if summary.has_regions:
        blocks.append(region_means_table(summary))
    blocks += [
        lowest_margin_table(summary, texts=texts),
        Prose(
            "A low AUM means that another class won over the label in most epochs: look here first.", "note"
        ),
    ]
    return tuple(blocks)


def _check_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    checks = metrics.get("data_checks")
    if checks is None:
        return (Prose("The run recorded no data checks."),)
    if not checks:
        return (Prose("The data were checked before training and nothing was found."),)
    table = Table(
        caption="What was found in the data before training",
        columns=(
            Column("Severity", numeric=False),
            Column("Split", numeric=False),
            Column("Finding", numeric=False),
            Column("Rows"),
        ),
        rows=tuple(
            (
                str(check["severity"]),
                str(check.get("split") or "–"),
                str(check["message"]),
                f"{check['count']:,}" if check.get("count") is not None else "–",
            )
            for check in checks
        ),
    )
    return (table,)


def _reading_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    edge = {"right": "right-closed (a, b]", "left": "left-closed [a, b)"}[metrics["ece_edges"]]
    notes = [
        "The ECE of a finite sample is above zero even for a perfect model. The noise floor is what such a "
        "model shows when correctness is drawn with the stated confidences; compare to it, not to 0.",
        f"ECE uses {metrics['ece_bins']} bins of equal width, {edge}, on the confidence of the predicted "
        "class. Values from other bins or edges are not comparable.",
        "A temperature changes the confidence, not the predicted class: accuracy is the same "
        "before and after. The saved model carries it: plain softmax of its logits is calibrated.",
        "The temperature was fitted in domain. On other data, read the numbers of that data: calibration "
        "does not carry over by itself.",
    ]
    flattering = [split for split, stages in metrics["splits"].items() if is_in_sample(stages, "calibrated")]
    blocks: list[Block] = [Prose(note) for note in notes]
    if flattering:
        where = " and ".join(flattering)
        blocks.insert(0, Prose(f"The calibrated numbers of {where} are {IN_SAMPLE_NOTE}.", "warning"))
    return tuple(blocks)


def _configuration_blocks(run: RunDirectory) -> tuple[Block, ...]:
    config = run.config()
    verb = "distill" if config.get("teacher") else "train"
    return (
        Prose("The same run again:"),
        Code(f"calmix {verb} --config config.yaml --output NEW_RUN"),
        Prose("config.yaml:"),
        Code(yaml.safe_dump(config, sort_keys=False, allow_unicode=True).rstrip()),
    )
