"""The model of a run for ONNX Runtime, with what exporting did to its calibration."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.io.run_directory import RunDirectory, write_json
from calmix.io.writing import check_new_directory, new_directory
from calmix.user_error import UserError, argument, check_least
from calmix.workflows.options import output_directory
from calmix.workflows.result import Result
from calmix.workflows.run import model_directory

if TYPE_CHECKING:
    from calmix.report.tables import Table

FORMATS = ("onnx",)
# Nats by which the NLL of validation rows may rise, at the lower end of its interval.
TOLERANCE = 0.02
# What a checkpoint holds beside the weights: its description, tokenizer or image processor, card.
WEIGHTS = (".safetensors", ".bin")


@dataclass(frozen=True, eq=False, repr=False)
class ExportResult(Result):
    """An exported model, and its metrics beside those of the run, on the run's own rows."""

    path: Path
    content: Mapping[str, Any]
    """What `calmix export --json` prints."""

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def model_file(self) -> Path:
        return Path(self.content["model"])

    def tables(self) -> list[Table]:
        from calmix.report.evaluation_tables import exported_table

        return [exported_table(self.content["splits"])]

    def lines(self) -> list[str]:
        found = self.content
        lines = [
            f"size: {found['bytes'] / 1e6:.1f} MB ({found['bytes_before'] / 1e6:.1f} MB as a checkpoint)",
            f"model: {found['model']}",
        ]
        if found["temperature"] is not None:
            divided = f"logits are divided by {found['temperature']:.4f}"
            lines.insert(0, f"8-bit weights raised the NLL of validation rows: {divided}")
        return lines


def export(
    run: Any,
    output: str | Path | None = None,
    *,
    format: str = "onnx",
    int8: bool = False,
    tolerance: float = TOLERANCE,
    batch_size: int = 64,
) -> ExportResult:
    """Write the calibrated model of a run as ONNX, and measure it on the run's own rows.

        exported = calmix.export(run, "exported", int8=True)
        calmix.predict(exported, texts)

    run: a `Run`, a `Comparison` (its recommended run), or the directory of one. With `int8` the weights have
    8 bits. If that raised the NLL of validation rows, a new temperature becomes part of the graph;
    if the NLL is still higher by more than `tolerance` nats, nothing is written.
    """
    if format not in FORMATS:
        raise UserError(f"{argument('format')} is {format!r}", remedy=f"choose one of {', '.join(FORMATS)}")
    if not tolerance >= 0:
        raise UserError(f"{argument('tolerance')} is {tolerance}", remedy="give nats, 0 or more")
    check_least("batch_size", batch_size, 1)
    place = output_directory(output)
    check_new_directory(place)
    source = RunDirectory.open(model_directory(run, "run"))
    source.check_single_label("export")
    if not source.model.is_dir():
        raise UserError(
            "the model of this run was not kept",
            file=source.path,
            remedy=f"keep it: {argument('keep_models', 'all')}",
        )

    from calmix.calibration.files.prediction_files import write_predictions
    from calmix.calibration.files.run_predictions import predictions_of_run
    from calmix.inference.fold_proof import TOLERANCE as SAME
    from calmix.inference.onnx.exporting import divide_logits, export_network, quantise
    from calmix.inference.onnx.measuring import exported_splits, largest_difference, repairing_temperature
    from calmix.inference.onnx.running import OnnxNetwork
    from calmix.inference.prediction import load_saved
    from calmix.inference.run_rows import rows_of_run
    from calmix.inference.saved_classifier import ONNX_FILE
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    rows = rows_of_run(source, remedy="exporting measures the model on the rows of its run: put them back")
    before = {name: predictions_of_run(source, name, calibrated=True) for name in rows}
    model, inputs = load_saved(source.model, max_length=source.config()["max_length"])
    with new_directory(place) as fresh:
        file, whole = fresh / ONNX_FILE, fresh / "float32.onnx"
        export_network(model, example_batch(model, inputs, rows["validation"]), whole)
        if int8:
            quantise(whole, file)
            whole.unlink()
        else:
            whole.rename(file)
        found = exported_splits(OnnxNetwork(file), inputs, rows, before, batch_size=batch_size)
        temperature = repairing_temperature(found["validation"]) if int8 else None
        if temperature is not None:
            divide_logits(file, temperature)
            found = {name: split.at(temperature) for name, split in found.items()}
        for name, split in found.items():
            error = largest_difference(split.before, split.after)
            if not int8 and error > SAME:
                raise UserError(
                    f"the exported model differs from the run's: probabilities of {name!r} are off by up to "
                    f"{error:.2g}",
                    file=source.path,
                    remedy="use the checkpoint itself",
                )
        if found["validation"].nll_rises(tolerance):
            raise UserError(
                f"8-bit weights raise the NLL of validation rows by more than {tolerance} nats, even "
                "with a new temperature",
                file=source.path,
                remedy=f"export without {argument('int8')}, or allow more with {argument('tolerance')}",
            )
        for beside in source.model.iterdir():
            # A link in a run of somebody else may lead to any file of this machine.
            if beside.is_file() and not beside.is_symlink() and beside.suffix not in WEIGHTS:
                shutil.copyfile(beside, fresh / beside.name)
        write_predictions(fresh / "predictions" / "validation.parquet", found["validation"].after)
        content = {
            "run": str(source.path),
            "format": format,
            "int8": int8,
            "temperature": temperature,
            "bytes": file.stat().st_size,
            "bytes_before": sum(
                one.stat().st_size for one in source.model.iterdir() if one.suffix in WEIGHTS
            ),
            "splits": {name: split.facts() for name, split in found.items()},
            "model": str(place / ONNX_FILE),
        }
        write_json(fresh / "export.json", content)
        # How the calibration of the exported logits came about, as a calibrated directory says it.
        kind = source.metrics().get("calibrator", "temperature")
        write_json(fresh / "calibration.json", {"method": kind, "fitted_on": "validation"})
    return ExportResult(place, content)


def example_batch(model: Any, inputs: Any, rows: Any) -> dict[str, Any]:
    """Two rows as the network takes them, the shapes of which the exporter generalises."""
    import numpy as np

    from calmix.inference.forward_passes import input_names

    encoded = inputs.encode(rows.without_labels().select(np.arange(min(2, len(rows)))))
    batch = inputs.collator(is_choice=encoded.is_choice)([encoded[place] for place in range(len(encoded))])
    taken = input_names(model)
    return {name: value for name, value in batch.items() if name in taken and name != "labels"}
