"""What training needs, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import PreTrainedModel

from calmix.calibration.slices import MOST_SLICES
from calmix.data.checks import Finding, check_splits
from calmix.data.rows import Rows
from calmix.data.sampling import random_sample, stratified_sample
from calmix.data.splits import Splits, read_splits
from calmix.io.run_directory import RunDirectory
from calmix.models.cutting import cut_layers
from calmix.models.frozen_prefix import FrozenPrefix
from calmix.models.inputs import Encoded, Inputs
from calmix.models.lora import add_lora
from calmix.models.network import Network, freeze_embeddings, load_network
from calmix.runtime.option_values import MULTI_LABEL
from calmix.training.configuration import ALL_ROWS, TrainConfig
from calmix.training.distillation.teachers import Teacher
from calmix.training.distillation.teaching import Teaching
from calmix.training.frozen_layers import freeze_layers
from calmix.training.pipeline.calibrating import check_calibrator
from calmix.training.pipeline.first_stage import needs_plain_run
from calmix.training.pipeline.guidance import Guidance
from calmix.user_error import UserError, argument


@dataclass(frozen=True)
class Prepared:
    """All that training needs, read and checked."""

    splits: Splits
    encoded: dict[str, Encoded]
    model: PreTrainedModel
    inputs: Inputs
    findings: list[Finding]
    guidance: Guidance | None = None
    """The data map of the plain run that came first, if any."""
    teaching: Teaching | None = None
    """The teachers of a student."""
    prefix: FrozenPrefix | None = None
    """The layers that are frozen."""

    def fingerprints(self) -> dict[str, str]:
        """What a run is made of, beside its options: a run that goes on must find the same."""
        splits = self.splits
        named = {"train": splits.train, "validation": splits.validation, **splits.tests}
        found = {name: rows.fingerprint() for name, rows in named.items()}
        return found | (self.teaching.fingerprints() if self.teaching is not None else {})


def prepare(
    config: TrainConfig,
    plain_run: RunDirectory | None = None,
    passes: Path | None = None,
    teachers: Sequence[Teacher] | None = None,
) -> Prepared:
    """Read the data, load the network, encode, and look for what is wrong with the data."""
    splits = read_data(config)
    measured = {"validation": splits.validation, **splits.tests}
    if config.slice is not None and all(rows.slices is None for rows in measured.values()):
        raise UserError(
            f"no column {config.slice!r} in the validation rows, and there is no test file",
            file=splits.validation.source,
            remedy=f"name a column of a validation or test file with {argument('slice')}",
        )
    for name, rows in measured.items():
        if rows.slices is not None and len(set(rows.slices)) > MOST_SLICES:
            raise UserError(
                f"{len(set(rows.slices))} values of {config.slice!r} in {name}, more than {MOST_SLICES}: too "
                "many to test",
                file=rows.source,
                remedy=f"group them first, or name another column with {argument('slice')}",
            )
    guidance = None
    if plain_run is not None and passes is not None and needs_plain_run(config):
        guidance = Guidance.from_run(plain_run, config, splits.train, passes)
        if config.train_region != ALL_ROWS:
            guidance = guidance.narrowed()
            splits = replace(splits, train=guidance.rows)
    teaching = Teaching.prepare(config, splits.train, teachers) if config.teacher else None
    network = make_network(config, splits.train)
    inputs = network.inputs
    encoded: dict[str, Encoded] = {"train": inputs.encode(splits.train, training_seed=config.seed)}
    others = {"validation": splits.validation, **splits.tests}
    if teaching is not None and teaching.unlabelled is not None:
        others["unlabelled"] = teaching.unlabelled
    encoded |= {name: inputs.encode(rows) for name, rows in others.items()}
    findings = check_splits(splits) + (teaching.findings(splits) if teaching is not None else [])
    findings += inputs.findings(encoded, {"train": splits.train, **others})
    prefix = freeze_layers(config, network, encoded["train"])
    return Prepared(splits, encoded, network.model, inputs, findings, guidance, teaching, prefix)


def read_data(config: TrainConfig) -> Splits:
    """The splits; of the training rows as many as are asked for."""
    splits = read_splits(
        config.train, config.validation, config.test, columns=config.columns(), seed=config.seed
    )
    if config.train_rows is not None and config.train_rows < len(splits.train):
        draw = stratified_sample if config.train_sample == "stratified" else random_sample
        splits = replace(splits, train=draw(splits.train, config.train_rows, config.seed))
    return splits


def make_network(config: TrainConfig, train: Rows) -> Network:
    """The network to train: loaded or made, cut and frozen."""
    network = load_network(config.model, train, **config.network_settings())
    if train.is_multi_label:
        setattr(network.model.config, "problem_type", MULTI_LABEL)  # noqa: B010  # its type lists literals
    if config.student_layers is not None:
        cut_layers(network.model, config.student_layers)
    if config.freeze_embeddings:
        freeze_embeddings(network)
    check_calibrator(config, network.model)
    if config.lora is not None:
        network = add_lora(network, config.lora, frozen_layers=config.freeze_layers or 0)
    return network
