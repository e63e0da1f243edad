"""Errors of a command that are found before torch is loaded: seconds earlier.

Everything here is checked again where it is used; a check that would need the network, or minutes of reading,
is left to that place.
"""

from __future__ import annotations

from pathlib import Path

from calmix.data.images.embedded import is_embedded
from calmix.data.sources import find_split_file, is_hub_name
from calmix.data.splits import name_tests, read_splits
from calmix.io.memory_tables import memory_data
from calmix.io.run_directory import RunDirectory
from calmix.io.tables import read_table
from calmix.mixing.catalogue import check_method, method_cards
from calmix.models.built_in import BUILT_IN, check_options
from calmix.runtime.hub import is_available, is_dataset_available
from calmix.runtime.optional_packages import check_trackers
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.output_directory import check_output
from calmix.user_error import UserError

# Data files up to this size are read whole here; training then takes the rows as they were read.
READ_BYTES = 16 * 2**20
EMBEDDED = "default"  # as in `models.loading`, which loads torch


def look_first(config: TrainConfig, *, resume: bool = False) -> None:
    """Raise what `train` would: names, values, the output, the files and their columns."""
    check_method(config.method, config.options_of_method())
    run = RunDirectory(Path(config.output))
    check_output(run, config, resume=resume)
    if run.is_finished:  # to be shown once more; its files may be gone
        return
    check_trackers(config.report_to)
    check_model_name(config.model)
    check_options(config.model, config.model_options)
    for name in config.teacher:
        check_teacher_name(name)
    if config.plain_run is not None:
        RunDirectory.open(config.plain_run)
    check_data(config)


def check_teacher_name(name: str) -> None:
    if not Path(name).exists() and name not in method_cards():
        raise UserError(
            "no such teacher",
            file=name,
            remedy="name a run, a checkpoint directory, a predictions file or a method to train it with",
        )


def check_model_name(name: str) -> None:
    """A built-in network, a directory, or a name that the hub or its cache knows."""
    if name in (EMBEDDED, *BUILT_IN) or Path(name).is_dir():
        return
    remedy = f"name a checkpoint directory, a hub model, or '{EMBEDDED}'"
    if Path(name).exists():
        raise UserError("not a model: a file, not a directory", file=name, remedy=remedy)
    if not is_hub_name(name):
        raise UserError("no model of this name: no such directory", file=name, remedy=remedy)
    if not is_available(name):
        raise UserError(
            "no model of this name: no such directory, and the hub cannot be reached",
            file=name,
            remedy=remedy,
        )


def check_data(config: TrainConfig) -> None:
    """The files are there; small ones are read, so that columns, labels and rows are checked too."""
    sources = [config.train, *([config.validation] if config.validation else [])]
    sources += [str(path) for path in name_tests(config.test).values()]
    sizes = [size_of(source) for source in sources]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes) and sum(known) <= READ_BYTES:
        read_splits(config.train, config.validation, config.test, columns=config.columns(), seed=config.seed)


def size_of(source: str) -> int | None:
    """Bytes of the tables behind a source; None where it holds none. `UserError` if it is not there."""
    if is_embedded(source):
        return None
    if (held := memory_data(source)) is not None:
        return 0 if all("image" not in table.names for table in held.tables.values()) else None
    if is_hub_name(source):
        if not is_dataset_available(source.partition(":")[0]):
            raise UserError(
                "no such file, and the hub cannot be reached",
                file=source,
                remedy="check the name and the connection",
            )
        return None
    path = Path(source)
    if path.is_dir():
        found = [find_split_file(path, split) for split in ("train", "validation", "test")]
        files = [file for file in found if file is not None]
        return sum(file.stat().st_size for file in files) if files else None
    if not path.exists():
        read_table(path)  # raises what reading raises
    # Images are decoded to be checked: that takes its time.
    return path.stat().st_size if path.suffix != ".npz" else None
