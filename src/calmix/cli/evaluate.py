"""`calmix evaluate`: how well calibrated are the predictions one already has?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calmix.cli.options import AsJson, Config, print_json, print_line
from calmix.user_error import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from calmix.calibration.file_evaluation import Source
    from calmix.report.tables import Table

# What stands in which of two tables where one does not fit the terminal.
SCORES = ("n", "accuracy", "nll", "brier", "aurc", "augrc")
ERRORS = ("ece", "ece_noise_floor", "adaptive_ece", "classwise_ece", "oe", "mce")
# What the title of the ECE says beside its name.
INTERVAL = " [95 %]"
COMPARED = ("accuracy", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "aurc")


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Predictions (.parquet .csv .tsv .jsonl .json .npz with 'label' and 'logits', 'logit_0'.., "
            "'probs' or 'prob_0'..) or runs.",
        ),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of equal width.")] = 15,
    edges: Annotated[str, typer.Option(help="Side on which a bin is closed: right or left.")] = "right",
    kind: Annotated[
        str, typer.Option(help="Whose confidence the errors measure: top_label, classwise or positive.")
    ] = "top_label",
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="95 % intervals and the noise floor.")
    ] = True,
    seed: Annotated[int, typer.Option(help="For the random draws behind the intervals.")] = 0,
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint directory (or a run) to predict --data with.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Labelled data for --model, as for train.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of --data. Default: text.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column of --data. Default: text_pair.")] = None,
    choices_column: Annotated[str | None, typer.Option(help="Column of --data. Default: choices.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of --data. Default: label.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of --data. Default: rows are numbered.")
    ] = None,
    image_column: Annotated[str | None, typer.Option(help="Column of --data. Default: image.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Longer texts are cut to this many tokens.")] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Also the mean prediction of all FILEs, split by split.")
    ] = False,
    mc_dropout: Annotated[
        int | None,
        typer.Option(help="Also the mean of so many passes with dropout on, of runs and --model."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Rows per batch of --model.")] = 64,
    device: Annotated[str, typer.Option(help="For --model: auto, cpu, cuda or mps.")] = "auto",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure calibration, with intervals; several files side by side, with paired differences.

    Example: calmix evaluate before.parquet after.parquet

    Example: calmix evaluate --ensemble run-0 run-1 run-2

    Example: calmix evaluate run --mc-dropout 10
    """
    from calmix.calibration.file_evaluation import evaluate_sources, open_sources

    sources: list[Source] = []
    notes: list[str] = []
    for place, path in enumerate(files or []):
        sources += open_sources(path, origin=place)
    settings = {"max_length": max_length, "batch_size": batch_size, "device": device}
    if ensemble:
        from calmix.calibration.ensemble import ensemble_sources

        ensembles, notes = ensemble_sources(sources, origin=len(files or []))
        sources += ensembles
    if mc_dropout is not None:
        dropped = _dropout_sources(files or [], mc_dropout, settings, seed=seed)
        if not dropped and model is None:
            raise UserError("--mc-dropout asks a network", remedy="name a run, or give --model and --data")
        sources += dropped
    if model is not None and data is not None:
        columns = {
            "text": text_column,
            "pair": pair_column,
            "choices": choices_column,
            "label": label_column,
            "id": id_column,
            "image": image_column,
        }
        sources += _predicted(model, data, columns, settings, mc_dropout, seed=seed, origin=len(sources))
    elif model is not None or data is not None:
        missing = "--data" if data is None else "--model"
        raise UserError("--model and --data belong together", remedy=f"give {missing} too")
    if not sources:
        raise UserError(
            "nothing to evaluate", remedy="name predictions files or runs, or give --model and --data"
        )
    result = evaluate_sources(
        sources,
        bins=bins,
        edges=edges,  # type: ignore[arg-type]  # any text may be typed; it is checked there
        kind=kind,  # type: ignore[arg-type]
        intervals=intervals,
        seed=seed,
    )
    if notes:
        result["notes"] = notes
    if as_json:
        print_json(result)
    else:
        _print(result)


def _dropout_sources(files: list[Path], passes: int, settings: dict[str, Any], *, seed: int) -> list[Source]:
    """The splits of every run again, with dropout on: by the saved model, and with its temperature undone."""
    from calmix.calibration.file_evaluation import Source
    from calmix.run import Run
    from calmix.training.mc_dropout import dropout_with_checkpoint
    from calmix.training.run_rows import rows_of_run

    made = []
    for place, path in enumerate(files):
        if not (path / "config.yaml").is_file():
            continue
        run = Run.open(path)
        metrics = run.metrics()
        temperature = float(metrics["temperature"])
        length = settings["max_length"] or run.config()["max_length"]
        remedy = "give the rows with --model RUN --data FILE"
        for split, rows in rows_of_run(run, remedy=remedy).items():
            found = dropout_with_checkpoint(
                run.model, rows, passes=passes, seed=seed, **{**settings, "max_length": length}
            )
            facts = {"mc_dropout": passes, "encoder_passes": found.encoder_passes}
            # The temperature was fitted on these very rows.
            fitted = {"in_sample": True} if metrics["splits"][split]["calibrated"].get("in_sample") else {}
            name = f"{run.path}:{split}, MC dropout"
            for stage, scale in (("calibrated", 1.0), ("uncalibrated", 1 / temperature)):
                predictions = found.predictions(rows, scale)
                is_calibrated = stage == "calibrated"
                title = name if is_calibrated else f"{name} (uncalibrated)"
                own = facts | (fitted if is_calibrated else {})
                made.append(Source(title, partial(list, [predictions]), place, split, stage, own))
    return made


