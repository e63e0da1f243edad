"""What training on rows of several labels leaves: predictions, scaling, thresholds, metrics, checkpoint.

RUN/calibration.json   scale, bias and threshold of every label, fitted on validation
RUN/model/             scale and bias folded into the head: plain sigmoid(logits) is calibrated;
                       thresholds in config.json
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from calmix.calibration.multi_label.label_scaling import LabelScaling
from calmix.calibration.multi_label.label_thresholds import best_thresholds
from calmix.calibration.multi_label.multi_label_evaluation import evaluate_labels
from calmix.calibration.multi_label.multi_label_files import write_multi_label_predictions
from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
from calmix.inference.prediction import label_predictions
from calmix.io.run_directory import RunDirectory, write_json
from calmix.models.inputs import Encoded
from calmix.training.checkpoints.calibrated import save_scaled, scaling_for
from calmix.training.configuration import TrainConfig
from calmix.training.epochs.measures import SELECTION_METRIC
from calmix.training.learning import judge_labels
from calmix.training.pipeline.final_logits import final_logits, proof_rows
from calmix.training.pipeline.finalise import (
    check_chosen,
    data_checks,
    history,
    learning_settings,
    run_facts,
    seal,
)
from calmix.training.pipeline.prepared import Prepared
from calmix.training.trainer import MixupTrainer

MEASURED = {
    "subset_accuracy": "subset_accuracy",
    "validation_ece": "ece",
    "validation_nll": "nll",
    "validation_nll_calibrated": SELECTION_METRIC,
}


def finish_labels(
    run: RunDirectory,
    config: TrainConfig,
    prepared: Prepared,
    trainer: MixupTrainer,
    cached: Mapping[str, Encoded],
    started: float,
) -> None:
    """Predictions, scaling, thresholds, metrics and the folded checkpoint."""
    model, predictor, logits = final_logits(prepared, trainer, cached)
    named = {"validation": prepared.splits.validation, **prepared.splits.tests}
    predictions = {name: label_predictions(logits[name], rows) for name, rows in named.items()}
    journal = trainer.merged_journal()
    if not trainer.is_world_process_zero():
        # All leave together: a launcher may take the end of one process for a failure of the others.
        trainer.accelerator.wait_for_everyone()
        return
    validation = predictions["validation"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaling = LabelScaling(scaling_for(model)).fit(validation)
    check_chosen(run, trainer, scaling.nll_before_, is_half=config.freeze_cache == "float16")
    thresholds = best_thresholds(scaling.calibrate(validation))
    for name, split in predictions.items():
        write_multi_label_predictions(run.predictions_file(name), split)
    few, batch = proof_rows(predictor, prepared)
    save_scaled(
        model,
        run.model,
        scaling,
        thresholds,
        prepared.inputs.save,
        batch,
        validation.select(few),
        trust_remote_code=config.trust_remote_code,
    )
    fitted = {**scaling.facts(), "thresholds": thresholds}
    write_json(
        run.calibration_file,
        {
            **fitted,
            "fitted_on": "validation",
            "n": len(validation),
            "nll_before": scaling.nll_before_,
            "nll_after": scaling.nll_after_,
            "warnings": [str(warning.message) for warning in caught],
            "folded": True,
        },
    )
    epochs = history(trainer, journal.losses(), MEASURED)
    learning = judge_labels(
        validation.targets.mean(axis=0), scaling.nll_after_, learning_settings(config, prepared)
    )
    metrics = {
        **run_facts(config, prepared, trainer, started),
        "multi_label": True,
        "label_scaling": scaling.facts(),
        "thresholds": thresholds,
        "splits": measure_labels(predictions, scaling, thresholds, config),
        "history": epochs,
        "learning": learning.as_dict(),
        "data_checks": data_checks(prepared),
    }
    seal(run, metrics, trainer)


def measure_labels(
    predictions: dict[str, MultiLabelPredictions],
    scaling: LabelScaling,
    thresholds: dict[str, float],
    config: TrainConfig,
) -> dict[str, dict[str, Any]]:
    """Every split before scaling, at thresholds of 0.5, and after it, at those chosen on validation."""
    splits: dict[str, dict[str, Any]] = {}
    settings: dict[str, Any] = {"bins": config.bins, "closed": config.closed}
    for name, split in predictions.items():
        calibrated = evaluate_labels(scaling.calibrate(split), thresholds=thresholds, **settings)
        if name == "validation":
            calibrated["in_sample"] = True
        splits[name] = {"uncalibrated": evaluate_labels(split, **settings), "calibrated": calibrated}
    return splits
