"""A trained classifier on disk: a run, a checkpoint, or what `calmix calibrate` or `export` made.

Opened without torch: a missing file is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames, Task
from calmix.io.records import read_json_record
from calmix.io.run_directory import RunDirectory
from calmix.runtime.option_values import MULTI_LABEL
from calmix.user_error import UserError, argument

CALIBRATOR_FILE = "calibrator.json"
# Of a directory that `calmix export` made: the network in place of safetensors.
ONNX_FILE = "model.onnx"
# Of a calibrated directory: the network whose logits a calibrator takes that does not fold into it.
UNCALIBRATED_MODEL = "uncalibrated_model"
FITTED_HERE = "{} was fitted on these very rows, which the guarantee does not account for"
COLUMNS = ("text", "pair", "choices", "label", "image")


@dataclass(frozen=True)
class SavedClassifier:
    """Where the network is, what its rows look like, and what is known of it on validation rows."""

    source: Path
    checkpoint: Path
    run: RunDirectory | None = None
    calibrator: Path | None = None
    """The directory of a calibrator that the logits of the checkpoint still have to go through."""
    label_names: tuple[str, ...] | None = None
    """None: as the checkpoint says."""
    task: Task | None = None
    max_length: int | None = None
    trained_columns: dict[str, str | None] = field(default_factory=dict)
    multi_label: bool = False
    """Whether every label has a probability of its own."""
    thresholds: dict[str, float] = field(default_factory=dict)
    """Of several labels: from which probability on each is predicted."""
    label_format: dict[str, Any] = field(default_factory=dict)
    """How the training file wrote several labels: `label_separator`, `label_columns`."""

    def columns(self, **given: str | None) -> ColumnNames:
        """The names of columns: as given, else as in training."""
        names = {name: given.get(name) or self.trained_columns.get(name) for name in COLUMNS}
        return ColumnNames.from_options(**names, id=given.get("id"))

    def label_columns(self, separator: str | None, columns: tuple[str, ...], **given: Any) -> ColumnNames:
        """The same with the columns of several labels: as given, else as in training."""
        if separator is None and not columns and not given.get("label"):
            separator = self.label_format.get("label_separator")
            columns = tuple(self.label_format.get("label_columns") or ())
        named = {"label": None} if columns else {}
        own = self if not columns else replace(self, trained_columns={**self.trained_columns, **named})
        return own.columns(**given).with_label_sets(True, separator, columns)

    def check_multi_label(self) -> None:
        """Refuse a network that gives every row one label."""
        if not self.multi_label:
            raise UserError(
                "this network gives every row one label",
                file=self.source,
                remedy="leave the options of several labels out; a network whose labels are independent says "
                f'"problem_type": "{MULTI_LABEL}" in its config.json',
            )

    def check_single_label(self, option: str) -> None:
        """Refuse what is for rows of one label."""
        if self.multi_label:
            raise UserError(
                f"{argument(option)} is for rows of one label, and this model gives several",
                file=self.source,
                remedy="leave it out",
            )

    def validation(self) -> tuple[Predictions, str | None] | None:
        """Calibrated predictions of validation rows and what limits them, if there are any."""
        from calmix.calibration.files.prediction_files import read_predictions
        from calmix.calibration.files.run_predictions import predictions_of_run

        if self.run is not None:
            kind = self.run.metrics().get("calibrator", "temperature")
            limit = None if kind == "temperature" else FITTED_HERE.format(kind)
            return predictions_of_run(self.run, "validation", calibrated=True), limit
        stored = self.source / "predictions" / "validation.parquet"
        if not stored.is_file():
            return None
        facts = read_json_record(self.source / "calibration.json")
        if "adapted_to" in facts:
            limit = (
                "these are validation rows of the training domain, and the guarantee is about that: give "
                f"labelled rows of the domain that you predict with {argument('validation', 'FILE')}"
            )
            return read_predictions(stored), limit
        same = facts.get("fitted_on") == "validation" and facts.get("method") != "temperature"
        return read_predictions(stored), FITTED_HERE.format(facts["method"]) if same else None


def open_classifier(source: Path) -> SavedClassifier:
    """A finished run with its model, a calibrated directory with its network, or a checkpoint."""
    if not source.is_dir():
        raise UserError(
            "no such run, checkpoint, calibrated directory or comparison",
            file=source,
            remedy="make one with 'calmix train'",
        )
    if (source / "config.yaml").is_file():
        return _of_run(RunDirectory.open(source))
    if (source / CALIBRATOR_FILE).is_file():
        return _of_calibrated(source)
    if (source / "config.json").is_file():
        return SavedClassifier(source, source, task=_task_of(source), **_label_facts(source))
    raise UserError(
        "not a run directory, nor a checkpoint, a calibrated directory or a comparison",
        file=source,
        remedy="name one that 'calmix train', 'calibrate' or 'compare' has made, or a checkpoint",
    )


def _of_run(run: RunDirectory) -> SavedClassifier:
    if not run.model.is_dir():
        raise UserError(
            "the model of this run was not kept",
            file=run.path,
            remedy=f"keep it: {argument('keep_models', 'all')}",
        )
    run.check_undamaged("model/")
    config, metrics = run.config(), run.metrics()
    return SavedClassifier(
        run.path,
        run.model,
        run=run,
        label_names=tuple(metrics["label_names"]),
        task=metrics["task"],
        max_length=config["max_length"],
        trained_columns={name: config.get(f"{name}_column") for name in COLUMNS},
        label_format={name: config.get(name) for name in ("label_separator", "label_columns")},
        **_label_facts(run.model),
    )


def _of_calibrated(source: Path) -> SavedClassifier:
    folded, network = source / "model", source / UNCALIBRATED_MODEL
    if folded.is_dir():
        return SavedClassifier(source, folded, task=_task_of(folded), **_label_facts(folded))
    if network.is_dir():
        return SavedClassifier(source, network, calibrator=source, task=_task_of(network))
    raise UserError(
        "a calibrator without a network: it was made of a predictions file, or by an earlier version",
        file=source,
        remedy="calibrate the run or the checkpoint",
    )


def _label_facts(checkpoint: Path) -> dict[str, Any]:
    """Whether labels are independent of each other, and their thresholds; from the checkpoint itself."""
    config = read_json_record(checkpoint / "config.json")
    if config.get("problem_type") != MULTI_LABEL:
        return {}
    carried = config.get("calmix_calibration")
    thresholds = carried.get("thresholds") if isinstance(carried, dict) else None
    if not isinstance(thresholds, dict) or not all(map(_is_probability, thresholds.values())):
        return {"multi_label": True}
    return {"multi_label": True, "thresholds": {name: float(value) for name, value in thresholds.items()}}


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _task_of(checkpoint: Path) -> Task | None:
    """Whether a head chooses or sees; texts and pairs of texts have the same head."""
    config = read_json_record(checkpoint / "config.json")
    head = str((config.get("architectures") or [""])[0])
    return "choice" if "MultipleChoice" in head else "image" if "ImageClassification" in head else None
