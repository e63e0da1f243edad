"""Calibrate what is already trained: a run, a checkpoint or predictions; with a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.data.objects import is_place
from calmix.user_error import UserError, argument
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.options import check_max_length, output_directory
from calmix.workflows.result import Record, Result
from calmix.workflows.run import model_directory

if TYPE_CHECKING:
    from calmix.calibration.calibrators.calibrator import Calibrator
    from calmix.calibration.multi_label.label_scaling import LabelScaling
    from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
    from calmix.calibration.predictions import Predictions
    from calmix.inference.calibrated_directory import Calibrated
    from calmix.report.tables import Table

REPORT = "report.html"


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationResult(Result):
    """A fitted calibrator, what it changed on held-out rows, and where everything is."""

    path: Path
    content: Mapping[str, Any]
    """What `calmix calibrate --json` prints."""

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def temperature(self) -> float | None:
        """None of a calibrator that has none: vector scaling, isotonic regression, several labels."""
        from calmix.report.calibration_report import shown_temperature

        return shown_temperature(self.content)

    @property
    def held_out(self) -> dict[str, Record]:
        """Metrics `before` and `after`, by set of rows that the calibrator was not fitted on."""
        found = self.content["held_out"]
        return {
            name: Record({key: _record(value) for key, value in one.items()}) for name, one in found.items()
        }

    @property
    def model_path(self) -> Path | None:
        """The calibrated checkpoint; None where the calibrator does not fold into one."""
        return None if self.content["model"] is None else Path(self.content["model"])

    @property
    def report(self) -> Path:
        return Path(self.content["report"])

    def calibrator(self) -> Calibrator | LabelScaling:
        """A scikit-learn estimator that takes logits."""
        if self.content.get("multi_label"):
            from calmix.calibration.multi_label.label_scaling import load_label_scaling

            return load_label_scaling(self.path)

        from calmix.calibration.calibrators.calibrator import load_calibrator

        return load_calibrator(self.path)

    def predictions(self, name: str | None = None) -> Predictions | MultiLabelPredictions:
        """The calibrated predictions: of a split of the run, or of the only set there is."""
        from calmix.calibration.files.prediction_files import read_predictions

        files = {Path(file).stem: Path(file) for file in self.content["predictions"]}
        if name is None and len(files) == 1:
            name = next(iter(files))
        if name not in files:
            known = ", ".join(files) or "none"
            raise UserError(f"no predictions {name!r}", file=self.path, remedy=f"there are: {known}")
        if self.content.get("multi_label"):
            from calmix.calibration.multi_label.multi_label_files import read_multi_label_predictions

            return read_multi_label_predictions(files[name])
        return read_predictions(files[name])

    def tables(self) -> list[Table]:
        if self.content.get("multi_label"):
            from calmix.report.label_tables import held_out_tables

            return held_out_tables(self.content)

        from calmix.report.calibration_report import held_out_table
        from calmix.report.tables import HEADLINE_KEYS

        return [held_out_table(self.content, HEADLINE_KEYS)] if self.content["held_out"] else []

    def headings(self) -> list[str]:
        fitted = f"{self.content['method']} fitted on {self.content['n']} rows of {self.content['fitted_on']}"
        return [fitted] + ([] if self.temperature is None else [f"temperature: {self.temperature:.4f}"])

    def lines(self) -> list[str]:
        from calmix.report.calibration_report import NOTHING_HELD_OUT, conclusion

        found = self.content
        return [
            *([] if found["held_out"] else [NOTHING_HELD_OUT]),
            conclusion(found),
            *(f"note: {note}" for note in found["notes"]),
            *(f"warning: {warning}" for warning in found["warnings"]),
            f"model: {found['model']}" if found["folded"] else f"calibrator: {self.path}",
            *(f"calibrated predictions: {file}" for file in found["predictions"]),
            f"report: {self.report}",
        ]


def _record(value: Any) -> Any:
    return Record(value) if isinstance(value, dict) else value


def calibrate(
    source: Any,
    *,
    fit_on: Any = None,
    method: str = "temperature",
    output: str | Path | None = None,
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
    multi_label: bool = False,
    label_separator: str | None = None,
    label_columns: str | Sequence[str] | None = None,
    max_length: int | None = None,
    trust_remote_code: bool = False,
) -> CalibrationResult:
    """Fit a calibrator and, if it folds into the head, write a checkpoint with calibrated plain softmax.

        calmix.calibrate("checkpoint", fit_on=validation, method="vector", output="calibrated")
        calmix.calibrate(test_predictions, fit_on=validation_predictions, output="calibrated").predictions()

    source: a `Run`, a run or checkpoint directory, a predictions file or `Predictions`. fit_on: labelled rows
    in any form that `calmix.train` takes, a split of the run by its name; of predictions, others of the same
    model. method: temperature, temperature-bias, vector, structured,
    auto (what cross-validation supports), platt or isotonic. Of rows with several labels, platt fits a scale
    and a bias, and temperature a scale, for every label; `multi_label`, `label_separator` and `label_columns`
    as for `evaluate`.
    """
    from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
    from calmix.calibration.predictions import Predictions

    place = output_directory(output)
    check_max_length(max_length)
    if fit_on is None:
        raise UserError("nothing to fit on", remedy=f"give {argument('fit_on')} with a split or a file")
    names = {
        "text_column": text_column,
        "pair_column": pair_column,
        "choices_column": choices_column,
        "label_column": label_column,
        "image_column": image_column,
    }
    given = GivenData.with_columns(names)
    in_memory = Predictions | MultiLabelPredictions
    if not isinstance(source, in_memory):
        source = model_directory(source, "source")
        if not source.exists():  # before scikit-learn is loaded
            raise UserError(
                "no such run, checkpoint or predictions file", file=source, remedy="check the path"
            )
    if not is_place(fit_on) and not isinstance(fit_on, in_memory):
        fit_on = given.source(fit_on, "fit_on")

    from calmix.calibration.files.column_mapping import ColumnMapping

    mapping = ColumnMapping.from_options(
        label_column=label_column,
        id_column=id_column,
        prob_columns=prob_columns,
        logit_columns=logit_columns,
        class_names=class_names,
        positive_class=positive_class,
        multi_label=multi_label,
        label_separator=label_separator,
        label_columns=label_columns,
    )
    from calmix.workflows.multi_label import is_multi_label

    if is_multi_label([source], mapping):
        from calmix.inference.label_calibration import calibrate_labels
        from calmix.report.label_report import write_label_calibration_report

        def describe_labels(directory: Path, found: Mapping[str, Any], compared: Mapping[str, Any]) -> None:
            write_label_calibration_report(found, compared, directory / REPORT)

        content = calibrate_labels(
            source,
            fit_on if isinstance(fit_on, MultiLabelPredictions) else str(fit_on),
            method,
            place,
            mapping=mapping,
            columns={name.removesuffix("_column"): value for name, value in names.items()},
            max_length=max_length,
            describe=describe_labels,
            trust_remote_code=trust_remote_code,
        )
        return CalibrationResult(place, {**content, "report": str(place / REPORT)})

    from calmix.inference.post_hoc import calibrate as calibrate_source
    from calmix.report.calibration_report import write_calibration_report

    def describe(directory: Path, found: Calibrated) -> None:
        write_calibration_report(found.result, found.held_out, directory / REPORT)

    found = calibrate_source(
        source,
        fit_on if isinstance(fit_on, Predictions) else str(fit_on),
        method,
        place,
        max_length=max_length,
        mapping=mapping,
        describe=describe,
        trust_remote_code=trust_remote_code,
        **names,
    )
    return CalibrationResult(place, {**found.result, "report": str(place / REPORT)})
