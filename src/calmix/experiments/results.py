"""The results of a comparison as plain records, and the two files that hold them.

`runs.parquet` has one row per run, split and stage with every metric; its metadata hold the options, the arms
and the failures. `differences.parquet` has the paired differences with their intervals. Together they are
enough to render everything again; the runs themselves, which are large, are not needed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from calmix.calibration.accuracy_loss import FOLLOWS
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.run_predictions import apply_calibrator, calibrator_of_run, predictions_of_run
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.metrics.binning import Closed, bin_counts
from calmix.experiments.cell import Cell
from calmix.experiments.grid import Arm
from calmix.io.json_records import decode_json
from calmix.io.parquet_files import ParquetTable
from calmix.io.parser_errors import refusing
from calmix.io.record_shapes import RESULTS, check_shape
from calmix.io.records import REMEDY, Record, damaged
from calmix.io.run_directory import RunDirectory, replacing
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError

STAGES = ("uncalibrated", "calibrated")
CALIBRATED, VALIDATION = "calibrated", "validation"
RUNS_FILE, DIFFERENCES_FILE = "runs.parquet", "differences.parquet"
METADATA_KEY = b"calmix.comparison"
# What a record says beside its metrics.
DESCRIPTION = (
    "run", "arm", "method", "options", "seed", "split", "stage", "in_sample", "temperature", "seconds",
    "device", "train_n", "n", "bins", "learned", "learning_finding", "learning_advice",
)  # fmt: skip
TEXTS = ("run", "arm", "method", "options", "split", "stage", "device")


@dataclass(frozen=True)
class Results:
    """What a comparison found."""

    config: dict[str, Any]
    arms: list[Arm]
    runs: list[dict[str, Any]]
    """One record per run, split and stage."""
    differences: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def splits(self) -> list[str]:
        return list(dict.fromkeys(record["split"] for record in self.runs))

    def metrics(self) -> list[str]:
        """The names of the metrics, in the order in which runs hold them; limits of intervals are none."""
        names = dict.fromkeys(name for record in self.runs for name in record)
        limits = {f"{name}_{end}" for name in names for end in ("low", "high")}
        return [name for name in names if name not in limits and name not in DESCRIPTION]

    def select(self, **wanted: Any) -> list[dict[str, Any]]:
        """The records with these values."""
        return [r for r in self.runs if all(r[name] == value for name, value in wanted.items())]

    def write(self, directory: Path) -> None:
        about = {
            "config": self.config,
            "arms": [dataclasses.asdict(arm) for arm in self.arms],
            "failures": self.failures,
        }
        metadata = {METADATA_KEY: json.dumps(about, ensure_ascii=False).encode()}
        # The columns of the first row would be those of all: a metric it lacks is there as a null.
        columns = dict.fromkeys(name for record in self.runs for name in record)
        runs = [
            {**dict.fromkeys(columns), **record, "options": json.dumps(record["options"])}
            for record in self.runs
        ]
        tables = {
            RUNS_FILE: pa.Table.from_pylist(runs).replace_schema_metadata(metadata),
            DIFFERENCES_FILE: pa.Table.from_pylist(self.differences),
        }
        for name, table in tables.items():
            with replacing(directory / name) as fresh:
                pq.write_table(table, fresh, compression="zstd")

    @classmethod
    def read(cls, directory: Path) -> Results:
        file = directory / RUNS_FILE
        if not file.is_file():
            raise UserError(
                "no comparison in this directory", file=directory, remedy="make one with 'calmix compare'"
            )
        table = read_values(file, texts=TEXTS)
        stored = (table.schema.metadata or {}).get(METADATA_KEY)
        if stored is None:
            raise UserError("not written by calmix compare", file=file)
        differences = directory / DIFFERENCES_FILE
        if not differences.is_file():
            raise UserError(
                f"{DIFFERENCES_FILE} is missing beside {RUNS_FILE}",
                file=directory,
                remedy="the intervals cannot be found without it; keep the two files together",
            )
        compared = read_values(differences)
        with refusing("damaged", file, REMEDY):
            about = decode_json(stored.decode())
            check_shape(about, RESULTS, file)
            records = [_present(record) for record in table.to_pylist()]
            return cls(
                config=about["config"],
                arms=[Arm(**arm) for arm in about["arms"]],
                runs=[Record(record, file) for record in records],
                differences=[Record(record, differences) for record in compared.to_pylist()],
                failures=about["failures"],
            )


def read_values(file: Path, texts: Sequence[str] = ()) -> pa.Table:
    """A table of texts, numbers and truth values alone; `texts` are the columns that must be text."""
    table = next(ParquetTable(str(file), str(file)).batches(None))
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_text = pa.types.is_string(column.type) or pa.types.is_null(column.type)
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not is_text and (name in texts or not (is_number or pa.types.is_boolean(column.type))):
            raise damaged(file, f"the column {name!r} holds {column.type}")
    return table


def _present(record: dict[str, Any]) -> dict[str, Any]:
    present = {name: value for name, value in record.items() if value is not None}
    return {**present, "options": json.loads(record["options"])}


def collect(
    store: RunStore, cells: Sequence[Cell], *, bins: int | Sequence[int], closed: Closed
) -> list[dict[str, Any]]:
    """The metrics of all finished runs."""
    records = []
    for cell in cells:
        run = store.run(cell.fingerprint)
        if run.is_finished:
            records += _records_of(cell, run, bin_counts(bins), closed)
    return records


def _records_of(cell: Cell, run: RunDirectory, bins: Sequence[int], closed: Closed) -> list[dict[str, Any]]:
    metrics = run.metrics()
    is_measured = (metrics["ece_bins"], metrics["ece_edges"]) == (bins[0], closed)
    records = []
    for split in metrics["splits"]:
        for stage in STAGES:
            values = metrics["splits"][split][stage]
            if not is_measured or any(f"ece_{count}_bins" not in values for count in bins[1:]):
                # The run was made with other bins.
                again = measured_again(run, split, stage, bins, closed)
                values = again | ({FOLLOWS: values[FOLLOWS]} if FOLLOWS in values else {})
            records.append(
                {
                    "run": cell.fingerprint,
                    "arm": cell.arm.name,
                    "method": cell.arm.method,
                    "options": {**cell.arm.options, **cell.arm.settings},
                    "seed": cell.seed,
                    "split": split,
                    "stage": stage,
                    "in_sample": split == "validation" and stage == "calibrated",
                    "temperature": metrics.get("temperature"),
                    "seconds": metrics["seconds"],
                    "device": metrics["device"],
                    "train_n": metrics["sizes"]["train"],
                    **_learning(metrics),
                    **flat_metrics(values),
                }
            )
    return records


def measured_again(
    run: RunDirectory, split: str, stage: str, bins: Sequence[int], closed: Closed
) -> dict[str, Any]:
    """A split with other bins than those of the run; calibrated, intervals include the fit, as in the run."""
    settings: dict[str, Any] = {"bins": bins, "closed": closed}
    before = predictions_of_run(run, split)
    if stage != CALIBRATED:
        return evaluate(before, **settings)
    calibrator = calibrator_of_run(run)
    again = evaluate(apply_calibrator(calibrator, before), **settings)
    if split == VALIDATION:
        return again
    fit = FitUncertainty.of(calibrator, predictions_of_run(run, VALIDATION))
    return fit.widened(again, before, **settings)


def _learning(metrics: dict[str, Any]) -> dict[str, Any]:
    """Whether the run has learned; runs of earlier versions do not say."""
    learning = metrics.get("learning")
    if learning is None:
        return {}
    findings = [*learning["messages"], *learning.get("notes", ())]
    return {
        "learned": learning["learned"],
        "learning_finding": findings[0] if findings else None,
        "learning_advice": learning["advice"] or None,
    }


def flat_metrics(values: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a split; an interval becomes two.

    >>> flat_metrics({"n": 3, "ece": 0.1, "ece_ci": [0.0, 0.2], "in_sample": True})
    {'n': 3, 'ece': 0.1, 'ece_low': 0.0, 'ece_high': 0.2}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if name.endswith("_ci") and isinstance(value, list | tuple):
            flat[name.removesuffix("_ci") + "_low"], flat[name.removesuffix("_ci") + "_high"] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[name] = value
    return flat
