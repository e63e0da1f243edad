"""A look ahead at the last stage of a run, before the stages that come first are trained.

A method that cannot work with the network, the batches or the other options is refused now, not hours later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from calmix.data.batches.grouped import RowGroups
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.io.run_directory import RunDirectory
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.method import get_method
from calmix.models.inputs import Encoded
from calmix.runtime.hardware import check_device, prepared_processor
from calmix.runtime.progress import Progress, silence_transformers
from calmix.training.configuration import ALL_ROWS, TrainConfig
from calmix.training.distillation.teachers import Teacher
from calmix.training.distillation.teaching import Teaching
from calmix.training.frozen_layers import freeze_layers
from calmix.training.pipeline.prepared import Prepared, make_network, read_data
from calmix.training.pipeline.recipe import make_trainer
from calmix.training.pipeline.settling import settle

ROWS = 8
"""Of the training set; one step is tried on them."""


def dry_run_guided(config: TrainConfig, teachers: Sequence[Teacher]) -> None:
    """One step of the method on a few rows, in groups that mean nothing: no data map is there yet.

    `teachers` are those that are there already.
    """
    check_device(config.device)
    silence_transformers()
    splits = read_data(config)
    train = splits.train
    config = settle(config, len(train))
    few = train.select(np.arange(min(len(train), ROWS)))
    unlabelled = None
    if config.teacher:
        # Which rows of a region a teacher must know is not known yet.
        asked = train if config.train_region == ALL_ROWS else train.select([])
        unlabelled = Teaching.checked(config, asked, teachers).unlabelled
    with prepared_processor(config.threads), TemporaryDirectory() as place:
        network = make_network(config, few)
        encoded: dict[str, Encoded] = {
            "train": network.inputs.encode(few, training_seed=config.seed),
            "validation": network.inputs.encode(few),
        }
        if unlabelled is not None:
            some = unlabelled.select(np.arange(min(len(unlabelled), ROWS)))
            encoded["unlabelled"] = network.inputs.encode(some)
        freeze_layers(config, network, encoded["train"])
        splits = replace(splits, train=few, validation=few)
        prepared = Prepared(splits, encoded, network.model, network.inputs, [])
        groups = any_groups(config, few.class_count, len(few))
        trainer = make_trainer(config, RunDirectory(Path(place)), prepared, Progress(config.method), groups)
        trainer.preflight(is_taught=bool(config.teacher))


def any_groups(config: TrainConfig, classes: int, rows: int) -> RowGroups | None:
    """The groups that the method makes of some data map, each of them with all of the few rows."""
    generator, count = np.random.default_rng(0), 20 * classes
    labels = np.arange(count) % classes
    dynamics = TrainingDynamics.from_logits(generator.normal(size=(count, 2, classes)), labels)
    known = KnownRows(DataMap.from_dynamics(dynamics), config.seed, lambda positions, rule: positions)
    groups = get_method(config.method, **config.options_of_method()).groups(known)
    return None if groups is None else replace(groups, positions=(np.arange(rows),) * len(groups.names))