def _predicted(
    model: Path,
    data: str,
    columns: dict[str, str | None],
    settings: dict[str, Any],
    mc_dropout: int | None,
    *,
    seed: int,
    origin: int,
) -> list[Source]:
    """What a checkpoint says about a labelled file; a run knows its own columns and length."""
    from calmix.calibration.file_evaluation import Source
    from calmix.data.columns import ColumnNames
    from calmix.data.embedded_images import PREFIX
    from calmix.data.reading import read_rows
    from calmix.models.loading import trained_labels
    from calmix.run import Run

    checkpoint = model
    if (model / "config.yaml").is_file():
        run = Run.open(model)
        trained = run.config()
        columns = {name: value or trained.get(f"{name}_column") for name, value in columns.items()}
        settings = {**settings, "max_length": settings["max_length"] or trained["max_length"]}
        checkpoint = run.model
    # Numbered under the name of the file, as the rows of a run are: `test.csv` meets the split `test`.
    name = Path(data.removeprefix(PREFIX)).name.split(".")[0] or "data"
    labels = trained_labels(checkpoint)
    rows = read_rows(data, "test", ColumnNames.from_options(**columns), labels, name=name)

    from calmix.training.prediction import as_predictions, predict_with_checkpoint

    predictions = as_predictions(predict_with_checkpoint(checkpoint, rows, **settings), rows)
    found = [Source(f"{model}:{data}", lambda: [predictions], origin)]
    if mc_dropout is not None:
        from calmix.training.mc_dropout import dropout_with_checkpoint

        passes = dropout_with_checkpoint(checkpoint, rows, passes=mc_dropout, seed=seed, **settings)
        mean = passes.predictions(rows)
        facts = {"mc_dropout": mc_dropout, "encoder_passes": passes.encoder_passes}
        found.append(Source(f"{model}:{data}, MC dropout", lambda: [mean], origin, facts=facts))
    return found


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    for table in _that_fit(console, result["files"]):
        console.print(table.to_rich())
    paired = [found for found in result["differences"] if found["metric"] in COMPARED]
    if paired:
        console.print(_difference_table(paired).to_rich())
    for found in result["differences"]:
        if found["metric"] is None:
            pair = f"{found['first']} and {found['second']}"
            print_line(console, f"{pair} are not compared: {found['reason']}")
    for note in result.get("notes", []):
        print_line(console, note)


def _that_fit(console: Console, files: list[dict[str, Any]]) -> list[Table]:
    """One table, or two narrower ones if the terminal is too narrow for it."""
    whole = _file_table(files, (*SCORES[:-1], *ERRORS))
    unlimited = console.options.update(max_width=10_000)
    if console.measure(whole.to_rich(), options=unlimited).maximum <= console.width:
        return [whole]
    return [_file_table(files, SCORES), _file_table(files, ERRORS)]


def _file_table(files: list[dict[str, Any]], keys: tuple[str, ...]) -> Table:
    from calmix.report.tables import (
        IN_SAMPLE,
        IN_SAMPLE_NOTE,
        METRICS,
        WITHIN_NOISE,
        WITHIN_NOISE_NOTE,
        Column,
        Table,
        ece_text,
        is_within_noise,
    )

    shown = [metric for metric in METRICS if metric.key in keys and metric.key in files[0]]
    has_intervals = "ece_ci" in files[0]
    titles = [metric.title if has_intervals else metric.title.removesuffix(INTERVAL) for metric in shown]
    rows = []
    for one in files:
        cells = {metric.key: metric.show(one[metric.key]) for metric in shown}
        if "ece" in cells:
            cells["ece"] = ece_text(one) + (
                f" {WITHIN_NOISE}" if has_intervals and is_within_noise(one) else ""
            )
        if "ece_noise_floor" in cells:
            cells["ece_noise_floor"] += f" ({100 * one['ece_noise_floor_p95']:.2f})"
        rows.append((one["file"] + (f" {IN_SAMPLE}" if one.get("in_sample") else ""), *cells.values()))
    marks = {WITHIN_NOISE: WITHIN_NOISE_NOTE, IN_SAMPLE: IN_SAMPLE_NOTE}
    text = "".join(cell for row in rows for cell in row)
    first = files[0]
    return Table(
        caption=f"{first['kind']}, {first['bins']} bins, closed on the {first['edges']}",
        columns=(
            Column("File", numeric=False),
            *(Column(title, metric.meaning) for title, metric in zip(titles, shown, strict=True)),
        ),
        rows=tuple(rows),
        notes=tuple(f"{mark} {note}" for mark, note in marks.items() if mark in text),
    )


def _difference_table(differences: list[dict[str, Any]]) -> Table:
    from calmix.report.tables import METRICS, Column, Table

    metrics = {metric.key: metric for metric in METRICS}
    rows = []
    for found in differences:
        metric = metrics[found["metric"]]
        limits = found["ci"]
        interval = "" if limits is None else f"[{', '.join(metric.show(limit) for limit in limits)}]"
        # An interval that does not hold 0 tells the two apart.
        apart = limits is not None and not limits[0] <= 0 <= limits[1]
        pair = f"{found['first']} − {found['second']}"
        title = metric.title.removesuffix(INTERVAL)
        rows.append((pair, title, metric.show(found["difference"]), interval, "*" if apart else ""))
    return Table(
        caption="Paired differences (first − second, same rows)",
        columns=(
            Column("Pair", numeric=False),
            Column("Metric", numeric=False),
            Column("Difference"),
            Column("95 %"),
            Column("", numeric=False),
        ),
        rows=tuple(rows),
        notes=("* the interval does not hold 0",) if any(row[-1] for row in rows) else (),
        grouped=True,
    )
