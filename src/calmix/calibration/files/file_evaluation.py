"""Evaluate predictions files and runs side by side, with paired differences where they hold the same rows.

Rows are matched by their ids where both sides have ids, in any order; otherwise by position, if there are
equally many and their labels agree. Classes are matched by name: what is compared with an earlier argument is
measured with its classes in that one's order. Where rows or classes cannot be matched, the reason stands in
place of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from calmix.calibration.class_names import listed
from calmix.calibration.differences import (
    DifferentRows,
    MatchedBy,
    match_classes,
    match_rows,
    measured_differences,
)
from calmix.calibration.evaluation import Measured, evaluate
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_files import Note, iterate_predictions, warn
from calmix.calibration.integrations.streaming import RowFingerprint, StreamedEvaluation, evaluate_batches
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.calibration.fit_uncertainty import FitUncertainty

# Files whose rows are in different orders are read whole to be matched; beyond this many rows they are not.
MOST_REORDERED = 2_000_000


@dataclass(frozen=True, eq=False)
class SourceFit:
    """How uncertain a calibrator is, and the predictions that it was applied to."""

    uncertainty: Callable[[], FitUncertainty]
    before: Callable[[], Iterable[Predictions]]

    def widened(self, result: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        """The result with intervals that include the fit."""
        from calmix.calibration.fit_uncertainty import MOST_ROWS

        stride = math.ceil(result["n"] / MOST_ROWS)
        parts = [batch.select(np.arange(0, len(batch), stride)) for batch in self.before()]
        asked = {name: value for name, value in settings.items() if name != "intervals"}
        return self.uncertainty().widened(result, together(parts), **asked)


@dataclass(frozen=True, eq=False)
class Source:
    """One set of predictions to evaluate: its name, and how to read it (from the start, every time)."""

    name: str
    batches: Callable[[], Iterable[Predictions]]
    origin: int = 0
    """The place of the argument it comes from."""
    split: str | None = None
    stage: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    fit: SourceFit | None = None
    """Of the calibrator that made it, where the rows that this was fitted on are others and known."""


class Placed(Protocol):
    """Where a source comes from."""

    @property
    def origin(self) -> int: ...
    @property
    def split(self) -> str | None: ...
    @property
    def stage(self) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What was found for a source; enough to compare it with another."""

    source: Source
    rows: RowFingerprint
    measured: Measured
    result: dict[str, Any]
    is_weighted: bool = False
    """Rows with weights or soft labels are measured, not compared."""


def open_sources(
    path: Path, *, origin: int = 0, columns: ColumnMapping | None = None, note: Note = warn
) -> list[Source]:
    """A predictions file as it is, or every split of a run, calibrated and uncalibrated."""
    if not path.is_dir():
        return [Source(str(path), lambda: iterate_predictions(path, columns, note=note), origin)]
    if (path / "config.json").is_file() and not (path / "config.yaml").is_file():
        raise UserError(
            "a checkpoint holds no predictions",
            file=path,
            remedy=f"give {argument('model', path)} and the rows to predict with {argument('data', 'FILE')}",
        )
    return list(_run_sources(RunDirectory.open(path), origin))


def _run_sources(run: RunDirectory, origin: int) -> Iterator[Source]:
    # Not above: calibrators are scikit-learn estimators, which takes a second to load.
    from calmix.calibration.files.run_predictions import (
        apply_calibrator,
        calibrator_of_run,
        predictions_of_run,
    )
    from calmix.calibration.fit_uncertainty import FitUncertainty

    metrics, calibrator = run.metrics(), calibrator_of_run(run)

    @cache
    def uncertainty() -> FitUncertainty:
        return FitUncertainty.of(calibrator, predictions_of_run(run, "validation"))

    for split, stages in metrics["splits"].items():
        file = run.predictions_file(split)
        run.check_undamaged(f"predictions/{split}.parquet")

        def calibrated(file: Path = file) -> Iterator[Predictions]:
            return (apply_calibrator(calibrator, batch) for batch in iterate_predictions(file))

        def uncalibrated(file: Path = file) -> Iterator[Predictions]:
            return iterate_predictions(file)

        # The calibrator was fitted on these very rows.
        facts = {"in_sample": True} if stages["calibrated"].get("in_sample") else {}
        name = f"{run.path}:{split}"
        fit = SourceFit(uncertainty, uncalibrated) if stages["calibrated"].get("ci_includes_fit") else None
        yield Source(name, calibrated, origin, split, "calibrated", facts, fit)
        yield Source(f"{name} (uncalibrated)", uncalibrated, origin, split, "uncalibrated")


def evaluate_sources(sources: Sequence[Source], *, seed: int = 0, **settings: Any) -> dict[str, Any]:
    """The metrics of every source, and the paired differences of those that hold the same rows;
    `settings` are those of `RunningEvaluation`.

    Gives `{"files": [{"file": ..., <the keys of evaluate>}], "differences": [...]}`. A run has two entries
    for each of its splits, distinguished by `stage`: `calibrated`, what the saved model says, and
    `uncalibrated`, before temperature scaling. A difference is `{"first", "second", "matched_by", "metric",
    "difference", "ci"}` with first - second; where rows do not match, all but the names are None, and
    `reason` says why.
    """
    try:
        StreamedEvaluation(**settings)
    except ValueError as error:
        raise UserError(str(error)) from None
    evaluated: list[Evaluated] = []
    for source in sources:
        orders = [other.rows.class_names for other in evaluated if are_comparable(other.source, source)]
        evaluated.append(_evaluate(source, in_known_order(source.batches(), orders), settings, seed))
    differences: list[dict[str, Any]] = []
    for first, second in combinations(evaluated, 2):
        if are_comparable(first.source, second.source):
            differences += _differences(first, second, settings, seed)
    return {"files": [one.result for one in evaluated], "differences": differences}


