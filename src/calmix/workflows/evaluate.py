"""Measure the calibration of predictions: existing ones, those of a run, or of a model on labelled rows.

Predictions need no torch here; only `model=` and `mc_dropout=` load a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.runtime.option_values import parse_bins
from calmix.user_error import UserError, argument, check_least
from calmix.workflows.options import check_max_length
from calmix.workflows.result import DrawnResult, Record, place_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calmix.calibration.files.column_mapping import ColumnMapping
    from calmix.calibration.files.file_evaluation import Source
    from calmix.calibration.metrics.binning import Closed
    from calmix.calibration.predictions import Notion, Predictions
    from calmix.io.table import DataTable
    from calmix.report.tables import Table

# What is in which of two tables where one does not fit.
SCORES = ("n", "accuracy", "nll", "brier", "aurc", "augrc")
ERRORS = ("ece", "ece_noise_floor", "adaptive_ece", "classwise_ece", "oe", "mce")
COMPARED = ("accuracy", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "aurc")
PLACE = ("file", "stage")


class Evaluation(DrawnResult, Mapping[str, Any]):
    """The metrics of one or several sets of predictions, and the paired differences of those that hold the
    same rows.

    Of a single set the metrics are there by name, `evaluation["ece"]` or `evaluation.ece`; of several,
    `evaluation.files[0].ece`. `as_dict()` is what `calmix evaluate --json` prints.
    """

    def __init__(
        self,
        result: Mapping[str, Any],
        sources: Sequence[Source] = (),
        binning: Mapping[str, Any] | None = None,
    ) -> None:
        self._result = dict(result)
        self._sources = tuple(sources)
        self._binning = dict(binning or {})
        self.files = tuple(Record(found) for found in result["files"])
        self.differences: list[dict[str, Any]] = list(result["differences"])
        self.slices: list[dict[str, Any]] = list(result.get("slices", []))
        self.notes: list[str] = list(result.get("notes", []))

    def as_dict(self) -> dict[str, Any]:
        return self._result

    @property
    def metrics(self) -> Record:
        """Those of the only set there is."""
        if len(self.files) != 1:
            raise UserError(
                f"{len(self.files)} sets of predictions were evaluated", remedy="take one of .files"
            )
        return Record({name: value for name, value in self.files[0].items() if name not in PLACE})

    def __getitem__(self, name: str) -> Any:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.metrics, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sources": ()}  # how to read them is no data

    def plot_reliability(self, place: int = 0) -> Figure:
        """The reliability diagram of a set of predictions, by its place in `.files`, as a matplotlib figure:
        `.savefig("reliability.pdf")`."""
        from calmix.calibration.integrations.reliability_figure import reliability_figure

        name, predictions = self._rows_of(place)
        return reliability_figure(predictions, title=name, **self._binning)

    def plot_risk_coverage(self, place: int = 0) -> Figure:
        """The error rate among the rows that are accepted, as a matplotlib figure."""
        from calmix.report.figures.risk_coverage_figure import risk_coverage_figure

        name, predictions = self._rows_of(place)
        return risk_coverage_figure(predictions, title=name)

    def figures(self) -> dict[str, Figure]:
        """Two of every set of predictions; each row counts once, whatever its weight."""
        from calmix.report.figures.files import file_name

        figures: dict[str, Figure] = {}
        for place, source in enumerate(self._sources):
            name = file_name(source.name)
            if f"reliability-{name}" in figures:
                name = f"{name}-{place + 1}"
            figures[f"reliability-{name}"] = self.plot_reliability(place)
            figures[f"risk-coverage-{name}"] = self.plot_risk_coverage(place)
        return figures

    def _rows_of(self, place: int) -> tuple[str, Predictions]:
        from calmix.calibration.files.file_evaluation import joined

        if not 0 <= place < len(self._sources):
            raise UserError(
                f"there is no set of predictions at place {place}",
                remedy=f"give one of the {len(self._sources)} places from 0 on",
            )
        source = self._sources[place]
        return Path(source.name).name, joined(source)

    def tables(self) -> list[Table]:
        if self._result.get("multi_label"):
            from calmix.report.label_tables import label_evaluation_tables

            return label_evaluation_tables(self._result)

        from calmix.report.evaluation_tables import difference_table, file_table, slice_table

        paired = [found for found in self.differences if found["metric"] in COMPARED]
        shown = [file_table(self._result["files"], SCORES), file_table(self._result["files"], ERRORS)]
        slices = [slice_table(found) for found in self.slices]
        return [*shown, *([difference_table(paired)] if paired else []), *slices]

    def lines(self) -> list[str]:
        apart = [found for found in self.differences if found["metric"] is None]
        return [
            *(f"{one['first']} and {one['second']} are not compared: {one['reason']}" for one in apart),
            *(sentence for found in self.slices for sentence in found["sentences"]),
            *self.notes,
        ]


def evaluate(
    *sources: Any,
    model: Any = None,
    data: Any = None,
    from_logits: bool | None = None,
    bins: int | str | Sequence[int] = 15,
    closed: Closed = "right",
    notion: Notion = "top_label",
    intervals: bool = True,
    seed: int = 0,
    slice: str | None = None,
    ensemble: bool = False,
    mc_dropout: int | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    choices_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    image_column: str | None = None,
    prob_columns: str | Sequence[str] | None = None,
    logit_columns: str | Sequence[str] | None = None,
    class_names: str | Sequence[str] | None = None,
    positive_class: str | None = None,
    weight_column: str | None = None,
    multi_label: bool = False,
    label_separator: str | None = None,
    label_columns: str | Sequence[str] | None = None,
    max_length: int | None = None,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> Evaluation:
    """Measure calibration, with intervals; several sources side by side, with paired differences.

        calmix.evaluate(predictions).ece
        calmix.evaluate((scores, labels), from_logits=True)
        calmix.evaluate("before.parquet", "after.parquet").differences
        calmix.evaluate({"plain": first, "mixup": second})
        calmix.evaluate(run); calmix.evaluate(model="checkpoint", data=frame)

    sources: `Predictions`, (scores, labels) with `from_logits` saying what the scores are, predictions files,
    a `Run` or its directory; or one dict of them by name. With `model` and `data`, what a checkpoint or a run
    says about labelled rows. `slice` names a column of the files or of `data`: every metric per value of it,
    in `.slices`. Where rows have several labels (`MultiLabelPredictions`, files with lists of labels, runs),
    `.per_label`, `.macro` and `.micro` hold the metrics; `multi_label`, `label_separator` and `label_columns`
    say it of files that do not. The options are those of `calmix evaluate --help`.

    >>> from calmix import Predictions
    >>> found = evaluate(Predictions.from_probabilities([[0.9, 0.1], [0.8, 0.2]], [0, 1]), bins=1)
    >>> found["n"], found.accuracy, round(found.ece, 4)
    (2, 0.5, 0.35)
    """
    check_least("seed", seed, 0)
    check_least("batch_size", batch_size, 1)
    check_max_length(max_length)
    counts = parse_bins(bins)
    if (model is None) != (data is None):
        missing = argument("data" if data is None else "model")
        raise UserError(
            f"{argument('model')} and {argument('data')} belong together", remedy=f"give {missing} too"
        )

    from calmix.calibration.files.column_mapping import ColumnMapping
    from calmix.calibration.files.file_evaluation import evaluate_sources

    notes: list[str] = []
    mapping = ColumnMapping.from_options(
        # With `data` these two may mean its columns alone.
        label_column=None if data is not None else label_column,
        id_column=None if data is not None else id_column,
        prob_columns=prob_columns,
        logit_columns=logit_columns,
        class_names=class_names,
        positive_class=positive_class,
        weight_column=None if data is not None else weight_column,
        multi_label=multi_label,
        label_separator=label_separator,
        label_columns=label_columns,
    )
    columns = {
        "text": text_column, "pair": pair_column, "choices": choices_column, "label": label_column,
        "id": id_column, "image": image_column, "weight": weight_column,
    }  # fmt: skip
    settings = {
        "max_length": max_length, "batch_size": batch_size, "device": device,
        "trust_remote_code": trust_remote_code,
    }  # fmt: skip
    measuring: dict[str, Any] = {
        "bins": counts, "closed": closed, "notion": notion, "intervals": intervals, "seed": seed,
    }  # fmt: skip
    named = named_sources(sources, from_logits)
    asked_of = {"slice": slice, "ensemble": ensemble or None, "mc_dropout": mc_dropout}
    from calmix.workflows.multi_label import evaluate_multi_label, is_multi_label

    if is_multi_label([*named.values(), *([] if model is None else [model])], mapping):
        return Evaluation(
            evaluate_multi_label(
                named,
                mapping,
                from_logits,
                None if model is None else (model, data),
                columns,
                settings,
                refused=[name for name, value in asked_of.items() if value is not None],
                **measuring,
            )
        )
    opened: list[Source] = [
        source
        for place, (name, given) in enumerate(named.items())
        for source in open_given(given, name, place, mapping, from_logits, notes)
    ]
    places = list(named.values())
    sliced: list[tuple[Source, Any]] = [(source, places[source.origin]) for source in opened]
    if ensemble:
        from calmix.calibration.files.ensemble import ensemble_sources

        ensembles, left_out = ensemble_sources(opened, origin=len(named))
        opened += ensembles
        notes += left_out
    if mc_dropout is not None:
        opened += dropout_of(named, mc_dropout, settings, seed, is_enough=model is None)
    if model is not None:
        asked = (columns, settings, mc_dropout, seed, len(opened))
        predictions, table = predicted_by(model, data, *asked, reads_table=slice is not None)
        sliced.append((predictions[0], table))
        opened += predictions
    if not opened:
        raise UserError(
            "nothing to evaluate",
            remedy=f"name predictions files or runs, or give {argument('model')} and {argument('data')}",
        )
    result = evaluate_sources(opened, **measuring)
    if slice is not None:
        from calmix.workflows.slices import evaluate_source_slices

        result["slices"] = evaluate_source_slices(sliced, slice, **measuring)
    if notes:
        result["notes"] = list(dict.fromkeys(notes))  # a file that is read twice says things twice
    return Evaluation(result, opened, {"bins": counts[0], "closed": closed})


def dropout_of(
    named: Mapping[str, Any], passes: int, settings: dict[str, Any], seed: int, *, is_enough: bool
) -> list[Source]:
    """The runs among the sources under MC dropout. Where it `is_enough`, there must be one."""
    from calmix.inference.network_sources import dropout_sources

    runs = {place: path for place, given in enumerate(named.values()) if (path := place_of(given))}
    dropped = dropout_sources(runs, passes, settings, seed=seed)
    if not dropped and is_enough:
        raise UserError(
            f"{argument('mc_dropout')} needs a network",
            remedy=f"name a run, or give {argument('model')} and {argument('data')}",
        )
    return dropped


def predicted_by(
    model: Any,
    data: Any,
    columns: dict[str, str | None],
    settings: dict[str, Any],
    mc_dropout: int | None,
    seed: int,
    origin: int,
    *,
    reads_table: bool,
) -> tuple[list[Source], DataTable | None]:
    """What a checkpoint or a run says about labelled rows, and all columns of these rows if asked."""
    from calmix.data.columns import ColumnNames
    from calmix.data.sources import read_source
    from calmix.inference.network_sources import predicted_sources
    from calmix.workflows.data_arguments import GivenData
    from calmix.workflows.run import model_directory

    given = GivenData(ColumnNames.from_options(**columns))  # rows in memory live as long as this
    held, place = given.source(data, "data"), model_directory(model, "model")
    found = predicted_sources(place, held, columns, settings, mc_dropout, seed=seed, origin=origin)
    return found, read_source(held, "test") if reads_table else None


def named_sources(sources: Sequence[Any], from_logits: bool | None) -> dict[str, Any]:
    """The sources by what tables call them."""
    if len(sources) == 1 and isinstance(sources[0], Mapping):
        return {str(name): given for name, given in sources[0].items()}
    if from_logits is not None and len(sources) == 2 and not any(map(is_whole, sources)):
        sources = [tuple(sources)]  # evaluate(scores, labels)
    named: dict[str, Any] = {}
    for number, given in enumerate(sources, start=1):
        path = place_of(given)
        name = (
            str(path) if path is not None else "predictions" if len(sources) == 1 else f"predictions {number}"
        )
        while name in named:  # a file may be named twice
            name += " "
        named[name] = given
    return named


def is_whole(given: Any) -> bool:
    """Whether an argument is a source of its own, not scores or labels alone."""
    from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
    from calmix.calibration.predictions import Predictions

    return isinstance(given, Predictions | MultiLabelPredictions | tuple) or place_of(given) is not None


def open_given(
    given: Any, name: str, place: int, mapping: ColumnMapping, from_logits: bool | None, notes: list[str]
) -> list[Source]:
    """One argument as sources: a run has two for every split."""
    from calmix.calibration.files.file_evaluation import Source, open_sources
    from calmix.calibration.metrics.scores import as_predictions
    from calmix.calibration.predictions import Predictions

    path = place_of(given)
    if path is not None:
        opened = open_sources(path, origin=place, columns=mapping, note=notes.append)
        if len(opened) == 1 and name.strip() != str(path):
            opened = [Source(name, opened[0].batches, place)]
        return opened
    if isinstance(given, tuple) and len(given) == 2:
        if from_logits is None:
            raise UserError(
                "unknown whether the scores are logits or probabilities",
                remedy="give from_logits=True, or False for probabilities",
            )
        names = mapping.class_names or None
        try:
            given = as_predictions(*given, from_logits=from_logits, class_names=names)
        except ValueError as error:
            raise UserError(str(error), file=name) from None
    if not isinstance(given, Predictions):
        raise UserError(
            f"{type(given).__name__} cannot be evaluated",
            remedy="give Predictions, (scores, labels), a predictions file or a run",
        )
    return [Source(name, partial(list, [given]), place)]
