"""What exporting changed in the predictions of a run, and the temperature that corrects it.

The rows are the run's own. Validation decides: where 8-bit weights raised the NLL there, a temperature is
fitted on the exported network's own validation logits and divides what the graph returns; where that does
not bring the NLL back within a tolerance, the export is refused. Test rows are only reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.differences import paired_differences
from calmix.calibration.evaluation import evaluate
from calmix.calibration.predictions import Predictions
from calmix.calibration.weighted_evaluation import nll_difference
from calmix.data.rows import Rows
from calmix.inference.forward_passes import forward_logits
from calmix.inference.onnx.running import OnnxNetwork
from calmix.models.inputs import Inputs

COMPARED = ("accuracy", "nll", "ece")


@dataclass(frozen=True)
class ExportedSplit:
    """The predictions of a split before and after exporting, of the same rows."""

    before: Predictions
    after: Predictions

    def nll_rises(self, tolerance: float = 0.0) -> bool:
        """Whether the whole interval of the difference lies above the tolerance."""
        return bool(self.differences()["nll"]["ci"][0] > tolerance)

    def differences(self) -> dict[str, Any]:
        """Of rows with weights or soft labels, of the NLL alone."""
        if self.before.is_weighted:
            return {"nll": nll_difference(self.after, self.before)}
        found = paired_differences(self.after, self.before)
        return {name: found[name] for name in COMPARED}

    def facts(self) -> dict[str, Any]:
        return {
            "before": _measured(self.before),
            "after": _measured(self.after),
            "differences": self.differences(),
            "same_prediction": float(np.mean(self.before.predicted() == self.after.predicted())),
            "largest_probability_difference": largest_difference(self.before, self.after),
        }

    def at(self, temperature: float) -> ExportedSplit:
        return ExportedSplit(self.before, self.after.with_temperature(temperature))


def _measured(predictions: Predictions) -> dict[str, Any]:
    found = evaluate(predictions)
    return {name: found[name] for name in ("n", *COMPARED, "ece_ci", "ece_noise_floor") if name in found}


def largest_difference(first: Predictions, second: Predictions) -> float:
    return float(np.abs(first.probabilities() - second.probabilities()).max())


def exported_splits(
    network: OnnxNetwork,
    inputs: Inputs,
    rows: Mapping[str, Rows],
    before: Mapping[str, Predictions],
    *,
    batch_size: int = 64,
) -> dict[str, ExportedSplit]:
    """The splits of a run through the exported network, beside the predictions of the run's own model."""
    found = {}
    for name, split in rows.items():
        encoded = inputs.encode(split.without_labels())
        logits = forward_logits(
            network,
            encoded,
            inputs.collator(is_choice=encoded.is_choice),
            batch_size=batch_size,
            device=torch.device("cpu"),
            title=name,
        )
        # With the labels, the weights and the soft labels of the rows.
        after = replace(before[name], values=logits, kind="logits")
        found[name] = ExportedSplit(before[name], after)
    return found


def repairing_temperature(validation: ExportedSplit) -> float | None:
    """The temperature for the exported logits; None where exporting did not raise the NLL."""
    if not validation.nll_rises():
        return None
    return float(TemperatureScaling().fit(validation.after).temperature_)
