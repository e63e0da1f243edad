"""How the epoch of a run is selected: the rules of `--select-by`.

    nll-after-temperature   the lowest validation NLL once the temperature is fitted: what remains when the
                            one free number is set right (the default)
    nll                     the lowest validation NLL
    accuracy, mcc           the highest accuracy or Matthews correlation; of equal epochs the first
    last                    the last epoch, as papers that train to the end report

The expected calibration error never chooses anything, and neither does a test set.
"""

from __future__ import annotations

from typing import Any

NLL_AFTER_TEMPERATURE, LAST = "nll-after-temperature", "last"
# The measured value, and whether more of it is better; None: nothing is compared.
RULES: dict[str, tuple[str, bool] | None] = {
    NLL_AFTER_TEMPERATURE: ("nll_calibrated", False),
    "nll": ("nll", False),
    "accuracy": ("accuracy", True),
    "mcc": ("mcc", True),
    LAST: None,
}
TITLES = {
    NLL_AFTER_TEMPERATURE: "by validation NLL after temperature scaling",
    "nll": "by validation NLL",
    "accuracy": "by validation accuracy",
    "mcc": "by validation MCC",
    LAST: "the last epoch",
}


def trainer_settings(rule: str) -> dict[str, Any]:
    """What the Trainer must do to keep the epoch that a rule names.

    >>> trainer_settings("accuracy")["metric_for_best_model"], trainer_settings("last")["save_strategy"]
    ('accuracy', 'epoch')
    """
    measured = RULES[rule]
    if measured is None:  # no epoch is best: the weights at the end of training are kept
        return {"save_strategy": "epoch", "load_best_model_at_end": False}
    metric, is_greater_better = measured
    return {
        # "best" saves whenever the epoch is the best so far; checkpoints to resume from come on top.
        "save_strategy": "best",
        "metric_for_best_model": metric,
        "greater_is_better": is_greater_better,
        "load_best_model_at_end": True,
    }
