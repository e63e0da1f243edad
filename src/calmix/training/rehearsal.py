"""A look ahead at the last stage of a run, before the stages that come first are trained.

What a method cannot do with the network, the batches or the other options is said at once, not hours later.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from calmix.data.grouped_batches import RowGroups
from calmix.data.splits import read_splits
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.method import get_method
from calmix.models.inputs import Encoded
from calmix.run import Run
from calmix.training.configuration import TrainConfig
from calmix.training.hardware import check_device, prepared_processor
from calmix.training.prepared import Prepared
from calmix.training.progress import Progress, hush
from calmix.training.recipe import make_network, make_trainer
from calmix.training.teaching import read_unlabelled

ROWS = 8
"""Of the training set; one step is tried on them."""


def rehearse(config: TrainConfig) -> None:
    """One step of the method on a few rows, in groups that mean nothing: no data map is there yet."""
    check_device(config.device)
    splits = read_splits(
        config.train, config.validation, config.test, columns=config.columns(), seed=config.seed
    )
    few = splits.train.select(np.arange(min(len(splits.train), ROWS)))
    hush()
    with prepared_processor(config.threads), TemporaryDirectory() as place:
        network = make_network(config, few)
        encoded: dict[str, Encoded] = {
            "train": network.inputs.encode(few, training_seed=config.seed),
            "validation": network.inputs.encode(few),
        }
        if config.unlabelled:
            more = read_unlabelled(config, few)
            encoded["unlabelled"] = network.inputs.encode(more.select(np.arange(min(len(more), ROWS))))
        prepared = Prepared(replace(splits, train=few), encoded, network.model, network.inputs, [])
        groups = any_groups(config, few.class_count, len(few))
        trainer = make_trainer(config, Run(Path(place)), prepared, Progress(config.method), groups)
        trainer.preflight(is_taught=bool(config.teacher))


def any_groups(config: TrainConfig, classes: int, rows: int) -> RowGroups | None:
    """The groups that the method makes of some data map, each of them with all of the few rows."""
    generator, count = np.random.default_rng(0), 20 * classes
    labels = np.arange(count) % classes
    dynamics = TrainingDynamics.from_logits(generator.normal(size=(count, 2, classes)), labels)
    known = KnownRows(DataMap.from_dynamics(dynamics), config.seed, lambda positions, rule: positions)
    groups = get_method(config.method, **config.options_of_method()).groups(known)
    return None if groups is None else replace(groups, positions=(np.arange(rows),) * len(groups.names))