def in_known_order(
    batches: Iterable[Predictions], orders: Sequence[tuple[str, ...]]
) -> Iterator[Predictions]:
    """The batches with their classes in the first of these orders that is one of theirs; else as they are.

    >>> given = Predictions.from_logits([[1.0, 2.0]], [0], class_names=["dog", "cat"])
    >>> [batch.class_names for batch in in_known_order([given], [("cat", "fox"), ("cat", "dog")])]
    [('cat', 'dog')]
    """
    chosen: tuple[str, ...] | None = None
    for batch in batches:
        if chosen is None:
            chosen = next((order for order in orders if _has_classes(batch, order)), batch.class_names)
        yield batch if chosen == batch.class_names else match_classes(batch, chosen)


def _has_classes(predictions: Predictions, order: tuple[str, ...]) -> bool:
    try:
        return match_classes(predictions, order).class_names == order
    except DifferentRows:
        return False


def are_comparable(first: Placed, second: Placed) -> bool:
    """Whether a reader would ask for the difference: two files, two stages of a split, a split of two runs.

    A file meets what the saved model of a run says.
    """
    if first.origin == second.origin:
        return first.split == second.split
    if first.split is None or second.split is None:
        return "uncalibrated" not in (first.stage, second.stage)
    return (first.split, first.stage) == (second.split, second.stage)


def _evaluate(
    source: Source, batches: Iterable[Predictions], settings: dict[str, Any], seed: int
) -> Evaluated:
    remaining = iter(batches)
    first = list(islice(remaining, 1))
    if first and first[0].is_weighted:
        return _evaluate_weighted(source, settings, seed)
    try:
        evaluation = evaluate_batches(chain(first, remaining), **settings)
    except ValueError as error:
        raise UserError(str(error), file=source.name) from None
    named = {"file": source.name} | ({} if source.stage is None else {"stage": source.stage})
    found = with_fit(source, evaluation.result(seed=seed), settings)
    result = named | found | source.facts
    return Evaluated(source, evaluation.fingerprint, evaluation.measure(seed), result)


def _evaluate_weighted(source: Source, settings: dict[str, Any], seed: int) -> Evaluated:
    rows = joined(source)
    try:
        measured = with_fit(source, evaluate(rows, seed=seed, **settings), settings)
        plain = StreamedEvaluation(**settings)
        plain.update(replace(rows, weights=None, targets=None))
    except ValueError as error:
        raise UserError(str(error), file=source.name) from None
    named = {"file": source.name} | ({} if source.stage is None else {"stage": source.stage})
    return Evaluated(source, plain.fingerprint, ({}, {}, {}), named | measured | source.facts, True)


def with_fit(source: Source, result: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a source; its intervals include the fit of its calibrator, where that is known."""
    return result if source.fit is None or not settings["intervals"] else source.fit.widened(result, settings)


def _differences(
    first: Evaluated, second: Evaluated, settings: dict[str, Any], seed: int
) -> list[dict[str, Any]]:
    names = {"first": first.source.name, "second": second.source.name}
    try:
        if first.is_weighted or second.is_weighted:
            raise DifferentRows("rows with weights or soft labels are measured one set at a time")
        matched_by = same_order(first.rows, second.rows)
        other = second.measured
        if matched_by is None:
            rows, matched_by = match_rows(joined(first.source), joined(second.source))
            other = _evaluate(second.source, [rows], settings, seed).measured
    except DifferentRows as different:
        nothing = {"matched_by": None, "metric": None, "difference": None, "ci": None}
        return [{**names, **nothing, "reason": str(different)}]
    return [
        {
            **names,
            "matched_by": matched_by,
            "metric": metric,
            "difference": float(found["difference"]),
            "ci": found.get("ci"),
        }
        for metric, found in measured_differences(first.measured, other, seed=seed).items()
    ]


def same_order(first: RowFingerprint, second: RowFingerprint) -> MatchedBy | None:
    """What the rows match by if they are in one order already, None if they must be looked at one by one.

    `DifferentRows` where the fingerprints alone show that they cannot match.
    """
    if len(first.class_names) != len(second.class_names):
        raise DifferentRows(f"{len(first.class_names)} and {len(second.class_names)} classes")
    # Equal sets of classes are in one order by now.
    if first.has_named_classes and second.has_named_classes and first.class_names != second.class_names:
        raise DifferentRows(
            f"the classes differ: {listed(first.class_names)} and {listed(second.class_names)}"
        )
    if first.rows != second.rows:
        raise DifferentRows(f"{first.rows:,} and {second.rows:,} rows")
    have_ids = first.ids is not None and second.ids is not None
    if first.labels == second.labels and (not have_ids or first.ids == second.ids):
        return "row_id" if have_ids else "position"
    if not have_ids:
        raise DifferentRows("the labels differ, and there are no row ids on both sides to match by")
    if first.rows > MOST_REORDERED:
        raise DifferentRows(f"more than {MOST_REORDERED:,} rows whose ids are in another order")
    return None


def joined(source: Source) -> Predictions:
    """All rows of a source at once."""
    return together(list(source.batches()))


def together(parts: Sequence[Predictions]) -> Predictions:
    """Batches of one source as one."""
    ids = [part.ids for part in parts if part.ids is not None]
    weights = [part.weights for part in parts if part.weights is not None]
    targets = [part.targets for part in parts if part.targets is not None]
    return Predictions(
        np.concatenate([part.values for part in parts]),
        parts[0].kind,
        np.concatenate([part.labels for part in parts]),
        np.concatenate(ids) if ids else None,
        parts[0].class_names,
        np.concatenate(weights) if weights else None,
        np.concatenate(targets) if targets else None,
    )
