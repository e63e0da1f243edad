"""The seeds of one arm as an ensemble: probabilities averaged first, calibrated after.

    p = (1/M) Σ_m softmax(z_m),     calibrated = softmax(log p / T)

Members enter as they were trained. A mean of calibrated members is underconfident, so the temperature is that
of the mean, fitted on the validation rows that all members share.

Reference: Lakshminarayanan et al., NeurIPS 2017; Rahaman & Thiery, NeurIPS 2021 (pool, then calibrate).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.differences import DifferentRows
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.ensemble import ensemble
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.calibration.metrics.binning import Closed
from calmix.calibration.predictions import Predictions
from calmix.experiments.comparison_plan import Plan
from calmix.experiments.results import VALIDATION
from calmix.io.run_directory import RunDirectory, write_json
from calmix.io.writing import new_directory
from calmix.runtime.option_values import parse_bins
from calmix.user_error import UserError, argument

RESULT_FILE = "ensemble.json"
COMPARED = ("accuracy", "nll", "brier", "ece")


@dataclass(frozen=True)
class SeedEnsemble:
    """The finished runs of one arm."""

    arm: str
    seeds: tuple[int, ...]
    members: tuple[RunDirectory, ...]
    bins: tuple[int, ...]
    """Those of the comparison, and its edges; its runs may have been measured with others."""
    closed: Closed

    @classmethod
    def of(cls, directory: Path, arm: str) -> SeedEnsemble:
        """The arm of a comparison by its name."""
        plan = Plan.read(directory)
        store = plan.open_store(directory)
        names = [one.name for one in plan.arms]
        if arm not in names:
            raise UserError(
                f"no method {arm!r} in this comparison", file=directory, remedy=f"it has: {', '.join(names)}"
            )
        cells = [cell for cell in plan.cells if cell.arm.name == arm and store.is_finished(cell.fingerprint)]
        if len(cells) < 2:
            raise UserError(
                f"{arm} has finished runs of {len(cells)} seeds, and an ensemble needs two",
                file=directory,
                remedy=f"compare with more {argument('seeds')}",
            )
        cells.sort(key=lambda cell: cell.seed)
        runs = tuple(store.run(cell.fingerprint) for cell in cells)
        bins, closed = parse_bins(plan.config["bins"]), plan.config["closed"]
        return cls(arm, tuple(cell.seed for cell in cells), runs, bins, closed)

    def averaged(self, split: str) -> Predictions:
        """Mean probabilities of the members, uncalibrated."""
        try:
            return ensemble([predictions_of_run(run, split) for run in self.members])
        except DifferentRows as different:
            raise UserError(
                f"the seeds of {self.arm} differ in the rows of {split!r}: {different}",
                file=self.members[0].path,
                remedy=f"compare with one {argument('validation', 'FILE')} for all seeds",
            ) from None

    def members_mean(self, split: str) -> dict[str, float]:
        """What one calibrated member reaches on average."""
        alone = [
            evaluate(
                predictions_of_run(run, split, calibrated=True),
                bins=self.bins,
                closed=self.closed,
                intervals=False,
            )
            for run in self.members
        ]
        return {name: sum(one[name] for one in alone) / len(alone) for name in COMPARED}

    def write(self, output: Path) -> dict[str, Any]:
        """`ensemble.json` and the calibrated predictions of every split; returns what the first holds."""
        splits = self.members[0].splits()
        averaged = {split: self.averaged(split) for split in splits}
        known = averaged[VALIDATION]
        scaling = TemperatureScaling().fit(known)
        temperature, fit = float(scaling.temperature_), FitUncertainty.of(scaling, known)
        settings: dict[str, Any] = {"bins": self.bins, "closed": self.closed}
        result: dict[str, Any] = {
            "arm": self.arm,
            "seeds": list(self.seeds),
            "members": [str(run.path) for run in self.members],
            "temperature": temperature,
            "ece_bins": self.bins[0],
            "ece_edges": self.closed,
            "splits": {},
        }
        with new_directory(output) as fresh:
            for split, predictions in averaged.items():
                calibrated = predictions.with_temperature(temperature)
                write_predictions(fresh / "predictions" / f"{split}.parquet", calibrated)
                measured = evaluate(calibrated, **settings)
                if split == VALIDATION:
                    measured["in_sample"] = True
                else:
                    measured = fit.widened(measured, predictions, **settings)
                result["splits"][split] = {
                    "uncalibrated": evaluate(predictions, **settings),
                    "calibrated": measured,
                    "members_mean": self.members_mean(split),
                }
            write_json(fresh / RESULT_FILE, result)
        return result


def lines_of(result: dict[str, Any]) -> list[str]:
    """What a reader sees: every split, one member on average and the ensemble, both calibrated.

    >>> measured = {"accuracy": 0.9, "nll": 0.3, "brier": 0.1, "ece": 0.02}
    >>> splits = {"test": {"calibrated": measured, "members_mean": measured}}
    >>> found = {"arm": "plain", "seeds": [0, 1], "temperature": 1.1, "splits": splits}
    >>> print("\\n".join(lines_of(found)))
    ensemble of 2 seeds of plain, T = 1.100 fitted on the mean of their probabilities
      test: accuracy 90.0 -> 90.0 %, NLL 0.300 -> 0.300, ECE 2.0 -> 2.0 % (mean of one member -> ensemble)
    """
    lines = [
        f"ensemble of {len(result['seeds'])} seeds of {result['arm']}, T = {result['temperature']:.3f} "
        "fitted on the mean of their probabilities"
    ]
    for name, split in result["splits"].items():
        if split["calibrated"].get("in_sample"):
            continue
        one, all_of_them = split["members_mean"], split["calibrated"]
        lines.append(
            f"  {name}: accuracy {100 * one['accuracy']:.1f} -> {100 * all_of_them['accuracy']:.1f} %, NLL "
            f"{one['nll']:.3f} -> {all_of_them['nll']:.3f}, ECE {100 * one['ece']:.1f} -> "
            f"{100 * all_of_them['ece']:.1f} % (mean of one member -> ensemble)"
        )
    return lines
