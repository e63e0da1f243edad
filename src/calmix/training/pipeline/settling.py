"""Learning rate and epochs of a run, settled before it is trained: as given, as saved, or as suits its model.

    given by the user             stays, in every stage of the run
    of a run that goes on         what the run began with
    else                          `default_settings`, by the model and the number of training rows

Rows are counted before a region of them is chosen: all methods of a comparison have the same settings. The
first stage of a guided run has those of the guided run. A teacher that is trained first has its own where
nobody gave any: its model may be another one, and it does not see rows without labels.
"""

from __future__ import annotations

from dataclasses import replace

from calmix.data.splits import read_splits
from calmix.models.loading import EMBEDDED
from calmix.training.configuration import TEACHERS_OWN, TrainConfig
from calmix.training.default_settings import default_settings
from calmix.training.learning import shown_rate
from calmix.training.model_settings import check_rate_suits, settings_for, trainer_settings_for


def settled_to_train(config: TrainConfig) -> tuple[TrainConfig, str | None]:
    """The configuration with its settings, and a line that says what was chosen here, if anything was.

    The line is for whoever trains: once nothing can be wrong with the input any more.
    """
    if config.is_settled:
        return config, None
    rows, unlabelled = count_rows(config), count_unlabelled(config)
    settled = settle(config, rows, unlabelled)
    return settled, choice_line(config, settled, rows + unlabelled)


def settle(config: TrainConfig, rows: int, unlabelled: int = 0) -> TrainConfig:
    """The configuration with a learning rate and epochs.

    >>> given = TrainConfig(train="a.csv", output="run", model="text-cnn", epochs=7)
    >>> settled = settle(given, rows=600)
    >>> settled.learning_rate, settled.epochs, settled.optimizer
    (1.0, 7, 'adadelta:rho=0.95:eps=1e-6')
    """
    if config.is_settled:
        return config
    usual = default_settings(config.model, rows + unlabelled, config.batch_size)
    settled = config
    if config.learning_rate is None:
        settled = replace(_with_own_optimizer(settled), learning_rate=usual.learning_rate)
    if config.epochs is None:
        settled = replace(settled, epochs=usual.epochs)
    return _with_teacher(config, settled, rows)


def _with_own_optimizer(config: TrainConfig) -> TrainConfig:
    """The rate of a built-in network is that of its optimiser."""
    own = settings_for(config.model)
    if not own:
        return config
    check_rate_suits(config.model, config.optimizer)
    if config.optimizer is not None:
        return config
    return replace(
        config,
        optimizer=own["optimizer"],
        schedule=config.schedule or own["schedule"],
        trainer={**trainer_settings_for(config.model), **config.trainer},
    )


def _with_teacher(given: TrainConfig, settled: TrainConfig, rows: int) -> TrainConfig:
    """Settings of the teachers that are trained first, where they are not the student's."""
    from calmix.training.distillation.teaching import is_method, teacher_config

    trained = [name for name in given.teacher if is_method(name)]
    if not trained:
        return settled
    teacher = settle(teacher_config(given, trained[0]), rows)
    different = {
        own: getattr(teacher, name)
        for name, own in TEACHERS_OWN.items()
        if getattr(given, name) is None
        and getattr(given, own) is None
        and getattr(teacher, name) != getattr(settled, name)
    }
    return replace(settled, **different)


def count_rows(config: TrainConfig) -> int:
    """How many rows with labels a run trains on, before a region of them is chosen."""
    splits = read_splits(config.train, config.validation, (), columns=config.columns(), seed=config.seed)
    return least_rows(len(splits.train), config)


def least_rows(rows: int, config: TrainConfig) -> int:
    return rows if config.train_rows is None else min(rows, config.train_rows)


def count_unlabelled(config: TrainConfig) -> int:
    from calmix.training.distillation.teaching import read_unlabelled

    return len(read_unlabelled(config.unlabelled, config.columns())) if config.unlabelled else 0


def choice_line(given: TrainConfig, settled: TrainConfig, rows: int) -> str:
    """What was chosen, for what, and how to choose otherwise.

    >>> given = TrainConfig(train="a.csv", output="run")
    >>> choice_line(given, settle(given, 600), 600)
    'learning rate 2e-4, 6 epochs (chosen for the embedded encoder and 600 rows; --learning-rate, --epochs)'
    """
    chosen = {}
    if given.learning_rate is None and settled.learning_rate is not None:
        chosen["--learning-rate"] = f"learning rate {shown_rate(settled.learning_rate)}"
    if given.epochs is None:
        chosen["--epochs"] = f"{settled.epochs} epochs"
    model = "the embedded encoder" if given.model == EMBEDDED else given.model
    return f"{', '.join(chosen.values())} (chosen for {model} and {rows:,} rows; {', '.join(chosen)})"
