"""Checks between the options of a run: what needs another option, and what does not go with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calmix.runtime.option_values import PERTURBED
from calmix.training.epochs.rules import NLL_AFTER_TEMPERATURE
from calmix.training.optimization.options import parse_optimizer, read_schedule
from calmix.training.options import Option
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from calmix.training.configuration import TrainConfig

# Fields of the Trainer that calmix itself decides beside those that an option sets.
BEST_EPOCH = argument("select_by")
DECIDED = {
    "output_dir": argument("output"),
    "use_cpu": argument("device"),
    "method_options": argument("method_options"),
    "save_strategy": argument("checkpoint_steps"),
    "save_only_model": argument("checkpoint_steps"),
    "save_total_limit": argument("checkpoint_steps"),
    "load_best_model_at_end": BEST_EPOCH,
    "metric_for_best_model": BEST_EPOCH,
    "greater_is_better": BEST_EPOCH,
    "eval_delay": BEST_EPOCH,
    "prediction_loss_only": BEST_EPOCH,
    "push_to_hub": "'calmix push'",
    "dataloader_drop_last": "all rows",
}
# The least values of Trainer fields that transformers itself takes unchecked.
LEAST_OF_TRAINER = {
    "gradient_accumulation_steps": 1,
    "per_device_eval_batch_size": 1,
    "eval_accumulation_steps": 1,
    "dataloader_num_workers": 0,
    "warmup_steps": 0,
    "weight_decay": 0,
    "max_grad_norm": 0,
}
# Fields of the Trainer that have no effect beside these options.
REPLACED = {
    "optimizer": ("optim", "optim_args", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"),
    "schedule": ("lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "warmup_ratio"),
}
# Options that mean nothing where a row has several labels.
SINGLE_LABEL = (
    "teacher", "class_weights", "sampling", "label_smoothing", "weight_column", "annotations_column",
    "label_prob_columns", "label_map", "drop_unlabelled", "choices_column", "train_region", "aum_filter",
    "plain_run", "slice", "temperature_fit", "keep_epoch_predictions", "dynamics", "calibrator",
)  # fmt: skip
MULTI_LABEL_RULES = (NLL_AFTER_TEMPERATURE, "nll", "last")


def check_together(config: TrainConfig, options: Mapping[str, Option]) -> None:
    """Each option is valid by itself; refuse those that are not valid together."""
    for name, declared in options.items():
        if (
            declared.needs
            and not getattr(config, declared.needs)
            and getattr(config, name) != declared.default
        ):
            needed = argument(declared.needs) if "_" in declared.needs else f"a {declared.needs}"
            raise UserError(f"{argument(name)} without {needed}", remedy=f"give {argument(declared.needs)}")
    if config.unlabelled and config.label_weight == 1:
        raise UserError(
            f"{argument('unlabelled')} rows are learned from the teacher, and "
            f"{argument('label_weight', 1)} leaves it out",
            remedy=f"give a {argument('label_weight')} below 1",
        )
    if config.temperature_fit == "grid" and config.calibrator not in ("temperature", PERTURBED):
        raise UserError(
            f"{argument('temperature_fit', 'grid')} is about a temperature, and "
            f"{argument('calibrator')} is {config.calibrator}",
            remedy="leave one of them out",
        )
    if config.aum_filter and config.train_region == options["train_region"].default:
        raise UserError(
            f"{argument('aum_filter')} filters a region",
            remedy=f"give {argument('train_region', 'easy')} or {argument('train_region', 'ambiguous')}",
        )
    if config.keep_epoch_predictions and config.freeze_layers and config.freeze_cache != "off":
        raise UserError(
            f"{argument('keep_epoch_predictions')} needs the frozen layers to run in every epoch",
            remedy=f"give {argument('freeze_cache', 'off')}",
        )
    if config.lora is not None:
        from calmix.models.lora import parse_lora

        parse_lora(config.lora)
    check_trainer(config, options)
    if config.has_label_sets:
        check_multi_label(config, options)
    if config.augment is not None:
        from calmix.data.images.augmentation import parse_steps

        parse_steps(config.augment)
    if any(getattr(config, name) is not None for name in options if name.endswith("_column")):
        config.columns()


def check_trainer(config: TrainConfig, options: Mapping[str, Option]) -> None:
    """Nothing that calmix decides is set behind its back, and nothing in vain."""
    if config.freeze_layers is not None and config.trainer.get("torch_compile"):
        raise UserError(
            f"{argument('freeze_layers')} does not work with torch_compile",
            remedy="leave one of them out",
        )
    owned = owned_fields(options)
    for name in config.trainer:
        if name in owned:
            raise UserError(f"trainer: {name} is calmix's own", remedy=f"use {owned[name]}")
    for name, least in LEAST_OF_TRAINER.items():
        check_trainer_number(name, config.trainer.get(name), least)
    if config.trainer.get("eval_strategy", "epoch") not in ("epoch", "steps"):
        raise UserError("trainer: without evaluation no epoch can be chosen", remedy="use epoch or steps")
    for own, read in (("optimizer", parse_optimizer), ("schedule", read_schedule)):
        given = getattr(config, own)
        if given is None:
            continue
        read(given)
        for name in REPLACED[own]:
            if name in config.trainer:
                raise UserError(
                    f"trainer: {name} has no effect beside {argument(own, given)}",
                    remedy=f"say it with {argument(own, 'NAME:OPTION=VALUE')}",
                )


def owned_fields(options: Mapping[str, Option]) -> dict[str, str]:
    """Fields of the Trainer that are not given under `trainer`, and what is used in their place."""
    return {found.trainer: argument(name) for name, found in options.items() if found.trainer} | DECIDED


def check_multi_label(config: TrainConfig, options: Mapping[str, Option]) -> None:
    """Refuse what has no meaning for rows of several labels, before anything is read."""
    from calmix.mixing.catalogue import method_cards

    cards = method_cards()
    if config.method in cards and not cards[config.method].multi_label:
        able = ", ".join(name for name, card in cards.items() if card.multi_label)
        raise UserError(
            f"{config.method} is not defined for rows of several labels", remedy=f"choose one of {able}"
        )
    for name in SINGLE_LABEL:
        if getattr(config, name) != options[name].default:
            raise UserError(
                f"{argument(name)} is not defined for rows of several labels", remedy="leave it out"
            )
    if config.select_by not in MULTI_LABEL_RULES:
        raise UserError(
            f"{argument('select_by', config.select_by)} is not defined for rows of several labels",
            remedy=f"choose one of {', '.join(MULTI_LABEL_RULES)}",
        )


def check_trainer_number(name: str, value: Any, least: float) -> None:
    """Refuse what is not a finite number of at least `least`; YAML reads 1e-2 as text.

    >>> check_trainer_number("weight_decay", "1e-2", 0)
    >>> check_trainer_number("gradient_accumulation_steps", -1, 1)
    Traceback (most recent call last):
    calmix.user_error.UserError: trainer: gradient_accumulation_steps is -1; give a number of at least 1
    """
    if value is None:
        return
    try:
        is_valid = not isinstance(value, bool) and least <= float(value) < math.inf
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise UserError(f"trainer: {name} is {value}", remedy=f"give a number of at least {least}")
