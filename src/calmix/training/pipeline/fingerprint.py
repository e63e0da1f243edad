"""The name of a run in the store: a hash of everything that decides its result.

The content of the data and of the network counts, not where it lies. What only decides how a run is written
down (the bins of the metrics, the rhythm of checkpoints) does not count. The number of threads does: it
decides the last bits. So does the number of processes, since each of them takes batches of its own.

Options at their defaults are not hashed: a new option does not rename the runs that were made without it. A
default that changes is a change of numerics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from calmix.data.columns import ColumnNames
from calmix.data.splits import read_splits
from calmix.runtime.processes import is_alone, process_count
from calmix.training.configuration import TrainConfig

# Raise by one when a change to calmix alters what a run of equal options gives. Stored runs then no longer
# count, and a comparison makes them again. `Method.numerics` is the same for the runs of one method.
NUMERICS_VERSION = 5
# The same for runs on a region that is filtered by AUM.
FILTER_NUMERICS = 2
LENGTH = 20


class Fingerprints:
    """Fingerprints of configurations; every file is read once in the life of this object."""

    def __init__(self) -> None:
        self.data = cache(self._data)
        self.unlabelled = cache(unlabelled_fingerprint)
        self.model = cache(model_fingerprint)
        self.teacher = cache(teacher_fingerprint)

    def of(self, config: TrainConfig) -> str:
        text = json.dumps(self.parts(config), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]

    def settled(self, config: TrainConfig) -> TrainConfig:
        """With the learning rate and epochs that its run will have."""
        from calmix.training.pipeline.settling import settle

        return config if config.is_settled else settle(config, *self._rows_of(config))

    def choice(self, config: TrainConfig) -> str | None:
        """What is chosen there, in words; None where everything was given."""
        from calmix.training.pipeline.settling import choice_line

        if config.is_settled:
            return None
        return choice_line(config, self.settled(config), sum(self._rows_of(config)))

    def _rows_of(self, config: TrainConfig) -> tuple[int, int]:
        """How many rows with and without labels."""
        from calmix.training.pipeline.settling import count_unlabelled, least_rows

        return least_rows(self._data_of(config)[2], config), count_unlabelled(config)

    def parts(self, config: TrainConfig) -> dict[str, Any]:
        """What is hashed."""
        from calmix.mixing.method import get_method
        from calmix.training.pipeline.first_stage import open_plain_run

        config = self.settled(config)
        settings = config.that_change_the_result()
        if config.model_options:
            settings["model_options"] = contents_of(config.model_options)
        method = get_method(config.method, **config.options_of_method())
        if method.numerics > 1:
            settings["method_numerics"] = method.numerics
        if config.aum_filter:
            settings["filter_numerics"] = FILTER_NUMERICS
        if config.precision == "auto" and hardware_precision(config.device) == "bfloat16":
            # Not under the name of the option: a narrow network is trained in float32 all the same.
            settings["processor"] = "bfloat16"
        if not is_alone():
            settings["processes"] = process_count()
        if config.plain_run:
            settings["plain_run"] = file_fingerprint(open_plain_run(config.plain_run).dynamics_file)
        return {
            "numerics": NUMERICS_VERSION,
            "data": self.data_of(config),
            "model": self.model(config.model),
            "options": method.hashed_options(),
            **settings,
            **({"distillation": self.distillation_of(config)} if config.teacher else {}),
        }

    def distillation_of(self, config: TrainConfig) -> dict[str, Any]:
        """Teachers by what they are made of: one that is trained first counts as its own run does."""
        from calmix.training.distillation.teaching import is_method, teacher_config

        return {
            "teachers": [
                self.of(teacher_config(config, name)) if is_method(name) else self.teacher(name)
                for name in config.teacher
            ],
            "unlabelled": self.unlabelled(config.unlabelled, config.columns()) if config.unlabelled else None,
        }

    def data_of(self, config: TrainConfig) -> dict[str, str]:
        """The fingerprint of every split."""
        return dict(self._data_of(config)[0])

    def _data_of(self, config: TrainConfig) -> tuple[dict[str, str], bool, int]:
        """The seed matters where validation rows are split off."""
        place = (config.train, config.validation, config.test, config.columns())
        found = self.data(*place, 0)
        return self.data(*place, config.seed) if found[1] and config.seed else found

    def _data(
        self, train: str, validation: str | None, test: tuple[str, ...], columns: Any, seed: int
    ) -> tuple[dict[str, str], bool, int]:
        """Fingerprints, whether validation rows were split off, and the number of training rows."""
        splits = read_splits(train, validation, test, columns=columns, seed=seed)
        named = {"train": splits.train, "validation": splits.validation, **splits.tests}
        fingerprints = {name: rows.fingerprint() for name, rows in named.items()}
        return fingerprints, splits.validation_was_split, len(splits.train)


def hardware_precision(device: str) -> str:
    """What `--precision auto` becomes on this machine, for networks that are wide enough."""
    from calmix.models.layer_precision import device_multiplies_bfloat16
    from calmix.runtime.hardware import has_accelerator

    is_cpu = device == "cpu" or not has_accelerator()
    kind = "cpu" if is_cpu else "cuda" if device == "auto" else device
    return "bfloat16" if device_multiplies_bfloat16(kind) else "float32"


def contents_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a network, those that name a file by its content."""
    found = {}
    for name, value in options.items():
        is_file = isinstance(value, str) and Path(value).is_file()
        found[name] = file_fingerprint(Path(value)) if is_file else value
    return found


def unlabelled_fingerprint(source: str, columns: ColumnNames) -> str:
    from calmix.training.distillation.teaching import read_unlabelled

    return read_unlabelled(source, columns).fingerprint()


def file_fingerprint(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def teacher_fingerprint(name: str) -> str:
    from calmix.training.distillation.teachers import open_teacher

    return open_teacher(name).identity


def model_fingerprint(name: str) -> str:
    """A hash of the files of a checkpoint directory; the name of what is not a directory."""
    from calmix.models.loading import checkpoint_fingerprint, resolve_model

    directory = Path(resolve_model(name))
    return checkpoint_fingerprint(directory) if directory.is_dir() else name
