"""A trained classifier on disk: a run, a checkpoint, or what `calmix calibrate` or `export` made.

Opened without torch: a missing file is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames, Task
from calmix.io.records import read_json_record
from calmix.io.run_directory import RunDirectory
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

    def columns(self, **given: str | None) -> ColumnNames:
        """The names of columns: as given, else as in training."""
        names = {name: given.get(name) or self.trained_columns.get(name) for name in COLUMNS}
        return ColumnNames.from_options(**names, id=given.get("id"))

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
        return SavedClassifier(source, source, task=_task_of(source))
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
    )


def _of_calibrated(source: Path) -> SavedClassifier:
    folded, network = source / "model", source / UNCALIBRATED_MODEL
    if folded.is_dir():
        return SavedClassifier(source, folded, task=_task_of(folded))
    if network.is_dir():
        return SavedClassifier(source, network, calibrator=source, task=_task_of(network))
    raise UserError(
        "a calibrator without a network: it was made of a predictions file, or by an earlier version",
        file=source,
        remedy="calibrate the run or the checkpoint",
    )


def _task_of(checkpoint: Path) -> Task | None:
    """Whether a head chooses or sees; texts and pairs of texts have the same head."""
    config = read_json_record(checkpoint / "config.json")
    head = str((config.get("architectures") or [""])[0])
    return "choice" if "MultipleChoice" in head else "image" if "ImageClassification" in head else None
